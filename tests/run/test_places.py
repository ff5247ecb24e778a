"""Places that hold no worker, or only one attempt's: states, times, starts."""

import threading
from typing import Any

import pytest

from chaos.faults.kill_node import KillNode
from chaos.faults.kill_worker import KillWorker
from chaos.faults.return_capacity import ReturnCapacity
from chaos.faults.world import Target
from chaos.model.event import AnyEvent, FaultEnded, FaultInvoked, JournalOpened
from chaos.model.expect import Expect
from chaos.model.plan import Op, Plan, Shape
from chaos.model.scenario import Job, Limits
from chaos.model.trigger import AtMoment, AtStart, AtState, AtStep, AtTime
from chaos.run.controller import ChaosController
from chaos.run.journal import Journal, read_journal
from tests.accepted import expect_text
from tests.run.launched import launched
from tests.world import RANK_0, RANK_1

KILL = {"kill_worker": KillWorker()}
RUNNING = AtState(state="RUNNING", rank=1)


def plan_of(at: AtStep | AtMoment | AtStart | AtState | AtTime, **fault: Any) -> Plan:
    return Plan(
        scenario="s",
        slug="s",
        file="/s.chaos.yaml",
        seed=0,
        cwd="/",
        job=Job(script="/job.py", workers=2),
        shape=Shape(nodes=3, cpus_per_node=1),
        ops=(Op(index=0, at=at, **(fault or KILL)),),
        expect=Expect(),
        limits=Limits(gate_s=5.0),
    )


def events(journal: Journal) -> list[AnyEvent]:
    entries, _ = read_journal(journal.path)
    return [e.event for e in entries if not isinstance(e.event, JournalOpened)]


def outcomes(journal: Journal) -> list[tuple[str, str]]:
    return [(e.status, e.detail) for e in events(journal) if isinstance(e, FaultEnded)]


def test_a_state_is_held_until_the_worker_of_its_rank_is_gone(world: Any, journal: Journal) -> None:
    controller = ChaosController(plan_of(RUNNING), world, journal)
    controller.group_started({0: RANK_0, 1: RANK_1})

    controller.enter_state(0)

    assert world.done == [f"SIGKILL {RANK_1.pid}"]
    controller.finish(within_s=5)
    assert [status for status, _ in outcomes(journal)] == ["ok"]


def test_a_state_strikes_once(world: Any, journal: Journal) -> None:
    controller = ChaosController(plan_of(RUNNING), world, journal)
    controller.group_started({0: RANK_0, 1: RANK_1})

    controller.enter_state(0)
    controller.enter_state(0)

    assert len(world.done) == 1


def test_a_state_without_workers_has_nobody_to_kill(world: Any, journal: Journal) -> None:
    controller = ChaosController(plan_of(RUNNING), world, journal)

    controller.enter_state(0)
    controller.finish(within_s=5)

    assert outcomes(journal) == [("fail", "no worker holds rank 1")]
    assert not world.done


def test_capacity_changes_where_no_worker_is(world: Any, journal: Journal) -> None:
    at = AtState(state="SCHEDULING", rank=0)
    plan = plan_of(at, return_capacity=ReturnCapacity(nodes=1))
    controller = ChaosController(plan, world, journal)

    controller.enter_state(0)
    controller.finish(within_s=5)

    assert "add 1" in world.done


def test_after_a_time_whoever_holds_the_rank_is_struck(world: Any, journal: Journal) -> None:
    struck = threading.Event()

    def strike(target: Target, _: str) -> None:
        world.gone.add(target.pid)
        struck.set()

    world.signal_worker = strike
    controller = launched(plan_of(AtTime(seconds=0.01, rank=1)), world, journal)

    controller.group_started({0: RANK_0, 1: RANK_1})

    assert struck.wait(10)
    controller.finish(within_s=5)
    invoked = [e for e in events(journal) if isinstance(e, FaultInvoked)]
    assert [(e.pid, e.rank) for e in invoked] == [(RANK_1.pid, 1)]


def test_a_run_that_is_over_first_is_not_struck_in_time(world: Any, journal: Journal) -> None:
    controller = launched(plan_of(AtTime(seconds=600, rank=1)), world, journal)
    controller.group_started({0: RANK_0, 1: RANK_1})

    controller.finish(within_s=5)

    assert not events(journal)


def test_a_time_that_falls_into_a_launch_strikes_once_that_is_over(
    world: Any, journal: Journal
) -> None:
    struck = threading.Event()

    def strike(target: Target, _: str) -> None:
        world.gone.add(target.pid)
        struck.set()

    world.signal_worker = strike
    controller = ChaosController(plan_of(AtTime(seconds=0.01, rank=1)), world, journal)

    controller.group_started({0: RANK_0, 1: RANK_1})
    assert not struck.wait(0.1)
    controller.group_launched(0)

    assert struck.wait(10)
    controller.finish(within_s=5)


def by_node(number: int, **fault: Any) -> Plan:
    plan = plan_of(AtTime(seconds=0.01, rank=0), **fault)
    return plan.model_copy(update={"ops": (plan.ops[0].model_copy(update={"node": number}),)})


