"""Nodes that stand still, come and go, and drivers that are started again, without a cluster."""

from typing import Any

import pytest

from chaos.faults.freeze_node import FreezeNode
from chaos.faults.kill_driver import KillDriver
from chaos.faults.kill_node import KillNode
from chaos.faults.kill_worker import KillWorker
from chaos.faults.preempt_node import PreemptNode
from chaos.faults.return_capacity import ReturnCapacity
from chaos.model.event import DriverExited, FailureDecided, WorkerGroupStarted, WorkerStarted
from chaos.model.fault_entry import FaultEntry
from chaos.model.trigger import AtState, AtStep
from tests.forked.conftest import ROOT, RunJob, kill, lose_node

pytestmark = pytest.mark.timeout(180)


def at(epoch: int, step: int, rank: int = 0, **fault: Any) -> FaultEntry:
    return FaultEntry(at=AtStep(epoch=epoch, step=step, rank=rank), **fault)


def test_a_driver_that_is_killed_is_started_again_and_resumes(run: RunJob) -> None:
    baseline = run().history

    judged = run(
        ops=(kill(epoch=1, step=1), at(1, 2, kill_driver=KillDriver()), kill(epoch=2, step=2)),
        baseline=baseline,
    )

    assert judged.verdict.status == "pass", judged.verdict.headline
    assert [e.code for _, e in judged.history.select_events(DriverExited)] == [-9, 0]
    started = [(e.attempt, e.epoch) for _, e in judged.history.select_events(WorkerStarted)]
    assert started == [(0, 0), (1, 1), (2, 1), (3, 2)]


@pytest.mark.parametrize("fault", [{"kill_worker": KillWorker()}, {"kill_node": KillNode()}])
def test_who_is_lost_as_the_group_shuts_down_costs_nothing(run: RunJob, fault: Any) -> None:
    end = FaultEntry(at=AtState(state="SHUTTING_DOWN", rank=0), **fault)

    judged = run(ops=(end,), baseline=run().history)

    assert judged.verdict.status == "pass", judged.verdict.headline
    assert not list(judged.history.select_events(FailureDecided))


def test_a_driver_that_is_started_again_after_the_end_has_nothing_left_to_do(run: RunJob) -> None:
    end = FaultEntry(at=AtState(state="FINISHED", rank=0), kill_driver=KillDriver())

    judged = run(ops=(end,), baseline=run().history)

    assert judged.verdict.status == "pass", judged.verdict.headline
    assert "(nothing was left to do, 0 new steps)" in judged.verdict.headline


def test_a_node_that_stands_still_for_a_moment_is_a_pause(run: RunJob) -> None:
    judged = run(ops=(at(1, 2, freeze_node=FreezeNode(for_s=0.3)),), baseline=run().history)

    assert judged.verdict.status == "pass", judged.verdict.headline
    assert not list(judged.history.select_events(FailureDecided))


def test_a_job_without_nodes_waits_for_new_ones(run: RunJob) -> None:
    come = at(1, 1, return_capacity=ReturnCapacity(nodes=1, after_s=0.5))
    judged = run(ops=(come, lose_node(epoch=1, step=2)), baseline=run().history, spares=0)

    assert judged.verdict.status == "pass", judged.verdict.headline
    assert judged.result("attempts") == "pass"


@pytest.mark.nightly
def test_an_elastic_job_grows_when_a_node_comes_back(run: RunJob) -> None:
    digits = {
        "script": ROOT / "scenarios/jobs/digits_ddp.py",
        "epochs": 20,
        "batch-size": 128,
        "min-workers": 1,
        "grow-after": 0.2,
    }
    elastic = {**digits, "workers": 2, "min_workers": 1, "spares": 0, "run_s": 90.0}
    baseline = run(**elastic).history
    back = at(3, 1, return_capacity=ReturnCapacity(nodes=1))

    judged = run(**elastic, ops=(lose_node(epoch=1, step=2, rank=1), back), baseline=baseline)

    assert judged.verdict.status == "pass", judged.verdict.headline
    sizes = [len(event.workers) for _, event in judged.history.select_events(WorkerGroupStarted)]
    assert sizes == [2, 1, 2]


def test_nodes_that_are_lost_together_are_one_failure(run: RunJob) -> None:
    digits = {"script": ROOT / "scenarios/jobs/digits_ddp.py", "epochs": 2, "batch-size": 128}
    pair = {**digits, "workers": 2, "spares": 2}
    both = at(1, 2, kill_node=KillNode(ranks=(0, 1)))

    judged = run(**pair, ops=(both,), baseline=run(**pair).history)

    assert judged.verdict.status == "pass", judged.verdict.headline
    # On a busy machine a start may time out besides, which costs the job none of its budgets.
    charged = [e.charged for _, e in judged.history.select_events(FailureDecided)]
    assert [budget for budget in charged if budget != "controller"] == ["failures"]


@pytest.mark.nightly
def test_ray_leaves_a_node_that_was_announced_to_go_and_stays(run: RunJob) -> None:
    digits = {"script": ROOT / "scenarios/jobs/digits_ddp.py", "epochs": 12, "batch-size": 128}
    pair = {**digits, "workers": 2, "spares": 1}
    alarm = at(1, 2, rank=1, preempt_node=PreemptNode(notice_s=0.3, reclaim="never"))

    judged = run(**pair, ops=(alarm,), baseline=run(**pair).history)

    assert judged.verdict.status == "pass", judged.verdict.headline
    assert [e.charged for _, e in judged.history.select_events(FailureDecided)] == ["preemptions"]


def test_a_job_that_polls_sees_the_notice_of_its_own_node_and_none_on_the_next(run: RunJob) -> None:
    # The job asks every 0.1 s, and on a busy machine much less often.
    notice = at(1, 1, preempt_node=PreemptNode(notice_s=1))

    judged = run(script=ROOT / "tests/forked/jobs/polls.py", metadata="aws", ops=(notice,))

    assert not judged.verdict.broken, judged.verdict.headline
    log = (judged.directory.logs / "metadata.log").read_text().splitlines()
    asked = [tuple(line.split()[1:2] + line.split()[-1:]) for line in log]
    # A worker may be killed with its request under way: then no process has the socket any more.
    seen = [(node, status) for node, status in asked if node != "-"]
    assert list(dict.fromkeys(seen)) == [("node-0", "404"), ("node-0", "200"), ("node-1", "404")]
