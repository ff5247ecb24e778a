"""Tolerances: exact, stated in the scenario, or learned from repeated baselines."""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from chaos.check.prediction_band import PROFILES, BandCounts, Interval, Key, learn_intervals
from chaos.check.values import NumberPair, flatten_values, parse_number
from chaos.model.bounds import Tolerance
from chaos.model.expect import Profile
from chaos.model.places import StatePlace
from chaos.resume.attempt import Commit
from chaos.resume.lineage import Lineage
from chaos.resume.state_snapshots import MOMENTS, StateSnapshots

# Of a metric's own size: one that varies more between clean runs, a time as a rule, tells nothing.
NOISY_PART = 0.25

Found: TypeAlias = dict[int, dict[Key, list[float]]]
# The series of a value, its position there, its key in all runs, and the number if it is one.
_Value: TypeAlias = tuple[str, tuple[float, ...], Key, float | None]


@dataclass(frozen=True)
class PredictionBands:
    """An interval for each number that several clean runs of one job all have."""

    profile: Profile
    runs: int
    #: by (rank, epoch, step, index)
    losses: Mapping[Key, Interval]
    #: by (epoch, name, rank)
    metrics: Mapping[Key, Interval]
    #: of parts of the state, by their place and name
    sizes: Mapping[Key, Interval]
    #: the metrics (times, as a rule) that vary by a quarter of themselves or more
    noisy_metrics: frozenset[str] = frozenset()

    @classmethod
    def from_runs(
        cls, profile: Profile, runs: Sequence[tuple[Lineage, StateSnapshots]]
    ) -> "PredictionBands":
        """Learn the bands from the lineages and states of clean runs; two at least."""
        lineages = [lineage for lineage, _ in runs]
        losses = _group_common_values([_list_losses(lineage) for lineage in lineages])
        metrics = _group_common_values([_list_metrics(lineage.commits) for lineage in lineages])
        sizes = _group_common_values([_list_sizes(snapshots) for _, snapshots in runs])
        kinds = (losses, metrics, sizes)
        compared = BandCounts.from_series(series for kind in kinds for series in kind.values())
        # Series by series: the numbers of one name have much the same spread.
        loss_bands, metric_bands, size_bands = (
            dict(
                item
                for series in kind.values()
                for item in learn_intervals(series, compared).items()
            )
            for kind in kinds
        )
        noisy_metrics = {
            str(name)
            for (_, name, _), band in metric_bands.items()
            if _measure_width(band) > NOISY_PART
        }
        return cls(
            profile, len(runs), loss_bands, metric_bands, size_bands, frozenset(noisy_metrics)
        )

    @cached_property
    def hidden_loss_errors(self) -> tuple[float, float]:
        """The relative error of a loss that goes unseen: the median over steps, and the most.

        NaN where there is no loss.
        """
        _, later_tolerance = PROFILES[self.profile]
        widened_bands = [band.add_tolerance(later_tolerance) for band in self.losses.values()]
        errors = [error for band in widened_bands if math.isfinite(error := _measure_width(band))]
        return (statistics.median(errors), max(errors)) if errors else (math.nan, math.nan)

    @property
    def relative_tolerance(self) -> Tolerance:
        """The profile's tolerance of metrics and sizes: they have no scale of their own."""
        _, later_tolerance = PROFILES[self.profile]
        return Tolerance(relative=later_tolerance.relative or later_tolerance.absolute)

    @cached_property
    def hidden_metric_errors(self) -> Mapping[str, float]:
        """The relative error of each metric that goes unseen: the median over its reports."""
        errors_by_metric: dict[str, list[float]] = {}
        for (_, name, _), band in self.metrics.items():
            if name not in self.noisy_metrics and math.isfinite(
                error := _measure_width(band.add_tolerance(self.relative_tolerance))
            ):
                errors_by_metric.setdefault(str(name), []).append(error)
        return {
            name: statistics.median(errors) for name, errors in sorted(errors_by_metric.items())
        }


