"""Reported values, which may be nested or no numbers, in pairs with the baseline's."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeAlias

from chaos.model.bounds import Tolerance
from chaos.model.places import SortablePlace
from chaos.resume.attempt import Commit
from chaos.resume.steps import Losses, Step

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
    value_name: str
    #: None where it is not there
    run_value: Value
    #: likewise
    baseline_value: Value
    #: the event in the run's history
    number: int
    #: the attempt that the event belongs to
    attempt: int
    #: counts the losses of one step
    index: int = 0

    @property
    def name(self) -> str:
        """The loss, or the metric: each repeats itself or does not, wherever it is."""
        return self.value_name

    @property
    def training_place(self) -> SortablePlace:
        """Its place in training; an epoch's metrics come after its steps."""
        return SortablePlace(self.epoch, math.inf if self.step is None else self.step)

    @property
    def order(self) -> tuple[SortablePlace, int]:
        """Its place in training, and its rank."""
        return self.training_place, self.rank

    @property
    def difference(self) -> float | None:
        """The distance of the two; None where that is no finite number."""
        run_number, baseline_number = (
            parse_number(self.run_value),
            parse_number(self.baseline_value),
        )
        if run_number is None or baseline_number is None:
            return None
        distance = abs(run_number - baseline_number)
        return distance if math.isfinite(distance) else None

    @property
    def relative_difference(self) -> float | None:
        """The difference, relative to the baseline's value."""
        baseline_number = None if self.value_name == PASSES else parse_number(self.baseline_value)
        return (
            self.difference / abs(baseline_number)
            if baseline_number and self.difference is not None
            else None
        )

    def agrees(self, tolerance: Tolerance | None) -> bool:
        """Return whether the two are equal, NaN to NaN, or numbers within a tolerance."""
        run_number, baseline_number = (
            parse_number(self.run_value),
            parse_number(self.baseline_value),
        )
        if (
            run_number is None or baseline_number is None
        ):  # Python's True equals 1, a report's does not
            return (
                type(self.run_value) is type(self.baseline_value)
                and self.run_value == self.baseline_value
            )
        if run_number == baseline_number or (
            math.isnan(run_number) and math.isnan(baseline_number)
        ):
            return True
        if tolerance is None or self.difference is None:
            return False
        return self.difference <= tolerance.absolute + tolerance.relative * abs(baseline_number)


def parse_number(value: object) -> float | None:
    """Return a reported value as a number, None if it is none; JSON lacks three of them."""
    if isinstance(value, str) and value in ("nan", "inf", "-inf"):
        return float(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return None


def flatten_values(value: object, name: str = "") -> Iterator[tuple[str, Value]]:
    """Yield every value below a report's metrics under its dotted name: `val.acc`, `hist.0`."""
    if isinstance(value, dict):
        parts = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(str(index), item) for index, item in enumerate(value)]
    else:
        yield name, _normalize_value(value)
        return
    for part, item in parts:
        yield from flatten_values(item, f"{name}.{part}" if name else part)


def matches_name(name: str, parent_names: tuple[str, ...]) -> bool:
    """Return whether a dotted name is one of the others, or part of what one of them names."""
    return any(
        name == parent_name or name.startswith(f"{parent_name}.") for parent_name in parent_names
    )


def pair_losses(step: Step, baseline_losses: Losses) -> Iterator[NumberPair]:
    """Yield the losses of one step in pairs with the baseline's."""
    run_losses = step.losses or ()
    place_fields, event_fields = (step.epoch, step.step, step.rank), (step.number, step.attempt)
    if len(run_losses) != len(baseline_losses):
        yield NumberPair(
            *place_fields, PASSES, len(run_losses), len(baseline_losses), *event_fields
        )
    for index, (run_loss, baseline_loss) in enumerate(
        zip(run_losses, baseline_losses, strict=False)
    ):
        yield NumberPair(
            *place_fields,
            "loss",
            parse_number(run_loss),
            parse_number(baseline_loss),
            *event_fields,
            index,
        )


def pair_metrics(
    commits: Iterable[Commit], baseline_commits: Mapping[int, Commit]
) -> Iterator[NumberPair]:
    """Yield every value of every rank's report in pairs with the baseline's of that epoch."""
    empty_record: dict[str, object] = {}  # where one of the two has no record of a rank
    for commit in commits:
        baseline_commit = baseline_commits.get(commit.epoch)
        if baseline_commit is None:
            continue
        baseline_records = baseline_commit.metrics[: 1 if commit.has_only_rank_0 else None]
        records = zip_longest(commit.metrics, baseline_records, fillvalue=empty_record)
        for rank, (record, counterpart) in enumerate(records):
            run_metrics, baseline_metrics = (
                dict(flatten_values(record)),
                dict(flatten_values(counterpart)),
            )
            place_fields, event_fields = (commit.epoch, None, rank), (commit.number, commit.attempt)
            for name in {**run_metrics, **baseline_metrics}:
                run_metric, baseline_metric = run_metrics.get(name), baseline_metrics.get(name)
                # A metric that only one of the two reports is a difference. One that was first seen
                # after a restart was passed over once, and the run was green.
                if run_metric is not None or baseline_metric is not None:
                    yield NumberPair(
                        *place_fields, name, run_metric, baseline_metric, *event_fields
                    )


def _normalize_value(value: object) -> Value:
    if value is None or isinstance(value, bool):
        return value
    number = parse_number(value)
    return str(value) if number is None else number
