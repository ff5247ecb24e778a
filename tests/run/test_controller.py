"""Gates hold until an op is due, a strike is recorded before and after, and happens once."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from chaos.faults.fail_upload import FailUpload
from chaos.faults.kill_node import KillNode
from chaos.faults.kill_worker import KillWorker
from chaos.faults.preempt_node import PreemptNode
from chaos.faults.world import Target
from chaos.model.event import (
    AnyEvent,
    Committed,
    FaultEnded,
    FaultInvoked,
    GateReleased,
    JournalOpened,
    NoticeGiven,
    StorageSeen,
)
from chaos.model.expect import Expect
from chaos.model.plan import Op, Plan, Shape
from chaos.model.scenario import Job, Limits
from chaos.model.trigger import AtMoment, AtStep
from chaos.run.controller import ChaosController
from chaos.run.journal import Journal, read_journal
from tests.accepted import expect_text
from tests.run.launched import launched
from tests.world import RANK_0, RANK_1


def plan_of(*, gate_s: float = 5.0, at: AtStep | AtMoment | None = None, **fault: Any) -> Plan:
    place = at or AtStep(epoch=1, step=5, rank=1)
    return Plan(
        scenario="s",
        slug="s",
        file="/s.chaos.yaml",
        seed=0,
        cwd="/",
        job=Job(script="/job.py", workers=2),
        shape=Shape(nodes=3, cpus_per_node=1),
        ops=(Op(index=0, at=place, **(fault or {"kill_worker": KillWorker()})),),
        expect=Expect(),
        limits=Limits(gate_s=gate_s),
    )


def commit(epoch: int) -> Committed:
    return Committed(attempt=0, epoch=epoch, checkpoint=f"c{epoch}", metrics=())


def events(journal: Journal) -> list[AnyEvent]:
    entries, _ = read_journal(journal.path)
    return [e.event for e in entries if not isinstance(e.event, JournalOpened)]


def kinds(journal: Journal) -> list[str]:
    return [type(event).__name__ for event in events(journal)]


def in_thread(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def ask(controller: ChaosController, index: int, answers: list[bool]) -> None:
    answers.append(controller.await_hold(index))


def ended(journal: Journal) -> FaultEnded:
    return next(e for e in events(journal) if isinstance(e, FaultEnded))


def test_storage_is_looked_at_once_the_harm_is_done_and_before_the_gate_opens(
    world: Any, journal: Journal
) -> None:
    def capture_storage(op: int) -> StorageSeen:
        assert world.done
        return StorageSeen(op=op, checkpoints=())

    controller = launched(plan_of(), world, journal, capture_storage=capture_storage)
    controller.committed(commit(0))

    controller.arrive(0, RANK_1)

    found = kinds(journal)
    assert found.index("StorageSeen") < found.index("GateReleased")


def test_storage_is_looked_at_before_a_notice_because_training_goes_on_after_it(
    world: Any, journal: Journal
) -> None:
    def capture_storage(op: int) -> StorageSeen:
        assert not world.done
        return StorageSeen(op=op, checkpoints=())

    plan = plan_of(preempt_node=PreemptNode(notice_s=1))
    controller = launched(plan, world, journal, capture_storage=capture_storage)
    controller.committed(commit(0))

    controller.arrive(0, RANK_1)
    controller.finish(within_s=10)

    assert world.done
    assert kinds(journal).count("StorageSeen") == 1


def test_storage_that_cannot_be_read_holds_up_no_strike_and_is_told_of(
    world: Any, journal: Journal
) -> None:
    def capture_storage(op: int) -> None:
        raise PermissionError(op)

    controller = launched(plan_of(), world, journal, capture_storage=capture_storage)
    controller.committed(commit(0))

    controller.arrive(0, RANK_1)

    assert ended(journal).status == "ok"
    assert "StorageSeen" not in kinds(journal)
    assert "ObserverFailed" in kinds(journal)


def test_a_strike_is_recorded_before_the_harm_and_after_the_proof(
    world: Any, journal: Journal
) -> None:
    controller = launched(plan_of(), world, journal)
    controller.committed(commit(0))

    controller.arrive(0, RANK_1)

    assert world.done == ["SIGKILL 71"]
    assert kinds(journal) == ["GateReached", "FaultInvoked", "FaultEnded", "GateReleased"]
    assert ended(journal).status == "ok"


def test_a_storage_fault_is_armed_for_its_own_rank_and_lets_the_held_one_go_on(
    world: Any, journal: Journal
) -> None:
    plan = plan_of(fail_upload=FailUpload(rank=0))
    controller = launched(plan, world, journal)
    controller.group_started({0: RANK_0, 1: RANK_1})
    controller.committed(commit(0))

    controller.arrive(0, RANK_1)
    controller.finish(within_s=10)

    assert world.done == ["arm op 0 for rank 0"]
    assert (ended(journal).status, ended(journal).detail) == ("ok", "raised on rank 1")
    found = kinds(journal)
    assert found.index("FaultInvoked") < found.index("GateReleased")


def test_a_held_worker_waits_for_the_commit_before_it(world: Any, journal: Journal) -> None:
    controller = launched(plan_of(), world, journal)
    arrival = in_thread(lambda: controller.arrive(0, RANK_1))

    arrival.join(0.2)
    assert arrival.is_alive()
    assert world.done == []
    controller.committed(commit(0))
    arrival.join(5)

    assert world.done == ["SIGKILL 71"]


def test_a_commit_that_never_comes_gives_the_op_up_and_lets_the_worker_go(
    world: Any, journal: Journal
) -> None:
    controller = launched(plan_of(gate_s=0.05), world, journal)

    controller.arrive(0, RANK_1)

    assert world.done == []
    assert ended(journal).status == "fail"
    expect_text(ended(journal).detail)


def test_a_place_reached_again_after_the_strike_is_passed(world: Any, journal: Journal) -> None:
    controller = launched(plan_of(), world, journal)
    controller.committed(commit(0))
    controller.arrive(0, RANK_1)

    controller.arrive(0, Target(attempt=1, rank=1, pid=99, node_id="node-b"))

    assert world.done == ["SIGKILL 71"]


def test_a_worker_that_does_not_die_is_a_failed_fault(world: Any, journal: Journal) -> None:
    world.ends = ()
    controller = launched(plan_of(), world, journal)
    controller.committed(commit(0))

    controller.arrive(0, RANK_1)

    assert ended(journal).status == "fail"
    assert "still runs" in ended(journal).detail


def test_harm_to_the_dead_is_not_harm_done(world: Any, journal: Journal) -> None:
    world.gone = {71}
    controller = launched(plan_of(), world, journal)
    controller.committed(commit(0))

    controller.arrive(0, RANK_1)

    assert ended(journal).status == "fail"
    assert "already gone" in ended(journal).detail


def test_a_world_that_breaks_leaves_the_outcome_open(world: Any, journal: Journal) -> None:
    world.signal_worker = None
    controller = launched(plan_of(), world, journal)
    controller.committed(commit(0))

    controller.arrive(0, RANK_1)

    assert ended(journal).status == "info"


def test_another_rank_than_the_one_at_the_gate_can_be_struck(world: Any, journal: Journal) -> None:
    plan = plan_of(kill_worker=KillWorker(rank=0))
    controller = launched(plan, world, journal)
    controller.group_started({0: RANK_0, 1: RANK_1})
    controller.committed(commit(0))

    controller.arrive(0, RANK_1)

    assert world.done == ["SIGKILL 70"]


def test_a_rank_that_nobody_holds_cannot_be_struck(world: Any, journal: Journal) -> None:
    controller = launched(plan_of(kill_worker=KillWorker(rank=0)), world, journal)
    controller.committed(commit(0))

    controller.arrive(0, RANK_1)

    assert world.done == []
    assert ended(journal).detail == "no worker holds rank 0"


def test_an_operator_may_kill_through_ray(world: Any, journal: Journal) -> None:
    controller = launched(plan_of(kill_worker=KillWorker(via="ray")), world, journal)
    controller.committed(commit(0))

    controller.arrive(0, RANK_1)

    assert world.done == ["ray.kill 1"]


def test_a_lost_node_counts_when_the_cluster_and_the_worker_are_dead(
    world: Any, journal: Journal
) -> None:
    controller = launched(plan_of(kill_node=KillNode()), world, journal)
    controller.committed(commit(0))

    controller.arrive(0, RANK_1)

    assert world.done == ["lose node-b"]
    assert ended(journal).status == "ok"


def test_a_notice_lets_training_go_on_until_the_deadline(world: Any, journal: Journal) -> None:
    world.deadline.clear()
    controller = launched(plan_of(preempt_node=PreemptNode(notice_s=3.0)), world, journal)
    controller.committed(commit(0))

    controller.arrive(0, RANK_1)

    assert world.done == ["notice node-b 3"]
    world.deadline.set()
    controller.finish(within_s=5)
    assert (world.done[0], world.done[-1]) == ("notice node-b 3", "lose node-b")
    notice = next(e for e in events(journal) if isinstance(e, NoticeGiven))
    assert (notice.node_id, notice.deadline_ns) == ("node-b", 99)
    assert sum(isinstance(e, GateReleased) for e in events(journal)) == 1


def test_a_job_that_ends_before_the_deadline_was_not_preempted(
    world: Any, journal: Journal
) -> None:
    world.over = True
    controller = launched(plan_of(preempt_node=PreemptNode(notice_s=3.0)), world, journal)
    controller.committed(commit(0))

    controller.arrive(0, RANK_1)
    controller.finish(within_s=5)

    assert ended(journal).status == "fail"
    assert "ended before" in ended(journal).detail


def test_who_is_held_in_an_attempt_that_another_fault_ended_comes_again_in_the_next(
    world: Any, journal: Journal
) -> None:
    controller = launched(plan_of(gate_s=0.3), world, journal)
    held = in_thread(lambda: controller.arrive(0, RANK_1))
    second = Target(attempt=1, rank=1, pid=99, node_id="node-b")

    controller.group_started({1: second})
    held.join(5)
    controller.group_launched(1)
    controller.committed(commit(0))
    controller.arrive(0, second)

    assert not held.is_alive()
    assert world.done == ["SIGKILL 99"]
    assert [e.status for e in events(journal) if isinstance(e, FaultEnded)] == ["ok"]


def test_the_end_of_the_run_opens_every_gate(world: Any, journal: Journal) -> None:
    controller = launched(plan_of(), world, journal)
    arrival = in_thread(lambda: controller.arrive(0, RANK_1))
    arrival.join(0.1)

    controller.finish(within_s=1)
    arrival.join(5)

    assert not arrival.is_alive()
    assert not any(isinstance(e, FaultInvoked) for e in events(journal))


def test_reported_strikes_only_while_rays_controller_is_held(world: Any, journal: Journal) -> None:
    plan = plan_of(at=AtMoment(epoch=0, moment="reported", rank=1))
    controller = launched(plan, world, journal)
    answers: list[bool] = []
    asking = in_thread(lambda: answers.append(controller.await_hold(0)))
    asking.join(0.1)
    assert asking.is_alive()

    polling = in_thread(controller.may_poll)
    asking.join(5)
    assert answers == [True]
    assert polling.is_alive()

    controller.arrive(0, RANK_1)
    polling.join(5)
    assert not polling.is_alive()
    assert world.done == ["SIGKILL 71"]


def test_what_a_job_has_passed_over_by_its_own_save_needs_no_commit(
    world: Any, journal: Journal
) -> None:
    """A rank was killed between its report and the commit, and goes on after that epoch."""
    plan = plan_of(at=AtMoment(epoch=2, moment="reported", rank=1))
    controller = launched(plan, world, journal)
    controller.committed(commit(0))
    controller.resumed(0, 2)
    answers: list[bool] = []
    asking = in_thread(lambda: ask(controller, 0, answers))
    polling = in_thread(controller.may_poll)
    asking.join(5)

    controller.arrive(0, RANK_1)
    polling.join(5)

    assert answers == [True]
    assert world.done == ["SIGKILL 71"]


def test_reported_without_a_hold_is_given_up(world: Any, journal: Journal) -> None:
    plan = plan_of(gate_s=0.05, at=AtMoment(epoch=0, moment="reported", rank=1))
    controller = launched(plan, world, journal)

    assert not controller.await_hold(0)
    controller.arrive(0, RANK_1)

    assert world.done == []
    assert "could not be held" in ended(journal).detail


def test_polls_pass_where_nothing_needs_them_held(world: Any, journal: Journal) -> None:
    launched(plan_of(), world, journal).may_poll()


def test_a_hold_that_came_too_late_does_not_stall_later_polls(world: Any, journal: Journal) -> None:
    """The rank died, or nobody polled: what it asked for must not be kept for ever."""
    plan = plan_of(gate_s=0.05, at=AtMoment(epoch=0, moment="reported", rank=1))
    controller = launched(plan, world, journal)
    assert not controller.await_hold(0)

    polling = in_thread(controller.may_poll)
    polling.join(1)

    assert not polling.is_alive()


def test_a_notice_lets_rays_controller_poll_again(world: Any, journal: Journal) -> None:
    world.deadline.clear()
    plan = plan_of(
        at=AtMoment(epoch=0, moment="reported", rank=1), preempt_node=PreemptNode(notice_s=3.0)
    )
    controller = launched(plan, world, journal)
    asking = in_thread(lambda: controller.await_hold(0))
    polling = in_thread(controller.may_poll)
    asking.join(5)

    controller.arrive(0, RANK_1)
    polling.join(5)

    assert not polling.is_alive()
    world.deadline.set()
    controller.finish(within_s=5)


def test_one_hold_serves_every_op_at_its_place(world: Any, journal: Journal) -> None:
    place = AtMoment(epoch=0, moment="reported", rank=1)
    ops = tuple(Op(index=i, at=place, kill_worker=KillWorker()) for i in (0, 1))
    plan = plan_of(at=place).model_copy(update={"ops": ops})
    controller = launched(plan, world, journal)
    answers: list[bool] = []
    polling: list[threading.Thread] = []

    for index in (0, 1):
        asking = in_thread(partial(ask, controller, index, answers))
        asking.join(0.1)
        if not polling:
            polling.append(in_thread(controller.may_poll))
        asking.join(5)
    controller.arrive(0, RANK_1)
    polling[0].join(5)

    assert answers == [True, True]
    assert not polling[0].is_alive()
