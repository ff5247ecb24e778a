"""What the forecast takes for granted of Ray Train's starts and of its grace, seen on a cluster."""

from pathlib import Path
from typing import Any

import pytest

from chaos.launch.ray.backend import RayBackend
from chaos.model.event import (
    ControllerState,
    FailureDecided,
    FaultEnded,
    FitReturned,
    NoticeGiven,
)
from chaos.model.expect import Expect
from chaos.model.history import History
from chaos.model.plan import Op, Plan, Shape
from chaos.model.scenario import Job, Limits
from chaos.run.directory import create_run
from chaos.run.journal import read_history
from tests.ray.command import ROOT

pytestmark = [pytest.mark.ray, pytest.mark.nightly, pytest.mark.timeout(600)]

JOB = ROOT / "tests/ray/jobs/starts_and_ends.py"
TIMEOUT = "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"
NO_ROOM = "ControllerError: WorkerGroupStartupTimeoutError"
LOST_IN_START = "ControllerError: WorkerGroupStartupFailedError"
CLOCKS_S = 0.5  # Ray's deadline is in wall-clock time, ours is not


def ran(
    folder: Path,
    *ops: dict[str, Any],
    nodes: int = 2,
    env: dict[str, str] | None = None,
    **args: Any,
) -> History:
    """Run the job, with these arguments, on a cluster of its own."""
    named = {name.replace("_", "-"): value for name, value in args.items()}
    plan = Plan(
        scenario="starts and ends",
        slug="starts-and-ends",
        file=str(JOB),
        seed=0,
        cwd=str(ROOT),
        job=Job(script=str(JOB), args=named, workers=2, env=env or {}),
        shape=Shape(nodes=nodes, cpus_per_node=1),
        ops=tuple(Op.model_validate({"index": n, **op}) for n, op in enumerate(ops)),
        expect=Expect(),
        limits=Limits(run_s=240),
    )
    directory = create_run(folder, "run", plan, {})
    with RayBackend() as backend:
        backend.execute(plan, directory, lambda _: None)
    return read_history(directory.journals)


def come(nodes: int, **at: float | str) -> dict[str, Any]:
    return {"at": at, "return_capacity": {"nodes": nodes}}


def decided(history: History) -> list[tuple[str, str, str]]:
    return [(e.error, e.charged, e.decision) for _, e in history.select_events(FailureDecided)]


def has_finished(history: History) -> bool:
    return bool(list(history.select_events(FitReturned)))


def entered_ns(history: History, state: str) -> int:
    return next(
        history.time_ns(n) for n, e in history.select_events(ControllerState) if e.state == state
    )


def test_the_start_timeout_is_not_for_what_comes_after_the_placement(tmp_path: Path) -> None:
    history = ran(tmp_path, env={TIMEOUT: "2"}, start_s=6.0)

    assert entered_ns(history, "RUNNING") - entered_ns(history, "SCHEDULING") > 6e9
    assert decided(history) == []
    assert has_finished(history)


def test_a_group_that_finds_no_room_is_tried_again_without_a_charge(tmp_path: Path) -> None:
    lost = {"at": {"epoch": 0, "step": 3, "rank": 0}, "kill_node": {}}

    history = ran(
        tmp_path, lost, come(1, state="RESCHEDULING", visit=4), env={TIMEOUT: "1"}, max_failures=1
    )

    (first, *others) = decided(history)
    assert first == ("WorkerGroupError", "failures", "RETRY")
    assert set(others) == {(NO_ROOM, "controller", "RETRY")}
    assert len(others) >= 4
    assert has_finished(history)


# The group is known, and its start takes eight seconds more.
IN_START = {"at": {"seconds": 2.0}, "node": 0, "kill_node": {}}


def test_a_loss_in_a_start_is_not_charged_to_max_failures(tmp_path: Path) -> None:
    history = ran(tmp_path, IN_START, come(3, seconds=2.5), start_s=8.0, max_failures=0)

    (first, *others) = decided(history)
    assert first == (LOST_IN_START, "controller", "RETRY")
    assert {error for error, _, _ in others} <= {NO_ROOM}
    assert has_finished(history)


def test_a_loss_in_a_start_is_charged_to_the_controllers_own_limit(tmp_path: Path) -> None:
    history = ran(tmp_path, IN_START, start_s=8.0, controller_failure_limit=0)

    assert decided(history) == [(LOST_IN_START, "controller", "RAISE")]
    assert not has_finished(history)


def test_a_group_that_a_loss_ended_late_in_its_start_keeps_the_places_of_its_survivors(
    tmp_path: Path,
) -> None:
    """Ray 2.60 does not end it: it takes a new node for the lost one, and keeps both for good."""
    comes = come(2, seconds=2.5), come(1, state="RESCHEDULING", visit=6)

    history = ran(tmp_path, IN_START, *comes, env={TIMEOUT: "3"}, start_s=8.0)

    joined = next(n for n, e in history.select_events(FaultEnded) if (e.op, e.status) == (1, "ok"))
    later = [e.error for number, e in history.select_events(FailureDecided) if number > joined]
    assert later.count(NO_ROOM) > 1
    assert has_finished(history)


NOTICE = {"at": {"epoch": 0, "step": 3, "rank": 1}, "preempt_node": {"notice_s": 3.0}}


def restarted_after_s(history: History) -> float:
    """Return how long after the node's deadline the group was given up."""
    (deadline_ns,) = (event.deadline_ns for _, event in history.select_events(NoticeGiven))
    return (entered_ns(history, "RESTARTING") - deadline_ns) / 1e9


def test_survivors_that_hang_are_waited_for_until_the_grace_is_over(tmp_path: Path) -> None:
    history = ran(tmp_path, NOTICE, nodes=3, hangs=True, grace_s=8.0)

    assert restarted_after_s(history) > 8.0 - CLOCKS_S
    assert decided(history) == [("PreemptionError", "preemptions", "RETRY")]
    assert has_finished(history)


def test_the_grace_ends_with_the_last_rank(tmp_path: Path) -> None:
    """Which budget it is charged to is a race (`ray-defects/grace_charged_to_failures`)."""
    history = ran(tmp_path, NOTICE, nodes=3, steps=60, grace_s=120.0, max_failures=1)

    assert restarted_after_s(history) < 120.0
    assert [decision for _, _, decision in decided(history)] == ["RETRY"]
    assert has_finished(history)
