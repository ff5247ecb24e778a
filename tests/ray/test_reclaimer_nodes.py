"""A platform takes the nodes of a running cluster: found by address, announced, taken, recovered.

The platform is a stand-in for the client of Kubernetes whose eviction really ends `ray start
--block`, or this machine itself.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.model.event import NodeReclaimed, NoticeGiven
from chaos.run.journal import read_history
from tests.ray.command import ROOT, Ran, command, ended
from tests.ray.existing import result_of, scenario_in, verdict_of
from tests.ray.foreign import ForeignCluster

pytestmark = [pytest.mark.ray, pytest.mark.nightly, pytest.mark.timeout(600)]

PLATFORM = Path(__file__).parent / "platform"
EVICTED = """
scenario: a pod is evicted, and its node does not drain
job: {script: SCRIPT, workers: 2, failure: {max_failures: 1}}
faults:
  - at: {epoch: 1, step: 2, rank: 1}
    evict_node: {drain_s: 0, grace_s: 10}
expect: {attempts: 2, charges: {failures: 1, preemptions: 0}}
"""
DRAINED = """
scenario: a pod is evicted, and its own hook drains its node
job:
  script: SPOT
  args: {steps: 60, save-every: 40, step-s: 0.3}
  workers: 2
  failure: {max_failures: 0}
faults:
  - at: {epoch: 2, step: 2, rank: 1}
    preempt_node: {notice_s: 14}
expect: {attempts: 2, charges: {failures: 0, preemptions: 1}, jit_checkpoint: true}
"""


@pytest.fixture
def cluster(home: Path, tmp_path: Path) -> Iterator[ForeignCluster]:
    """Start a cluster whose nodes have addresses of their own, as pods have."""
    del home
    shared = {
        "PYTHONPATH": f"{PLATFORM}:{ROOT}",
        "PODS": str(tmp_path / "pods.json"),
        "CALLS": str(tmp_path / "calls"),
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
    }
    started = ForeignCluster(env=shared)
    try:
        started.start_head()
        for number in (2, 3, 4):
            started.add_node(f"127.0.0.{number}")
        started.await_nodes()
        write_pods(started, tmp_path, hook_s=0)
        yield started
    finally:
        started.end()


def write_pods(cluster: ForeignCluster, folder: Path, *, hook_s: int) -> None:
    """Describe the nodes to the stand-in for Kubernetes."""
    pods = {f"w-{n}": [f"127.0.0.{n + 1}", cluster.nodes[n].pid, hook_s] for n in (1, 2, 3)}
    (folder / "pods.json").write_text(json.dumps(pods))


def chaos_on(cluster: ForeignCluster, file: Path, platform: str, *words: str) -> Ran:
    reports = file.parent / "reports"
    there = ["--address", cluster.address, "--reclaim-by", platform, *words]
    line = command("run", file, *there, "--reports", reports)
    return ended(line, reports=reports, env=cluster.environment())


def allowed(cluster: ForeignCluster) -> list[str]:
    return ["--allow-faults-on", cluster.address, "--allow-node-loss"]


def stages(ran: Ran) -> list[str]:
    (run,) = ran.runs()
    return [e.stage for _, e in read_history(run / "journals").select_events(NodeReclaimed)]


def test_a_pod_is_evicted_by_its_platform_and_the_job_recovers(
    cluster: ForeignCluster, tmp_path: Path
) -> None:
    file = scenario_in(tmp_path, EVICTED)

    would = chaos_on(cluster, file, "kubernetes:jobs", "--dry-run", *allowed(cluster))
    assert would.code == 0, would.output
    assert "kubernetes takes it" in " ".join(would.output.split())
    assert would.output.count("jobs/w-") == 3
    assert not (tmp_path / "calls").exists()

    ran = chaos_on(cluster, file, "kubernetes:jobs", *allowed(cluster))

    assert ran.code == 0, ran.output
    assert verdict_of(ran)["status"] == "pass"
    (call,) = (tmp_path / "calls").read_text().splitlines()
    assert call.startswith("evict jobs/w-")
    assert call.endswith(" 10")
    assert stages(ran) == ["announced", "gone"]
    told = result_of(ran, "faults-happened")["summary"]
    assert "kubernetes took it as jobs/w-" in told
    assert "seen against a fake alone" in told
    assert len(cluster.raylets()) == 3


def test_a_drain_of_the_pods_own_hook_is_a_preemption(
    cluster: ForeignCluster, tmp_path: Path
) -> None:
    job = DRAINED.replace("SPOT", str(ROOT / "scenarios/jobs/digits_spot.py"))
    write_pods(cluster, tmp_path, hook_s=4)

    ran = chaos_on(cluster, scenario_in(tmp_path, job), "kubernetes:jobs", *allowed(cluster))

    assert ran.code == 0, ran.output
    assert verdict_of(ran)["status"] == "pass"
    (run,) = ran.runs()
    assert read_history(run / "journals").count(NoticeGiven) == 1


def test_this_machine_ends_a_node_by_its_first_process(
    cluster: ForeignCluster, tmp_path: Path
) -> None:
    file = scenario_in(tmp_path, EVICTED.replace("evict_node: {drain_s: 0, grace_s: 10}", KILL))

    ran = chaos_on(cluster, file, "local", *allowed(cluster))

    assert ran.code == 0, ran.output
    assert verdict_of(ran)["status"] == "pass"
    assert stages(ran) == ["taken"]
    assert "seen for real" in result_of(ran, "faults-happened")["summary"]
    assert len(cluster.raylets()) == 3


KILL = "kill_node: {}"
