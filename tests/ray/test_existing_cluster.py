"""A cluster that somebody else started: struck where that was allowed, and left as it was."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from chaos.launch.ray import compat
from chaos.launch.ray.authentication import MODE
from chaos.run.clock import SystemClock, elapsed_seconds
from chaos.run.journal import read_history
from tests.ray.command import ROOT, Ran, command, ended
from tests.ray.existing import result_of, scenario_in, verdict_of
from tests.ray.foreign import ForeignCluster, agents, foreign_cluster, leave_token

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

SLUG = "worker_killed_mid_epoch"
SMOKE = ROOT / f"scenarios/smoke/{SLUG}.chaos.yaml"
PAUSED = """
scenario: a worker stands still, and the harness is killed
job: {script: SCRIPT, args: {epochs: 12}, workers: 2}
faults:
  - at: {epoch: 1, step: 2, rank: 1}
    pause_worker: {}
"""


@pytest.fixture(scope="module")
def token(home: Path) -> str:
    del home
    return leave_token()


@pytest.fixture(scope="module")
def cluster(token: str) -> Iterator[ForeignCluster]:
    """Start one that asks for a token; other modules' clusters ask for none."""
    del token
    with foreign_cluster(nodes=3) as started:
        yield started


def chaos_on(cluster: ForeignCluster, *words: str | Path, reports: Path) -> Ran:
    """Run chaos against the cluster, with its permission unless told otherwise."""
    line = command("run", *words, "--address", cluster.address, "--reports", reports)
    return ended(line, reports=reports, env=cluster.environment())


def allowed(cluster: ForeignCluster) -> list[str]:
    return ["--allow-faults-on", cluster.address]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all runs on the shared cluster: they have one baseline."""
    return tmp_path_factory.mktemp("reports")


@pytest.fixture(scope="module")
def smoke(cluster: ForeignCluster, reports: Path) -> Ran:
    return chaos_on(cluster, SMOKE, *allowed(cluster), reports=reports)


@pytest.mark.nightly
def test_a_scenario_of_the_smoke_suite_is_the_same_on_a_cluster_of_others(
    cluster: ForeignCluster, smoke: Ran
) -> None:
    assert smoke.code == 0, smoke.output
    assert verdict_of(smoke, SLUG)["status"] == "pass"
    assert len(cluster.raylets()) == 4
    assert agents() == []


def test_the_cluster_asks_for_a_token(cluster: ForeignCluster) -> None:
    asks = f"assert __import__('{compat.__name__}', fromlist='_').is_refused('{cluster.address}')"
    without = {**cluster.environment(), MODE: "disabled"}

    subprocess.run([sys.executable, "-c", asks], env=without, check=True)


@pytest.mark.nightly
def test_no_file_of_ours_tells_the_token(smoke: Ran, token: str) -> None:
    files = [path for path in smoke.reports.rglob("*") if path.is_file()]

    assert len(files) > 20
    assert not [path for path in files if token.encode() in path.read_bytes()]
    assert token not in smoke.output


def test_nothing_is_done_without_leave(cluster: ForeignCluster, tmp_path: Path) -> None:
    ran = chaos_on(cluster, SMOKE, reports=tmp_path)

    assert ran.code == 3
    assert "faults are not allowed on it" in ran.output
    assert not list(tmp_path.rglob("plan.json"))


def test_a_dry_run_names_the_nodes_and_does_nothing(
    cluster: ForeignCluster, tmp_path: Path
) -> None:
    ran = chaos_on(cluster, SMOKE, "--dry-run", reports=tmp_path)

    assert ran.code == 0, ran.output
    assert ran.output.count("may have faults") == 3
    assert ran.output.count("the head node is spared") == 1
    assert not list(tmp_path.rglob("plan.json"))


def test_a_fault_that_costs_a_node_is_not_carried_out_without_its_own_leave(
    cluster: ForeignCluster, tmp_path: Path
) -> None:
    node_lost = ROOT / "scenarios/smoke/node_lost.chaos.yaml"

    ran = chaos_on(cluster, node_lost, *allowed(cluster), reports=tmp_path)

    assert ran.code == 3
    assert "needs --allow-node-loss" in " ".join(ran.output.split())
    assert len(cluster.raylets()) == 4


@pytest.mark.nightly
def test_when_the_harness_is_killed_nothing_stands_still_and_no_agent_stays(
    cluster: ForeignCluster, reports: Path, tmp_path: Path
) -> None:
    words = [*command("run", scenario_in(tmp_path, PAUSED)), "--address", cluster.address]
    harness = subprocess.Popen(
        [*words, *allowed(cluster), "--reports", str(reports)],
        cwd=ROOT,
        env=cluster.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    paused = await_pause(reports, harness)
    assert agents()

    os.kill(harness.pid, signal.SIGKILL)
    harness.wait()

    assert within(40, lambda: not agents())
    assert within(10, lambda: not stands_still(paused))
    assert len(cluster.raylets()) == 4


@pytest.mark.nightly
def test_a_node_is_lost_where_that_was_allowed_and_all_its_history_is_there(
    tmp_path: Path,
) -> None:
    with foreign_cluster(nodes=3) as cluster:
        node_lost = ROOT / "scenarios/smoke/node_lost.chaos.yaml"

        ran = chaos_on(cluster, node_lost, *allowed(cluster), "--allow-node-loss", reports=tmp_path)

        assert ran.code == 0, ran.output
        assert verdict_of(ran)["status"] == "pass"
        assert len(cluster.raylets()) == 3


@pytest.mark.nightly
def test_a_worker_on_the_head_is_never_struck(tmp_path: Path) -> None:
    with foreign_cluster(nodes=1, head_cpus=1) as cluster:
        killed = (
            "scenario: both ranks\njob: {script: SCRIPT, args: {epochs: 3}, workers: 2}\n"
            "faults:\n  - at: {epoch: 1, step: 2, rank: 0}\n    kill_worker: {ranks: all}\n"
        )

        ran = chaos_on(cluster, scenario_in(tmp_path, killed), *allowed(cluster), reports=tmp_path)

        assert ran.code == 2, ran.output
        assert "the head node is spared" in result_of(ran, "faults-happened")["summary"]


def await_pause(reports: Path, harness: "subprocess.Popen[bytes]") -> int:
    """Wait until a run's history tells that a worker is stopped; gives its pid."""
    found: list[int] = []

    def is_paused() -> bool:
        assert harness.poll() is None
        for journals in reports.glob("x/*/journals"):
            ended = [e for e in read_history(journals) if type(e.event).__name__ == "FaultEnded"]
            invoked = [
                e for e in read_history(journals) if type(e.event).__name__ == "FaultInvoked"
            ]
            if ended:
                found.append(invoked[0].event.pid)  # type: ignore[attr-defined]
        return bool(found)

    assert within(200, is_paused)
    return found[0]


def stands_still(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:
        return False


def within(seconds: float, is_so: Any) -> bool:
    clock = SystemClock()
    start = clock.now_ns()
    while not is_so():
        if elapsed_seconds(start, clock) > seconds:
            return False
        clock.sleep(0.3)
    return True
