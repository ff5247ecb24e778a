"""The comparison of a run with its baseline: values of the same place, in pairs.

Each kind of value (losses, metrics, inputs, parts of the state, entries and counts of files) is
made into pairs by a table of its own. All pairs are compared here, in the same way:

    control     what was recorded without any fault: before the first one, and in further clean
                runs. It shows which values repeat themselves, by name
    unstable    values that differ in the control; after the fault they prove nothing
    unproven    values that differ after the fault, and are not in the control
    proven      all the others; the first of them that differs lies nearest to the cause
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any, Generic, Protocol, Self, TypeVar

from chaos.check.attempt import Attempt
from chaos.check.lineage import Lineage
from chaos.check.steps import Step, Steps
from chaos.model.places import RankEpoch


class Pair(Protocol):
    """A value of the run, and the baseline's at the same place."""

    @property
    def name(self) -> Hashable:
        """The unit that repeats itself or does not: a metric, or a part of one rank's state."""

    @property
    def order(self) -> tuple[Any, ...]:
        """Its place in training, and what decides between two at one place."""


P = TypeVar("P", bound=Pair)


@dataclass(frozen=True)
class Tally(Generic[P]):
    """Counted pairs: the number compared, those that differ, and the names of those that do not."""

    compared: int
    differing: Sequence[P]
    same: frozenset[Hashable] = frozenset()

    @classmethod
    def of(cls, pairs: Iterable[P], equal: Callable[[P], bool], *, at_a_glance: int = 0) -> Self:
        """Compare pairs, in any order; `at_a_glance`: the number of others known to be equal."""
        compared, differing, same = at_a_glance, list[P](), set[Hashable]()
        for pair in pairs:
            compared += 1
            if equal(pair):
                same.add(pair.name)
            else:
                differing.append(pair)
        return cls(compared, differing, frozenset(same))

    @cached_property
    def other(self) -> frozenset[Hashable]:
        """The names of values that differ."""
        return frozenset(pair.name for pair in self.differing)

    @cached_property
    def first(self) -> P | None:
        """The earliest pair that differs."""
        return min(self.differing, key=lambda pair: pair.order, default=None)


@dataclass(frozen=True)
class Comparison(Generic[P]):
    """Pairs from after the fault, compared in the light of a control."""

    control: Tally[P]
    compared: int
    proven: Tally[P]
    unproven: frozenset[Hashable]
    unstable: frozenset[Hashable]


def compare(pairs: Iterable[P], equal: Callable[[P], bool], *, control: Tally[P]) -> Comparison[P]:
    """Compare pairs from after the fault, as far as the control shows that they repeat."""
    # A name that differs without any fault proves nothing after one: the job does not repeat it.
    # A name that the control never saw may repeat or not. If it differs now, it is in doubt.
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
    """Steps of one rank and epoch, each with the baseline's at its place, None without one.

    Almost all are equal, so whole epochs are compared at once.
    """

    ours: Steps
    theirs: Sequence[Step | None]

    @property
    def key(self) -> RankEpoch:
        return RankEpoch(self.ours[0].rank, self.ours[0].epoch)

    @cached_property
    def has_equal_losses(self) -> bool:
        """Whether all losses are there, and equal to the last bit."""
        due = [None if s is None else s.done.losses for s in self.theirs]
        return all(self.ours.losses) and self.ours.losses == due

    @cached_property
    def has_equal_inputs(self) -> bool:
        """Whether all inputs were watched, and are equal."""
        due = [None if s is None else s.done.inputs for s in self.theirs]
        return self.ours.are_watched and self.ours.inputs == due

    def pairs(self) -> Iterator[tuple[Step, Step | None]]:
        return zip(self.ours, self.theirs, strict=True)


def surviving(
    ours: Lineage, theirs: Lineage, *, without: Collection[int] = ()
) -> tuple[Aligned, ...]:
    """Align the steps of a lineage, in its order, apart from those of the attempts `without`."""
    groups: Iterable[Steps] = ours.steps.values()
    if without:
        groups = (Steps(s for s in steps if s.attempt not in without) for steps in groups)
    return tuple(_aligned(steps, theirs) for steps in groups if steps)


def before(attempts: Iterable[Attempt], theirs: Lineage, *, began: int) -> tuple[Aligned, ...]:
    """Align the steps made before the first fault, discarded by a later restart or not."""
    # By attempts and not by the lineage: a step that a later restart discarded was computed before
    # any fault all the same, and is as good a control.
    found = []
    for attempt in attempts:
        for steps in attempt.steps.by_epoch.values():
            early = steps
            if steps[-1].number >= began:
                early = Steps(takewhile(lambda step: step.number < began, steps))
            if early:
                found.append(_aligned(early, theirs))
    return tuple(found)


def _aligned(steps: Steps, theirs: Lineage) -> Aligned:
    rank, epoch, first = steps[0].rank, steps[0].epoch, steps[0].step
    there = theirs.steps_of(rank, epoch)
    # Where both count up one by one, the counterparts are one slice; else each is looked up.
    due: Sequence[Step | None]
    if there and there[0].step == 1 and _is_unbroken(steps) and _is_unbroken(there):
        due = there[first - 1 : first - 1 + len(steps)]
        due = [*due, *(None for _ in range(len(steps) - len(due)))]
    else:
        due = [theirs.at(rank, epoch, step.step) for step in steps]
    return Aligned(steps, due)


def _is_unbroken(steps: Steps) -> bool:
    """Return whether steps count up one by one."""
    return steps.numbers == list(range(steps[0].step, steps[0].step + len(steps)))