@pytest.fixture
def ended(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return an event that is set as soon as a strike's end is written down."""
    over, add = threading.Event(), journal.add

    def listen(event: AnyEvent) -> None:
        add(event)
        if isinstance(event, FaultEnded):
            over.set()

    monkeypatch.setattr(journal, "add", listen)
    return over


def test_a_node_is_struck_by_its_number_also_while_its_workers_are_launched(
    world: Any, journal: Journal, ended: threading.Event
) -> None:
    controller = ChaosController(by_node(1, kill_node=KillNode()), world, journal)

    controller.group_started({0: RANK_0, 1: RANK_1})

    assert ended.wait(10)
    assert [status for status, _ in outcomes(journal)] == ["ok"]
    assert world.lost == {RANK_1.node_id}
    controller.finish(within_s=5)


def test_a_node_that_holds_no_worker_is_lost_as_well(
    world: Any, journal: Journal, ended: threading.Event
) -> None:
    controller = launched(by_node(1, kill_node=KillNode()), world, journal)

    controller.group_started({0: RANK_0})

    assert ended.wait(10)
    assert [status for status, _ in outcomes(journal)] == ["ok"]
    assert world.lost == {"node-b"}
    controller.finish(within_s=5)


@pytest.mark.parametrize(("has_trained", "gone"), [(False, set()), (True, {RANK_1.pid})])
def test_a_worker_on_a_node_is_spared_until_its_first_step(
    has_trained: bool,
    gone: set[int],
    world: Any,
    journal: Journal,
    ended: threading.Event,
) -> None:
    controller = ChaosController(
        by_node(1, **KILL), world, journal, has_trained=lambda _: has_trained
    )

    controller.group_started({0: RANK_0, 1: RANK_1})

    assert ended.wait(10)
    assert world.gone == gone
    controller.finish(within_s=5)


def test_nodes_come_in_time_though_a_launch_is_under_way(
    world: Any, journal: Journal, ended: threading.Event
) -> None:
    plan = plan_of(AtTime(seconds=0.01, rank=0), return_capacity=ReturnCapacity(nodes=1))
    controller = ChaosController(plan, world, journal)

    controller.group_started({0: RANK_0, 1: RANK_1})

    assert ended.wait(10)
    assert [status for status, _ in outcomes(journal)] == ["ok"]
    controller.finish(within_s=5)


@pytest.mark.parametrize(
    "at",
    [
        AtStart(starting=0, rank=1),
        AtStep(epoch=0, step=1, rank=1),
        AtMoment(epoch=0, moment="saving", rank=1),
    ],
    ids=str,
)
def test_nobody_is_struck_before_every_rank_was_launched(
    at: AtStart | AtStep | AtMoment, world: Any, journal: Journal
) -> None:
    """Ray 2.60's controller itself fails where a worker dies in the launch."""
    controller = ChaosController(plan_of(at), world, journal)
    arrived = threading.Thread(target=controller.arrive, args=(0, RANK_1))

    arrived.start()
    controller.group_started({0: RANK_0, 1: RANK_1})
    arrived.join(0.2)
    assert arrived.is_alive()
    assert not world.done
    controller.group_launched(0)
    arrived.join(10)

    assert not arrived.is_alive()
    assert world.done == [f"SIGKILL {RANK_1.pid}"]


def test_a_launch_is_struck_as_soon_as_its_whole_group_is_known(
    world: Any, journal: Journal
) -> None:
    at = AtStart(starting=0, at_launch=True, rank=1)
    controller = ChaosController(plan_of(at), world, journal)
    arrived = threading.Thread(target=controller.arrive, args=(0, RANK_1))

    arrived.start()
    controller.group_started({0: RANK_0, 1: RANK_1})
    assert not world.done
    controller.group_launched(0)
    arrived.join(10)

    assert not arrived.is_alive()
    assert world.done == [f"SIGKILL {RANK_1.pid}"]


def test_a_start_that_ray_never_launched_is_not_struck(world: Any, journal: Journal) -> None:
    plan = plan_of(AtStart(starting=0, rank=1))
    plan = plan.model_copy(update={"limits": Limits(gate_s=0.05)})
    controller = ChaosController(plan, world, journal)
    controller.group_started({0: RANK_0, 1: RANK_1})

    controller.arrive(0, RANK_1)

    assert not world.done


def test_a_launch_waits_for_the_group_alone(world: Any, journal: Journal) -> None:
    at = AtStart(starting=0, at_launch=True, rank=1)
    controller = ChaosController(plan_of(at), world, journal)
    arrived = threading.Thread(target=controller.arrive, args=(0, RANK_1))

    arrived.start()
    controller.group_started({0: RANK_0, 1: RANK_1})
    arrived.join(10)

    assert world.done == [f"SIGKILL {RANK_1.pid}"]


def test_a_launch_that_never_ends_gives_the_op_up(world: Any, journal: Journal) -> None:
    plan = plan_of(AtStart(starting=0, rank=1))
    plan = plan.model_copy(update={"limits": Limits(gate_s=0.05)})
    controller = ChaosController(plan, world, journal)
    controller.group_started({0: RANK_0, 1: RANK_1})

    controller.arrive(0, RANK_1)

    assert not world.done
    ((status, detail),) = outcomes(journal)
    assert status == "fail"
    expect_text(detail)
