"""Attempts that the harness counts: rounds of torchrun's within one start of a job."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaos.faults.world import Target
from chaos.launch.commands.groups import GroupServer
from chaos.launch.process_world import ProcessWorld
from chaos.probe.gates import SocketController
from chaos.run.armed_faults import ArmedFaults
from chaos.run.clock import SystemClock
from chaos.run.journal import Journal

Takes = Callable[..., int]


class Deaf:
    """A chaos controller without faults."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *arguments: None


@pytest.fixture
def takes(tmp_path: Path) -> Iterator[Takes]:
    """Return a function by which a process takes a rank of two, in a start of the job."""
    clock, name = SystemClock(), f"chaos-test-{os.urandom(4).hex()}"
    journal = Journal(tmp_path, "harness", role="harness", clock=clock)
    world = ProcessWorld(clock, 2, ArmedFaults(tmp_path))
    server = GroupServer(name, Deaf(), world, journal)  # type: ignore[arg-type]
    port = SocketController(name)

    def taken(rank: int, pid: int, *, start: int = 0) -> int:
        attempt = port.attempt_of(start, rank, pid)
        port.part_started(attempt, 2, {rank: Target(attempt, rank, pid, "node-0")})
        return attempt

    yield taken
    port._gate.close()  # the process's, and open to its end
    server.close()
    journal.close()


def test_a_start_of_the_job_is_an_attempt(takes: Takes) -> None:
    assert [takes(rank, 10 + rank) for rank in (0, 1)] == [0, 0]
    assert [takes(rank, 20 + rank, start=1) for rank in (1, 0)] == [1, 1]


def test_a_rank_that_comes_again_begins_a_round_of_it(takes: Takes) -> None:
    assert [takes(rank, 10 + rank) for rank in (0, 1)] == [0, 0]
    assert [takes(rank, 20 + rank) for rank in (1, 0)] == [1, 1]
    assert [takes(rank, 30 + rank) for rank in (0, 1)] == [2, 2]
    assert [takes(rank, 40 + rank, start=1) for rank in (0, 1)] == [3, 3]


def test_a_round_that_was_not_whole_has_no_number_of_its_own(takes: Takes) -> None:
    assert [takes(rank, 10 + rank) for rank in (0, 1)] == [0, 0]
    assert takes(0, 20) == 1

    assert [takes(rank, 30 + rank) for rank in (0, 1)] == [1, 1]


def test_a_process_that_takes_its_rank_once_more_is_in_the_same_attempt(takes: Takes) -> None:
    assert [takes(rank, 10 + rank) for rank in (0, 1)] == [0, 0]

    assert takes(0, 10) == 0