@dataclass(frozen=True)
class Allowance:
    """The tolerance of the plan."""

    stated: Tolerance | None = None
    bands: PredictionBands | None = None
    #: the event numbers of the first steps after a resume
    first_step_numbers: frozenset[int] = frozenset()

    @property
    def is_exact(self) -> bool:
        """Whether everything must be equal to the last bit."""
        return self.stated is None and self.bands is None

    def allows(self, pair: NumberPair) -> bool:
        """Return whether a value of the run is within the tolerance."""
        run_value = parse_number(pair.run_value)
        if self.bands is None or run_value is None or pair.agrees(None):
            return pair.agrees(self.stated)
        if pair.step is None:
            return self._is_in_band(
                self.bands.metrics, (pair.epoch, pair.value_name, pair.rank), run_value
            )
        band = self.bands.losses.get((pair.rank, pair.epoch, pair.step, pair.index))
        first_tolerance, later_tolerance = PROFILES[self.bands.profile]
        tolerance = first_tolerance if pair.number in self.first_step_numbers else later_tolerance
        return band is not None and band.add_tolerance(tolerance).contains(run_value)

    def allows_size(
        self, name: str, state_place: StatePlace | None, run_size: float, baseline_size: float
    ) -> bool:
        """Return whether the size of a part is within the tolerance; no `state_place`: anywhere."""
        if self.bands is not None and state_place is not None:
            return self._is_in_band(self.bands.sizes, (*state_place, name), run_size)
        tolerance = self.stated or self._find_relative_tolerance()
        return abs(run_size - baseline_size) <= tolerance.absolute + tolerance.relative * abs(
            baseline_size
        )

    def _is_in_band(self, bands: Mapping[Key, Interval], key: Key, run_value: float) -> bool:
        band = bands.get(key)
        return band is not None and band.add_tolerance(self._find_relative_tolerance()).contains(
            run_value
        )

    def _find_relative_tolerance(self) -> Tolerance:
        return Tolerance() if self.bands is None else self.bands.relative_tolerance

    def is_too_noisy(self, metric: str) -> bool:
        """Return whether a metric varies so much by itself that its value proves nothing."""
        return self.bands is not None and metric in self.bands.noisy_metrics


EXACT = Allowance()


def _measure_width(band: Interval) -> float:
    """Return the width of a band to one side, relative to its middle."""
    if not band.half_width:
        return 0.0
    return band.half_width / abs(band.middle) if band.middle else math.inf


def _list_losses(lineage: Lineage) -> Iterator[_Value]:
    for step in lineage.all_steps():
        position = step.epoch, step.step
        for index, loss in enumerate(step.losses or ()):
            yield "", position, (step.rank, *position, index), parse_number(loss)


def _list_metrics(commits: Iterable[Commit]) -> Iterator[_Value]:
    for commit in commits:
        for rank, record in enumerate(commit.metrics):
            for name, metric in flatten_values(record):
                yield name, (commit.epoch,), (commit.epoch, name, rank), parse_number(metric)


def _list_sizes(snapshots: StateSnapshots) -> Iterator[_Value]:
    for state_place, snapshot in snapshots.latest_snapshots.items():
        position = state_place.epoch, state_place.step, MOMENTS.index(state_place.moment)
        for part in snapshot.components:
            size = part.size if isinstance(part.size, float) else None
            yield part.name, position, (*state_place, part.name), size


def _group_common_values(runs: Sequence[Iterable[_Value]]) -> dict[str, Found]:
    """Return the numbers that all runs have, by series and position."""
    values: dict[Key, list[float]] = {}
    positions: dict[Key, tuple[str, tuple[float, ...]]] = {}
    for run in runs:
        for series, position, key, value in run:
            if value is not None:
                values.setdefault(key, []).append(value)
                positions[key] = (series, position)
    # A number that one clean run lacks has no band, and so allows nothing.
    shared = [key for key, numbers in values.items() if len(numbers) == len(runs)]
    order = {
        position: n for n, position in enumerate(sorted({positions[key][1] for key in shared}))
    }
    numbers: dict[str, Found] = {}
    for key in shared:
        series, position = positions[key]
        numbers.setdefault(series, {}).setdefault(order[position], {})[key] = values[key]
    return numbers
