"""Reported values, which may be nested or no numbers, in pairs with the baseline's."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeAlias

from chaos.check.attempt import Commit
from chaos.check.steps import Losses, Step
from chaos.model.bounds import Tolerance
from chaos.model.places import FloatPlace

Value: TypeAlias = float | str | bool | None

PASSES = "number of backward passes before the step"


@dataclass(frozen=True, slots=True)
class NumberPair:
    """A loss or a metric of a run, and the baseline's at its place."""

    epoch: int
    #: None for a metric
    step: int | None
    rank: int
    #: "loss", `PASSES`, or a metric's dotted name
    what: str
    #: None where it is not there
    ours: Value
    #: likewise
    baseline: Value
    #: the event in the run's history
    number: int
    #: the attempt that the event belongs to
    attempt: int
    #: counts the losses of one step
    index: int = 0

    @property
    def name(self) -> str:
        """The loss, or the metric: each repeats itself or does not, wherever it is."""
        return self.what

    @property
    def place(self) -> FloatPlace:
        """Its place in training; an epoch's metrics come after its steps."""
        return FloatPlace(self.epoch, math.inf if self.step is None else self.step)

    @property
    def order(self) -> tuple[FloatPlace, int]:
        """Its place in training, and its rank."""
        return self.place, self.rank

    @property
    def difference(self) -> float | None:
        """The distance of the two; None where that is no finite number."""
        ours, due = as_number(self.ours), as_number(self.baseline)
        if ours is None or due is None:
            return None
        apart = abs(ours - due)
        return apart if math.isfinite(apart) else None

    @property
    def relative(self) -> float | None:
        """The difference, relative to the baseline's value."""
        due = None if self.what == PASSES else as_number(self.baseline)
        return self.difference / abs(due) if due and self.difference is not None else None

    def agrees(self, tolerance: Tolerance | None) -> bool:
        """Return whether the two are equal, NaN to NaN, or numbers within a tolerance."""
        ours, due = as_number(self.ours), as_number(self.baseline)
        if ours is None or due is None:  # Python's True equals 1, a report's does not
            return type(self.ours) is type(self.baseline) and self.ours == self.baseline
        if ours == due or (math.isnan(ours) and math.isnan(due)):
            return True
        if tolerance is None or self.difference is None:
            return False
        return self.difference <= tolerance.absolute + tolerance.relative * abs(due)


def as_number(value: object) -> float | None:
    """Return a reported value as a number, None if it is none; JSON lacks three of them."""
    if isinstance(value, str) and value in ("nan", "inf", "-inf"):
        return float(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return None


def flat(value: object, name: str = "") -> Iterator[tuple[str, Value]]:
    """Yield every value below a report's metrics under its dotted name: `val.acc`, `hist.0`."""
    if isinstance(value, dict):
        parts = [(str(key), below) for key, below in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(str(index), below) for index, below in enumerate(value)]
    else:
        yield name, _single(value)
        return
    for part, below in parts:
        yield from flat(below, f"{name}.{part}" if name else part)


def is_below(name: str, others: tuple[str, ...]) -> bool:
    """Return whether a dotted name is one of the others, or part of what one of them names."""
    return any(name == other or name.startswith(f"{other}.") for other in others)


def loss_pairs(step: Step, theirs: Losses) -> Iterator[NumberPair]:
    """Yield the losses of one step in pairs with the baseline's."""
    ours = step.losses or ()
    at, seen = (step.epoch, step.step, step.rank), (step.number, step.attempt)
    if len(ours) != len(theirs):
        yield NumberPair(*at, PASSES, len(ours), len(theirs), *seen)
    for index, (mine, due) in enumerate(zip(ours, theirs, strict=False)):
        yield NumberPair(*at, "loss", as_number(mine), as_number(due), *seen, index)


def metric_pairs(commits: Iterable[Commit], epochs: Mapping[int, Commit]) -> Iterator[NumberPair]:
    """Yield every value of every rank's report in pairs with the baseline's of that epoch."""
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
                # A metric that only one of the two reports is a difference. One that was first seen
                # after a restart was passed over once, and the run was green.
                if mine is not None or other is not None:
                    yield NumberPair(*at, name, mine, other, *seen)


def _single(value: object) -> Value:
    if value is None or isinstance(value, bool):
        return value
    found = as_number(value)
    return str(value) if found is None else found
