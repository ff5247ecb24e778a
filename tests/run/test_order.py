"""What a worker is told at its gate, and what is undone after a strike."""

import threading
from typing import Any

from chaos.faults.hang_worker import HangWorker
from chaos.faults.kill_worker import KillWorker
from chaos.faults.order import Hang, Order, Raise
from chaos.faults.pause_worker import PauseWorker
from chaos.faults.raise_in_worker import RaiseInWorker
from chaos.faults.world import Target
from chaos.model.event import FaultHealed
from chaos.model.plan import Op
from chaos.model.trigger import AtRecovery
from chaos.run.journal import Journal
from tests.accepted import expect_text
from tests.run.launched import launched
from tests.run.test_controller import commit, ended, events, kinds, plan_of
from tests.world import RANK_0, RANK_1


def test_a_worker_is_let_go_with_its_order(world: Any, journal: Journal) -> None:
    controller = launched(plan_of(hang_worker=HangWorker()), world, journal)
    controller.committed(commit(0))

    order = controller.arrive(0, RANK_1)
    controller.finish(within_s=5)

    assert isinstance(order, Hang)
    assert ended(journal).status == "ok"


def test_an_order_for_all_reaches_the_rank_that_came_first(world: Any, journal: Journal) -> None:
    world.errors = {0: "InjectedError: m", 1: "InjectedError: m"}
    fault = RaiseInWorker(message="m", ranks="all")
    controller = launched(plan_of(raise_in_worker=fault), world, journal)
    controller.committed(commit(0))
    early: list[Order | None] = []
    waiting = threading.Thread(target=lambda: early.append(controller.arrive(0, RANK_0)))
    waiting.start()

    order = controller.arrive(0, RANK_1)
    waiting.join(5)
    controller.finish(within_s=5)

    assert isinstance(order, Raise)
    assert early == [order]
    expect_text(ended(journal).detail)


def test_a_rank_beside_the_triggers_is_not_held_for_ever(world: Any, journal: Journal) -> None:
    plan = plan_of(gate_s=0.05, raise_in_worker=RaiseInWorker(ranks="all"))

    assert launched(plan, world, journal).arrive(0, RANK_0) is None


def test_a_pause_is_undone_once_the_rank_is_let_go(world: Any, journal: Journal) -> None:
    controller = launched(plan_of(pause_worker=PauseWorker(for_s=3)), world, journal)
    controller.committed(commit(0))

    assert controller.arrive(0, RANK_1) is None
    controller.finish(within_s=5)

    assert world.done == ["SIGSTOP 71", "3 s pass", "SIGCONT 71"]
    assert kinds(journal)[-2:] == ["GateReleased", "FaultHealed"]


def test_what_did_not_land_is_not_undone(world: Any, journal: Journal) -> None:
    world.stops = False
    controller = launched(plan_of(pause_worker=PauseWorker()), world, journal)
    controller.committed(commit(0))

    controller.arrive(0, RANK_1)
    controller.finish(within_s=5)

    assert not any(isinstance(event, FaultHealed) for event in events(journal))


def test_a_recovery_is_struck_in_the_next_attempt_and_not_before(
    world: Any, journal: Journal
) -> None:
    again = Op(index=1, at=AtRecovery(recovering_from=0, rank=1), kill_worker=KillWorker())
    plan = plan_of()
    controller = launched(plan.model_copy(update={"ops": (*plan.ops, again)}), world, journal)
    second = Target(attempt=1, rank=1, pid=99, node_id="node-b")
    controller.committed(commit(0))

    controller.arrive(1, RANK_1)
    assert world.done == []
    controller.arrive(0, RANK_1)
    controller.group_started({1: second})
    controller.group_launched(1)
    controller.arrive(1, second)

    assert world.done == ["SIGKILL 71", "SIGKILL 99"]


def test_what_cannot_be_undone_is_recorded_as_such(world: Any, journal: Journal) -> None:
    controller = launched(plan_of(pause_worker=PauseWorker()), world, journal)
    controller.committed(commit(0))
    world.wait_seconds = None

    controller.arrive(0, RANK_1)
    controller.finish(within_s=5)

    assert events(journal)[-1].detail.startswith("not undone: TypeError")  # type: ignore[attr-defined]
