"""torchrun's options for one agent and for several, and what several together came to."""

from pathlib import Path

import pytest

from chaos.errors import ScenarioError
from chaos.launch.torchrun.job import build_end_event, build_fit_event
from chaos.launch.torchrun.rendezvous import build_launch_options
from chaos.model.event import AgentEnded, FitRaised, FitReturned
from chaos.model.plan import Plan
from chaos.model.scenario import ClusterShape, FailureBudget, Job, Scenario
from chaos.plan.make import make_plan
from chaos.scenario_file.load import load_scenario

LOST = AgentEnded(node_id="node-1", error="RendezvousClosedError", message="closed")
BROKEN = AgentEnded(node_id="node-0", error="ChildFailedError", message="ValueError: 7")


def plan(*, workers: int = 4, least: int | None = None, nodes: int | None = None) -> Plan:
    job = Job(
        launcher="torchrun",
        script="x.py",
        workers=workers,
        min_workers=least,
        failure=FailureBudget(max_failures=2),
    )
    scenario = Scenario(scenario="x", job=job, cluster=ClusterShape(nodes=nodes))
    return make_plan(scenario, file=Path("x.chaos.yaml"), seed=0, cwd=Path("/x"))


def test_one_node_is_standalone_whatever_the_rendezvous_is_told() -> None:
    words = build_launch_options(plan(), 0, 0, {"PET_RDZV_CONF": "join_timeout=9"})

    assert words == ["--standalone", "--nproc-per-node=4"]


def test_several_nodes_share_the_workers_and_one_rendezvous() -> None:
    first, second = (build_launch_options(plan(nodes=2), node, 4711, {}) for node in (0, 1))

    assert first[:2] == second[:2] == ["--nnodes=2", "--nproc-per-node=2"]
    assert "--rdzv-endpoint=127.0.0.101:4711" in set(first) & set(second)
    hosts = ["is_host=1" in str(first), "is_host=1" in str(second)]
    assert hosts == [True, False]


@pytest.mark.parametrize(("least", "nnodes"), [(None, "2"), (2, "1:2")])
def test_the_fewest_workers_are_the_fewest_nodes(least: int | None, nnodes: str) -> None:
    assert f"--nnodes={nnodes}" in build_launch_options(plan(least=least, nodes=2), 0, 0, {})


def test_settings_of_the_user_win() -> None:
    env = {"PET_RDZV_CONF": "join_timeout=9, read_timeout=5"}
    conf = next(w for w in build_launch_options(plan(nodes=2), 1, 7, env) if "rdzv-conf" in w)

    assert "join_timeout=9" in conf
    assert "read_timeout=5" in conf
    assert "join_timeout=30" not in conf
    assert "last_call_timeout=2" in conf


def test_the_call_states_the_range_of_an_elastic_job() -> None:
    assert build_fit_event(plan(nodes=2)).settings == {"num_workers": 4, "max_failures": 2}
    assert build_fit_event(plan(nodes=2, least=2)).settings["num_workers"] == [2, 4]


def test_a_job_has_ended_well_if_all_agents_have_that_no_fault_took() -> None:
    assert isinstance(build_end_event({"node-0": 0}, {}, {"node-0", "node-1"}), FitReturned)


def test_an_agent_that_came_when_the_job_was_done_has_no_part_in_it() -> None:
    codes = {"node-0": 0, "node-2": 1}

    assert isinstance(build_end_event(codes, {"node-2": LOST}, {"node-0"}), FitReturned)


def test_the_error_of_a_worker_comes_before_those_that_it_causes() -> None:
    ended = build_end_event({"node-1": 1, "node-0": 1}, {"node-1": LOST, "node-0": BROKEN}, ())

    assert ended == FitRaised(
        error="ChildFailedError", message="ValueError: 7", launcher="torchrun"
    )


def test_a_job_without_a_node_has_failed() -> None:
    ended = build_end_event({}, {}, {"node-0", "node-1"})

    assert isinstance(ended, FitRaised)
    assert ended.error == "NodeDied"


JOB = """scenario: x
job: {launcher: torchrun, script: x.py, workers: %s}
cluster: {nodes: %s}
faults:
  - at: {epoch: 1, step: 1, rank: 1}
    %s
"""


@pytest.mark.parametrize(
    ("workers", "nodes", "fault", "words"),
    [
        (2, 1, "kill_node: {}", "kill_node needs several nodes"),
        (3, 2, "freeze_node: {for_s: 1}", "3 are no multiple"),
        (2, 2, "kill_node: {}", "1 of 2 nodes are left"),
        (2, 2, "kill_node: {raylet_only: true}", "needs Ray Train"),
        (2, 2, "preempt_node: {notice_s: 1, reclaim: never}", "needs Ray Train"),
        (2, 2, "withhold_capacity: {nodes: 1}", "needs Ray Train"),
    ],
)
def test_what_cannot_be_is_refused(
    tmp_path: Path, workers: int, nodes: int, fault: str, words: str
) -> None:
    (tmp_path / "x.py").touch()
    file = tmp_path / "x.chaos.yaml"
    file.write_text(JOB % (workers, nodes, fault))

    with pytest.raises(ScenarioError, match=words):
        load_scenario(file)


def test_a_frozen_node_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "x.py").touch()
    file = tmp_path / "x.chaos.yaml"
    file.write_text(JOB % (2, 2, "freeze_node: {for_s: 1}"))

    assert load_scenario(file).cluster.nodes == 2
