"""Two runs of one computation, number by number.

What was recorded before the first fault is a second sample of the baseline:
it shows whether the numbers repeat here at all, and which metrics do.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from chaos.check.attempt import Attempt, Commit, Losses, Step
from chaos.check.lineage import Lineage
from chaos.model.scenario import Tolerance


@dataclass(frozen=True, slots=True)
class Pair:
    """One number of a run and its counterpart.

    `what` is "loss", "number of losses", or a metric's key; `step` is None for
    a metric. `number` is the event in our history. None: there is no such value.
    """

    epoch: int
    step: int | None
    rank: int
    what: str
    ours: float | None
    baseline: float | None
    number: int

    @property
    def place(self) -> tuple[int, float, int]:
        """Where it stands in training; an epoch's metrics come after its steps."""
        return self.epoch, math.inf if self.step is None else self.step, self.rank

    @property
    def difference(self) -> float | None:
        """How far apart the two are, None where that is no finite number."""
        if self.ours is None or self.baseline is None:
            return None
        apart = abs(self.ours - self.baseline)
        return apart if math.isfinite(apart) else None

    @property
    def relative(self) -> float | None:
        """The difference as a part of the baseline's value."""
        if self.difference is None or not self.baseline:
            return None
        return self.difference / abs(self.baseline)

    def agrees(self, tolerance: Tolerance | None) -> bool:
        """Say whether the two are equal, NaN to NaN, or as near as is tolerated."""
        if self.ours is None or self.baseline is None:
            return self.ours is self.baseline
        if self.ours == self.baseline or (math.isnan(self.ours) and math.isnan(self.baseline)):
            return True
        if tolerance is None or self.difference is None:
            return False
        return self.difference <= tolerance.absolute + tolerance.relative * abs(self.baseline)


Divergence = Pair


@dataclass(frozen=True)
class Tally:
    """How many pairs were compared and differ, the first that does, and the widest apart."""

    compared: int
    differing: int
    first: Divergence | None
    difference_max: float

    @classmethod
    def of(cls, pairs: Iterable[Pair], tolerance: Tolerance | None) -> Self:
        """Compare pairs, in any order."""
        compared = differing = 0
        first: Divergence | None = None
        widest = 0.0
        for pair in pairs:
            compared += 1
            if pair.agrees(tolerance):
                continue
            differing += 1
            widest = max(widest, pair.difference or 0.0)
            if first is None or pair.place < first.place:
                first = pair
        return cls(compared, differing, first, widest)


@dataclass(frozen=True)
class Comparison:
    """A struck run beside its baseline.

    `control` counts what was recorded before the first fault, thrown away
    since or not. `losses` and `metrics` count the surviving lineage;
    `not_compared` names the metrics that cannot be held against the job,
    because they differ before the fault too, or were not seen before it.
    """

    control: Tally
    losses: Tally
    metrics: Tally
    not_compared: tuple[str, ...]

    @classmethod
    def of(
        cls,
        attempts: Sequence[Attempt],
        ours: Lineage,
        theirs: Lineage,
        *,
        tolerance: Tolerance | None,
        began: int,
    ) -> Self:
        """Compare a lineage with the baseline's; `began` is the first fault's event number."""
        places = {
            (s.rank, s.epoch, s.step): s.losses for steps in theirs.steps.values() for s in steps
        }
        epochs = {commit.epoch: commit for commit in theirs.commits}
        before = [s for a in attempts for s in a.steps if s.number < began]
        saved = [c for a in attempts for c in a.commits if c.number < began]
        survivors = [step for steps in ours.steps.values() for step in steps]
        reported = list(_metric_pairs(ours.commits, epochs))
        trusted = _trusted(_metric_pairs(saved, epochs), tolerance)
        return cls(
            control=Tally.of(_loss_pairs(before, places), tolerance),
            losses=Tally.of(_loss_pairs(survivors, places), tolerance),
            metrics=Tally.of((p for p in reported if p.what in trusted), tolerance),
            not_compared=tuple(sorted({p.what for p in reported} - trusted)),
        )

    @property
    def first(self) -> Divergence | None:
        """Where the run first leaves the baseline."""
        found = [f for f in (self.losses.first, self.metrics.first) if f is not None]
        return min(found, key=lambda pair: pair.place, default=None)


def number(value: object) -> float | None:
    """Give a reported value as a number, None if it is none; JSON lacks three of them."""
    if isinstance(value, str) and value in ("nan", "inf", "-inf"):
        return float(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return None


def _loss_pairs(
    steps: Iterable[Step], places: Mapping[tuple[int, int, int], Losses | None]
) -> Iterator[Pair]:
    for step in steps:
        ours, theirs = step.losses, places.get((step.rank, step.epoch, step.step))
        if ours is None or theirs is None:
            continue
        at = (step.epoch, step.step, step.rank)
        if len(ours) != len(theirs):
            yield Pair(*at, "number of losses", len(ours), len(theirs), step.number)
        for mine, due in zip(ours, theirs, strict=False):
            yield Pair(*at, "loss", number(mine), number(due), step.number)


def _metric_pairs(commits: Iterable[Commit], epochs: Mapping[int, Commit]) -> Iterator[Pair]:
    for commit in commits:
        due = epochs.get(commit.epoch)
        records = zip(commit.metrics, due.metrics if due else (), strict=False)
        for rank, (ours, theirs) in enumerate(records):
            for key in {**ours, **theirs}:
                mine, other = number(ours.get(key)), number(theirs.get(key))
                if mine is not None or other is not None:
                    yield Pair(commit.epoch, None, rank, key, mine, other, commit.number)


def _trusted(pairs: Iterable[Pair], tolerance: Tolerance | None) -> set[str]:
    seen: set[str] = set()
    differing: set[str] = set()
    for pair in pairs:
        seen.add(pair.what)
        if not pair.agrees(tolerance):
            differing.add(pair.what)
    return seen - differing
