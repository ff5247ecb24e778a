"""Several agents as several nodes: real agents of torchelastic, with workers that are forked."""

import pytest

from chaos.faults.freeze_node import FreezeNode
from chaos.faults.kill_node import KillNode
from chaos.faults.preempt_node import PreemptNode
from chaos.faults.return_capacity import ReturnCapacity
from chaos.model.event import FailureDecided, FitRaised, WorkerGroupStarted
from chaos.model.fault_entry import FaultEntry
from chaos.model.trigger import AtRecovery, AtStep
from chaos.report.outcome import FinishedRun
from tests.torchrun.conftest import JOBS, Runs, plan_of

pytestmark = [pytest.mark.embedded, pytest.mark.timeout(600)]

COMES = ReturnCapacity(nodes=1, after_s=0.5)


def struck(runs: Runs, *faults: FaultEntry, least: int | None = None, **expect: str) -> FinishedRun:
    script, folder = JOBS / "ddp.py", runs.folder
    plan = plan_of(script, *faults, cwd=folder, retries=1, backend="fork", nodes=2, least=least)
    expected = plan.expect.model_copy(update=expect)
    clean = runs.of(plan.build_baseline_plan())
    assert clean.verdict.status == "pass", clean.verdict.headline
    return runs.of(plan.model_copy(update={"expect": expected}), clean.history)


def at(step: int, rank: int) -> AtStep:
    return AtStep(epoch=1, step=step, rank=rank)


def nodes_of(done: FinishedRun) -> list[list[str]]:
    groups = [event for _, event in done.history.select_events(WorkerGroupStarted)]
    return [[place.node_id for place in group.workers] for group in groups]


def test_a_job_of_two_nodes_goes_on_with_one_and_then_with_a_new_one(runs: Runs) -> None:
    first = AtRecovery(recovering_from=0, stage="first_step", rank=0)
    done = struck(
        runs,
        FaultEntry(at=at(2, rank=1), kill_node=KillNode()),
        FaultEntry(at=first, return_capacity=ReturnCapacity(nodes=1, hold=True)),
        least=1,
    )

    assert done.verdict.status == "pass", done.verdict.headline
    assert nodes_of(done) == [["node-0", "node-1"], ["node-0"], ["node-0", "node-2"]]
    assert [e.node_id for _, e in done.history.select_events(FailureDecided)] == ["node-0"]


@pytest.mark.nightly
@pytest.mark.parametrize(
    "fault", [{"kill_node": KillNode()}, {"preempt_node": PreemptNode(notice_s=2)}]
)
def test_a_job_of_fixed_size_waits_for_the_node_that_comes(
    runs: Runs, fault: dict[str, KillNode | PreemptNode]
) -> None:
    comes = FaultEntry(at=at(1, rank=0), return_capacity=COMES)
    done = struck(runs, comes, FaultEntry.model_validate({"at": at(2, rank=1), **fault}))

    assert done.verdict.status == "pass", done.verdict.headline
    assert nodes_of(done) == [["node-0", "node-1"], ["node-0", "node-2"]]


@pytest.mark.nightly
def test_the_loss_of_the_host_of_the_rendezvous_ends_every_agent(runs: Runs) -> None:
    lost = FaultEntry(at=at(2, rank=0), kill_node=KillNode())
    done = struck(runs, lost, least=1, outcome="error")

    assert done.verdict.status == "pass", done.verdict.headline
    assert [e.error for _, e in done.history.select_events(FitRaised)] == [
        "RendezvousConnectionError"
    ]


@pytest.mark.nightly
def test_a_node_that_stands_still_for_a_while_costs_nothing(runs: Runs) -> None:
    done = struck(runs, FaultEntry(at=at(2, rank=1), freeze_node=FreezeNode(for_s=4)))

    assert done.verdict.status == "pass", done.verdict.headline
    assert len(nodes_of(done)) == 1
