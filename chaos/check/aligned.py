"""A run's steps beside the baseline's, one rank and epoch at a time.

Almost all are equal, so whole epochs are compared at once, and only those
that are not are looked at step by step.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from chaos.check.attempt import Attempt, Step
from chaos.check.lineage import Lineage


@dataclass(frozen=True)
class Aligned:
    """Steps of one rank and epoch, each with the baseline's at its place; None: there is none."""

    ours: Sequence[Step]
    theirs: Sequence[Step | None]

    @property
    def key(self) -> tuple[int, int]:
        """The rank and the epoch."""
        return self.ours[0].rank, self.ours[0].epoch

    @cached_property
    def has_equal_losses(self) -> bool:
        """Whether all losses are there, and equal to the last bit."""
        mine = [step.losses for step in self.ours]
        return all(mine) and mine == [None if s is None else s.losses for s in self.theirs]

    @cached_property
    def has_equal_inputs(self) -> bool:
        """Whether all inputs were watched, and are the same."""
        mine = [step.inputs for step in self.ours]
        return None not in mine and mine == [None if s is None else s.inputs for s in self.theirs]

    def pairs(self) -> Iterator[tuple[Step, Step | None]]:
        """Give step by step."""
        return zip(self.ours, self.theirs, strict=True)


def surviving(
    ours: Lineage, theirs: Lineage, *, without: Collection[int] = ()
) -> tuple[Aligned, ...]:
    """Align the steps of a lineage, in its order, apart from those of the attempts `without`."""
    groups: Iterable[Sequence[Step]] = ours.steps.values()
    if without:
        groups = ([s for s in steps if s.attempt not in without] for steps in groups)
    return tuple(_aligned(steps, theirs) for steps in groups if steps)


def before(attempts: Iterable[Attempt], theirs: Lineage, *, began: int) -> tuple[Aligned, ...]:
    """Align what was recorded before the first fault, thrown away since or not."""
    found = []
    for attempt in attempts:
        for steps in attempt.by_epoch.values():
            early = steps
            if steps[-1].number >= began:
                early = list(takewhile(lambda step: step.number < began, steps))
            if early:
                found.append(_aligned(early, theirs))
    return tuple(found)


def _aligned(steps: Sequence[Step], theirs: Lineage) -> Aligned:
    rank, epoch, first = steps[0].rank, steps[0].epoch, steps[0].step
    there = theirs.steps.get((rank, epoch), ())
    due: Sequence[Step | None]
    if there and there[0].step == 1 and _is_unbroken(steps) and _is_unbroken(there):
        due = there[first - 1 : first - 1 + len(steps)]
        due = [*due, *(None for _ in range(len(steps) - len(due)))]
    else:
        due = [theirs.at(rank, epoch, step.step) for step in steps]
    return Aligned(steps, due)


def _is_unbroken(steps: Sequence[Step]) -> bool:
    """Say whether steps count up one by one."""
    if not steps:
        return True
    first = steps[0].step
    return [step.step for step in steps] == list(range(first, first + len(steps)))
