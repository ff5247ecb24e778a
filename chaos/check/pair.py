"""One value of a run beside its counterpart in the baseline, and many of them counted."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Self

from chaos.check.attempt import Commit, Losses, Step
from chaos.check.values import Value, flat, number
from chaos.model.leeway import Tolerance


@dataclass(frozen=True, slots=True)
class Pair:
    """One value of a run and its counterpart.

    `what` is "loss", "number of losses", or a metric's dotted name; `step` is
    None for a metric. `number` is the event in our history, and `attempt` the
    attempt that it belongs to; `index` counts the losses of one step. A value
    None: there is no such value.
    """

    epoch: int
    step: int | None
    rank: int
    what: str
    ours: Value
    baseline: Value
    number: int
    attempt: int
    index: int = 0

    @property
    def place(self) -> tuple[int, float, int]:
        """Where it stands in training; an epoch's metrics come after its steps."""
        return self.epoch, math.inf if self.step is None else self.step, self.rank

    @property
    def difference(self) -> float | None:
        """How far apart the two are, None where that is no finite number."""
        ours, due = number(self.ours), number(self.baseline)
        if ours is None or due is None:
            return None
        apart = abs(ours - due)
        return apart if math.isfinite(apart) else None

    @property
    def relative(self) -> float | None:
        """The difference as a part of the baseline's value."""
        due = number(self.baseline)
        return self.difference / abs(due) if due and self.difference is not None else None

    def agrees(self, tolerance: Tolerance | None) -> bool:
        """Say whether the two are equal, NaN to NaN, or numbers as near as is tolerated."""
        ours, due = number(self.ours), number(self.baseline)
        if ours is None or due is None:  # to Python True equals 1, to a report it does not
            return type(self.ours) is type(self.baseline) and self.ours == self.baseline
        if ours == due or (math.isnan(ours) and math.isnan(due)):
            return True
        if tolerance is None or self.difference is None:
            return False
        return self.difference <= tolerance.absolute + tolerance.relative * abs(due)


@dataclass(frozen=True)
class Tally:
    """How many pairs were compared and differ, the first that does, and the widest apart.

    `names`: what differs.
    """

    compared: int
    differing: int
    first: Pair | None
    difference_max: float
    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, pairs: Iterable[Pair], agrees: Callable[[Pair], bool], *, equal: int = 0) -> Self:
        """Compare pairs, in any order; `equal` more were seen to be equal at a glance."""
        compared, differing = equal, 0
        first: Pair | None = None
        widest = 0.0
        names = set()
        for pair in pairs:
            compared += 1
            if agrees(pair):
                continue
            differing += 1
            names.add(pair.what)
            widest = max(widest, pair.difference or 0.0)
            if first is None or pair.place < first.place:
                first = pair
        return cls(compared, differing, first, widest, frozenset(names))


def loss_pairs(step: Step, theirs: Losses) -> Iterator[Pair]:
    """Lay the losses of one step beside the baseline's."""
    ours = step.losses or ()
    at, seen = (step.epoch, step.step, step.rank), (step.number, step.attempt)
    if len(ours) != len(theirs):
        yield Pair(*at, "number of losses", len(ours), len(theirs), *seen)
    for index, (mine, due) in enumerate(zip(ours, theirs, strict=False)):
        yield Pair(*at, "loss", number(mine), number(due), *seen, index)


def metric_pairs(commits: Iterable[Commit], epochs: Mapping[int, Commit]) -> Iterator[Pair]:
    """Lay every value of every rank's report beside the baseline's report of that epoch."""
    nothing: dict[str, object] = {}  # where one of the two has no record of a rank
    for commit in commits:
        due = epochs.get(commit.epoch)
        theirs = () if due is None else due.metrics[: 1 if commit.of_survivors else None]
        records = zip_longest(commit.metrics, theirs, fillvalue=nothing) if due else ()
        for rank, (record, counterpart) in enumerate(records):
            ours, others = dict(flat(record)), dict(flat(counterpart))
            at, seen = (commit.epoch, None, rank), (commit.number, commit.attempt)
            for name in {**ours, **others}:
                mine, other = ours.get(name), others.get(name)
                if mine is not None or other is not None:
                    yield Pair(*at, name, mine, other, *seen)
