"""The comparison of a run with its baseline: values laid side by side at the same place.

Each kind of value (losses, metrics, inputs, parts of the state, entries and counts of files) is
made into pairs by a table of its own, and all of them are judged here, in the same way:

    control     what was seen where nothing had been done to the job: before the first fault, and
                in further clean runs. It shows which values repeat themselves, by name
    unstable    values that differ there already; nothing follows from them
    unproven    values that differ after the fault, and that the control never saw
    proven      all the others; the first of them that differs lies nearest to the cause
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any, Generic, Protocol, Self, TypeVar

from chaos.check.attempt import Attempt, Step
from chaos.check.lineage import Lineage


class Pair(Protocol):
    """A value of the run, and the baseline's at the same place."""

    @property
    def name(self) -> Hashable:
        """That which repeats itself or does not: a metric, or a part of one rank's state."""

    @property
    def place(self) -> tuple[Any, ...]:
        """Where it stands in training; places sort in the order of training."""


P = TypeVar("P", bound=Pair)


@dataclass(frozen=True)
class Tally(Generic[P]):
    """Pairs, counted: how many were compared, which differ, and the names of those that do not.

    `lacking`: the names of values that the run did not have where the baseline has them.
    """

    compared: int
    differing: Sequence[P]
    same: frozenset[Hashable] = frozenset()
    lacking: frozenset[Hashable] = frozenset()

    @classmethod
    def of(
        cls,
        pairs: Iterable[P],
        equal: Callable[[P], bool],
        *,
        at_a_glance: int = 0,
        lacking: Iterable[Hashable] = (),
    ) -> Self:
        """Compare pairs, in any order; some more were seen to be equal `at_a_glance`."""
        compared, differing, same = at_a_glance, list[P](), set[Hashable]()
        for pair in pairs:
            compared += 1
            if equal(pair):
                same.add(pair.name)
            else:
                differing.append(pair)
        return cls(compared, differing, frozenset(same), frozenset(lacking))

    @cached_property
    def other(self) -> frozenset[Hashable]:
        """The names of values that differ, or are lacking."""
        return self.lacking.union(pair.name for pair in self.differing)

    @cached_property
    def first(self) -> P | None:
        """The earliest pair that differs."""
        return min(self.differing, key=lambda pair: pair.place, default=None)

    def shows_repeated(self, name: Hashable) -> bool:
        """Return whether a value was the baseline's wherever it was seen, if it was."""
        return name in self.same and name not in self.other


@dataclass(frozen=True)
class Comparison(Generic[P]):
    """Pairs from after the fault, held against a control."""

    control: Tally[P]
    compared: int
    proven: Tally[P]
    unproven: frozenset[Hashable]
    unstable: frozenset[Hashable]


def compare(pairs: Iterable[P], equal: Callable[[P], bool], *, control: Tally[P]) -> Comparison[P]:
    """Compare what was seen after the fault, by what the control shows to repeat itself."""
    every = list(pairs)
    kept = [pair for pair in every if pair.name not in control.other]
    unproven = frozenset(
        pair.name for pair in kept if pair.name not in control.same and not equal(pair)
    )
    return Comparison(
        control=control,
        compared=len(kept),
        proven=Tally.of((pair for pair in kept if pair.name not in unproven), equal),
        unproven=unproven,
        unstable=frozenset(pair.name for pair in every) & control.other,
    )


# -- steps side by side ------------------------------------------------------------------------


@dataclass(frozen=True)
class Aligned:
    """Steps of one rank and epoch, each with the baseline's at its place; None: there is none.

    Almost all are equal, so whole epochs are compared at once.
    """

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
        """Return step by step."""
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
    """Return whether steps count up one by one."""
    if not steps:
        return True
    first = steps[0].step
    return [step.step for step in steps] == list(range(first, first + len(steps)))
