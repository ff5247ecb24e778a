"""Four hosts with addresses of their own, which do not see the run's directory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.run.journal import load_history
from tests.ray.command import ROOT, Ran, command, ended
from tests.ray.existing import result_of, scenario_in, verdict_of
from tests.ray.foreign import ForeignCluster, agents
from tests.ray.hosts import Host, hosts, why_not

pytestmark = [
    pytest.mark.ray,
    pytest.mark.nightly,
    pytest.mark.timeout(600),
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]

SLUG = "worker_killed_mid_epoch"
SMOKE = ROOT / f"scenarios/smoke/{SLUG}.chaos.yaml"
CUT = """
scenario: a host is cut off
job: {script: SCRIPT, args: {epochs: 12}, workers: 2, failure: {max_failures: 2}}
faults:
  - at: {epoch: 1, step: 2, rank: 1}
    partition_node: {for_s: FOR_S}
"""


class Cluster(ForeignCluster):
    """A head and three nodes, each a host; `hidden` is seen by the head alone."""

    at: list[Host]
    hidden: Path
    shared: Path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    tmp_path = tmp_path_factory.mktemp("hosts")
    with hosts(4) as made:
        started = Cluster(host=made[0].ip, env={"GLOO_SOCKET_IFNAME": "eth0"})
        started.at, started.hidden, started.shared = made, tmp_path / "r", tmp_path / "shared"
        started.hidden.mkdir()
        started.shared.mkdir()
        try:
            started.start_head(made[0].prefix())
            for host in made[1:]:
                started.add_node(host.ip, host.prefix(hides=started.hidden))
            started.await_nodes(made[0].prefix())
            yield started
        finally:
            started.end()


def chaos_at_head(cluster: Cluster, *words: str | Path) -> Ran:
    there = ["--address", cluster.address, "--allow-faults-on", cluster.address]
    line = command("run", *words, *there, "--reports", cluster.hidden)
    env = cluster.environment()
    return ended([*cluster.at[0].prefix(), *line], reports=cluster.hidden, env=env)


def test_history_travels_where_no_directory_is_shared(cluster: Cluster) -> None:
    ran = chaos_at_head(cluster, SMOKE, "--storage", cluster.shared)

    assert ran.code == 0, ran.output
    assert verdict_of(ran, SLUG)["status"] == "pass"
    (run,) = (path for path in ran.runs() if path.parent.name == SLUG)
    sources = {entry.source for entry in load_history(run / "history.jsonl")}
    assert len([s for s in sources if s.startswith("worker-") and s.count("-") == 2]) == 4
    assert list(cluster.shared.iterdir()) == []
    assert agents() == []


def test_a_job_that_saves_where_others_do_not_see_it_is_refused(cluster: Cluster) -> None:
    ran = chaos_at_head(cluster, SMOKE)

    assert ran.code == 3, ran.output
    assert "Give cluster.storage" in " ".join(ran.output.split())


def test_storage_that_is_not_the_same_everywhere_is_refused(cluster: Cluster) -> None:
    ran = chaos_at_head(cluster, SMOKE, "--storage", cluster.hidden)

    assert ran.code == 3, ran.output
    assert "is not the same on all nodes" in " ".join(ran.output.split())


def test_a_host_that_is_cut_off_for_a_moment_comes_back(cluster: Cluster, tmp_path: Path) -> None:
    file = scenario_in(tmp_path, CUT.replace("FOR_S", "1.5"), name="blip")

    ran = chaos_at_head(cluster, file, "--storage", cluster.shared, "--allow-node-loss")

    assert result_of(ran, "faults-happened", "blip")["status"] == "pass", ran.output
    assert verdict_of(ran, "blip")["status"] == "pass"
    (run,) = (path for path in ran.runs() if path.parent.name == "blip")
    healed = [e.event for e in load_history(run / "history.jsonl")]
    assert any("answers again" in getattr(what, "detail", "") for what in healed)


def test_what_a_host_that_is_cut_off_for_long_had_not_sent_is_unknown(
    cluster: Cluster, tmp_path: Path
) -> None:
    file = scenario_in(tmp_path, CUT.replace("FOR_S", "12"), name="cut")

    ran = chaos_at_head(cluster, file, "--storage", cluster.shared, "--allow-node-loss")

    assert result_of(ran, "faults-happened", "cut")["status"] == "pass", ran.output
    assert verdict_of(ran, "cut")["status"] == "inconclusive"
    assert "was lost with it" in result_of(ran, "watched", "cut")["summary"]
    found = {result["status"] for result in verdict_of(ran, "cut")["results"]}
    assert "fail" not in found
