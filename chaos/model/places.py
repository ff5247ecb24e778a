"""Places in training, and the keys of what happened there, each with its own order of fields.

All of them are tuples, so a journal holds them as lists of numbers, and they sort by their fields
in order. A type checker tells them apart where bare tuples of numbers could be swapped.
"""

from typing import NamedTuple


class TrainingPlace(NamedTuple):
    """A place in training: `step` steps of `epoch` are done, and the next one is to come."""

    epoch: int
    step: int

    def __str__(self) -> str:
        return f"epoch {self.epoch}, step {self.step}"


START = TrainingPlace(0, 0)


class RankEpoch(NamedTuple):
    """One epoch as one rank trains it."""

    rank: int
    epoch: int


class EpochRank(NamedTuple):
    """One rank's part of an epoch, sorted as training goes: all ranks of one epoch, then the next.

    Places that can be tried are listed, and drawn, in this order.
    """

    epoch: int
    rank: int


class AttemptRank(NamedTuple):
    """One rank of one attempt: one process that trains, unless it was replaced."""

    attempt: int
    rank: int


class StatePlace(NamedTuple):
    """A place at which the state of one rank is seen, the same in each run of a job."""

    rank: int
    epoch: int
    step: int
    moment: str


class SortablePlace(NamedTuple):
    """A place that may lie between two steps, or at infinity: after the last one of its epoch.

    An epoch's metrics are after its last step. A model that differs as a rank enters training after
    a step differs half a step later.
    """

    epoch: int
    step: float


class RankName(NamedTuple):
    """Something of one rank that has a name: a part of its state, a metric, a file.

    For files that differ in the numbers of their names alone, `#` stands for these.
    """

    rank: int
    name: str
