"""A difference that no part of the state explains, in a job with child processes."""

import pytest

from chaos.model import event as ev
from tests.check.story import Story, Strike
from tests.check.tamper import restored_wrong, shifted, told, verdict_on

KILLED = Story((Strike(2, 3, 1),))


def children(count: int) -> ev.ProcessSeen:
    return ev.ProcessSeen(
        attempt=1,
        rank=0,
        epoch=2,
        open_files=9,
        memory_bytes=1,
        children=count + 1,
        entries=1,
        job_children=count,
    )


def loaders(count: int) -> ev.LoaderProcesses:
    return ev.LoaderProcesses(attempt=1, rank=0, epoch=2, step=0, count=count)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([children(1)], "rank 0 has 1 child process of the job's, whose state no check sees"),
        ([loaders(2), children(4)], "rank 0 has 2 child processes of the job's, whose state"),
        ([loaders(2), children(2)], ""),
    ],
)
def test_what_lies_in_a_child_process_is_said_to_lie_there(
    events: list[ev.AnyEvent], said: str
) -> None:
    verdict = verdict_on(KILLED, told(shifted(KILLED.history(), 2), *events))

    assert verdict.status == "fail"
    assert said in verdict.headline
    assert bool(said) == ("child process" in verdict.headline)


def test_a_part_of_the_state_that_is_lost_is_the_reason() -> None:
    lost = restored_wrong(shifted(KILLED.history(), 2), "optimizer.momentum_buffer", None)

    assert "child process" not in verdict_on(KILLED, told(lost, children(1))).headline
