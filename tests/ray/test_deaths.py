"""Who has ended a part of our cluster: a fault, or somebody else; no cluster here."""

import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from chaos.launch.ray.deaths import Death, Deaths, JobDeaths
from chaos.model.event import (
    AnyEvent,
    ControllerState,
    FailureDecided,
    FaultEnded,
    FaultInvoked,
    JournalOpened,
    TrainFnEnded,
    WorkerGroupStarted,
    WorkerPlace,
)
from chaos.processes.tree import is_running

KILLED = Death("raylet", "0a1b2c3d4e5f", 42, -signal.SIGKILL, is_head=False)
OTHER = Death("raylet", "ffffffffffff", 43, -signal.SIGKILL, is_head=False)
HEADS = Death("gcs_server", "0000aaaa1111", 7, -signal.SIGKILL, is_head=True)


def nobody() -> set[str]:
    raise AssertionError


def test_a_node_that_a_fault_has_struck_is_asked_for_once() -> None:
    asked: list[str] = []

    def struck() -> set[str]:
        asked.append("struck")
        return {KILLED.node_id}

    deaths = Deaths(lambda: [KILLED], struck)

    assert [deaths.find_unexplained(), deaths.find_unexplained()] == [None, None]
    assert asked == ["struck"]


def test_a_node_that_no_fault_has_struck_was_ended_by_somebody_else() -> None:
    deaths = Deaths(lambda: [KILLED, OTHER], lambda: {KILLED.node_id})

    assert deaths.find_unexplained() == OTHER


def test_where_the_head_has_ended_nobody_is_asked() -> None:
    assert Deaths(lambda: [KILLED, HEADS], nobody).find_unexplained() == HEADS


def test_raylets_that_end_without_the_gcs_that_a_plan_ends_are_the_faults() -> None:
    assert Deaths(lambda: [KILLED], nobody, ends_gcs=True).find_unexplained() is None
    assert Deaths(lambda: [HEADS], nobody, ends_gcs=True).find_unexplained() == HEADS


@pytest.mark.parametrize(
    ("code", "how", "remedy"),
    [
        (-signal.SIGKILL, "was ended by SIGKILL, and chaos did not end it", "more memory"),
        (-signal.SIGABRT, "ended by itself, with code -6", "less else runs"),
        (1, "ended by itself, with code 1", "less else runs"),
    ],
)
def test_it_is_said_what_has_ended_and_what_to_do(code: int, how: str, remedy: str) -> None:
    said = str(replace(HEADS, code=code))

    assert said.startswith(f"the gcs server of the head (pid 7) {how}. ")
    assert remedy in said


def group(attempt: int, **pids: int) -> WorkerGroupStarted:
    places = [
        WorkerPlace(rank=rank, pid=pid, node_id="n", node_ip="h")
        for rank, pid in enumerate(pids.values())
    ]
    return WorkerGroupStarted(attempt=attempt, workers=tuple(places))


OPENED = JournalOpened(role="controller", host="h", pid=9, wall_ns=0)
RUNNING = ControllerState(previous="SCHEDULING", state="RUNNING")
RESTARTING = ControllerState(previous="RUNNING", state="RESTARTING")
SHUTTING = ControllerState(previous="RUNNING", state="SHUTTING_DOWN")
STRUCK = FaultInvoked(op=0, fault="kill_worker", attempt=0, rank=0, pid=1, node_id="n")
DONE = FaultEnded(op=0, status="ok", detail="")
DECIDED = FailureDecided(
    attempt=0, decision="RETRY", charged="failures", error="WorkerGroupError", errors={}
)
FIRST: list[AnyEvent] = [OPENED, group(0, a=1, b=2), RUNNING]


def test_a_worker_that_is_gone_while_it_trains_was_ended_by_somebody_else() -> None:
    deaths = JobDeaths(is_gone={2}.__contains__)

    assert (deaths.find_unexplained(FIRST) or "").startswith(
        "rank 1's process (pid 2) is gone without"
    )


@pytest.mark.parametrize(
    "then",
    [
        [STRUCK],
        [STRUCK, DONE],
        [DECIDED],
        [RESTARTING],
        [SHUTTING],
        [TrainFnEnded(attempt=0, rank=1, epoch=0, step=1)],
    ],
)
def test_one_that_a_fault_or_ray_or_its_end_explains_was_not(then: list[AnyEvent]) -> None:
    assert JobDeaths(is_gone={2}.__contains__).find_unexplained([*FIRST, *then]) is None


def test_a_fault_explains_its_own_attempt_and_no_later_one() -> None:
    later: list[AnyEvent] = [STRUCK, DONE, DECIDED, RESTARTING, group(1, a=3, b=4), RUNNING]

    assert JobDeaths(is_gone={3}.__contains__).find_unexplained([*FIRST, *later]) is not None
    assert JobDeaths(is_gone={1, 2}.__contains__).find_unexplained([*FIRST, *later]) is None


def test_a_fault_that_is_under_way_explains_what_ends_meanwhile() -> None:
    later: list[AnyEvent] = [STRUCK, DECIDED, RESTARTING, group(1, a=3, b=4), RUNNING]

    assert JobDeaths(is_gone={3}.__contains__).find_unexplained([*FIRST, *later]) is None


@pytest.mark.parametrize("is_struck", [True, False])
def test_a_worker_that_dies_in_a_start_was_ended_by_a_fault_or_by_somebody_else(
    is_struck: bool,
) -> None:
    died = FailureDecided(
        attempt=1,
        decision="RAISE",
        charged="controller",
        error="ControllerError: ActorDiedError",
        errors={},
    )
    restarted: list[AnyEvent] = [STRUCK, DONE, RESTARTING, DECIDED]
    again: list[AnyEvent] = [STRUCK, DONE] if is_struck else []
    seen = [*FIRST, *restarted, *again, died]

    assert (JobDeaths(is_gone=set[int]().__contains__).find_unexplained(seen) is None) == is_struck


def test_the_controller_of_ray_train_is_missed_until_it_is_over() -> None:
    deaths = JobDeaths(is_gone={9}.__contains__)

    assert "controller (pid 9)" in (deaths.find_unexplained(FIRST) or "")
    assert JobDeaths(is_gone={9}.__contains__).find_unexplained([*FIRST, SHUTTING]) is None


def test_what_was_read_is_not_read_again() -> None:
    deaths, seen = JobDeaths(is_gone={1}.__contains__), list(FIRST)

    assert deaths.find_unexplained(seen) is not None
    seen.append(DECIDED)
    assert deaths.find_unexplained(seen) is None


def test_a_process_is_gone_once_it_has_ended() -> None:
    assert is_running(os.getpid())
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert not is_running(process.pid)
