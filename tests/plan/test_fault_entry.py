"""A place of one attempt is none of the others."""

import pytest

from chaos.faults.kill_worker import KillWorker
from chaos.model.fault_entry import FaultEntry
from chaos.model.trigger import AtMoment, AtStart, AtStep


@pytest.mark.parametrize(
    "at",
    [
        AtStep(epoch=1, step=2, attempt=1, rank=0),
        AtMoment(epoch=1, moment="reported", attempt=1, rank=0),
        AtStart(starting=1, rank=0),
    ],
)
def test_a_place_of_one_attempt_is_none_of_the_others(at: AtStep | AtMoment | AtStart) -> None:
    entry = FaultEntry(at=at, kill_worker=KillWorker())

    assert [entry.can_inject(attempt) for attempt in (0, 1, 2)] == [False, True, False]
