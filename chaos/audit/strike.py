"""One entry of the kill map: what is done to the job in one run."""

from dataclasses import dataclass

from chaos.audit.group import Group
from chaos.model.plan import Op
from chaos.model.trigger import MOMENTS, AtMoment


@dataclass(frozen=True)
class Strike:
    """A place with a name and a group, and the ops that strike there."""

    name: str
    group: Group
    ops: tuple[Op, ...]

    @property
    def place(self) -> tuple[int, int, int, int, int]:
        """Where its first op stands in training; earlier places are smaller."""
        return place_of(self.ops[0])

    @property
    def epoch(self) -> int:
        """The epoch of its first op."""
        return self.ops[0].at.epoch


def place_of(op: Op) -> tuple[int, int, int, int, int]:
    """Give a place as numbers to sort by: an epoch's moments come after its steps."""
    at = op.at
    rank = -1 if at.rank is None else at.rank
    if isinstance(at, AtMoment):
        return at.epoch, 1, MOMENTS.index(at.moment), rank, op.index
    return at.epoch, 0, at.step, rank, op.index
