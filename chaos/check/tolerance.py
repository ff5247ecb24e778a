"""Tolerances: exact, stated in the scenario, or learned from repeated baselines."""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from chaos.check.attempt import Commit
from chaos.check.lineage import Lineage
from chaos.check.prediction_band import PROFILES, Compared, Interval, Key, learn
from chaos.check.state_snapshots import MOMENTS, StateSnapshots
from chaos.check.values import NumberPair, as_number, flat
from chaos.model.bounds import Tolerance
from chaos.model.places import StatePlace
from chaos.model.scenario import Profile

# Of a metric's own size: one that varies more between clean runs, a time as a rule, tells nothing.
NOISY_PART = 0.25

Found: TypeAlias = dict[int, dict[Key, list[float]]]
# The series of a value, its position there, its key in all runs, and the number if it is one.
_Value: TypeAlias = tuple[str, tuple[float, ...], Key, float | None]


@dataclass(frozen=True)
class Bands:
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
    noisy: frozenset[str] = frozenset()

    @classmethod
    def of(cls, profile: Profile, runs: Sequence[tuple[Lineage, StateSnapshots]]) -> "Bands":
        """Learn the bands from the lineages and states of clean runs; two at least."""
        lineages = [lineage for lineage, _ in runs]
        losses = _common([_losses(lineage) for lineage in lineages])
        metrics = _common([_metrics(lineage.commits) for lineage in lineages])
        sizes = _common([_sizes(snapshots) for _, snapshots in runs])
        kinds = (losses, metrics, sizes)
        compared = Compared.of(series for kind in kinds for series in kind.values())
        # Series by series: the numbers of one name have much the same spread.
        of_losses, of_metrics, of_sizes = (
            dict(item for series in kind.values() for item in learn(series, compared).items())
            for kind in kinds
        )
        noisy = {str(name) for (_, name, _), b in of_metrics.items() if _part(b) > NOISY_PART}
        return cls(profile, len(runs), of_losses, of_metrics, of_sizes, frozenset(noisy))

    @cached_property
    def hides(self) -> tuple[float, float]:
        """The relative error of a loss that goes unseen: the median over steps, and the most.

        NaN where there is no loss.
        """
        _, later = PROFILES[self.profile]
        wide = [band.widened(later) for band in self.losses.values()]
        parts = [part for band in wide if math.isfinite(part := _part(band))]
        return (statistics.median(parts), max(parts)) if parts else (math.nan, math.nan)

    @property
    def relative(self) -> Tolerance:
        """The profile's tolerance of metrics and sizes: they have no scale of their own."""
        _, later = PROFILES[self.profile]
        return Tolerance(relative=later.relative or later.absolute)

    @cached_property
    def hides_of(self) -> Mapping[str, float]:
        """The relative error of each metric that goes unseen: the median over its reports."""
        parts: dict[str, list[float]] = {}
        for (_, name, _), band in self.metrics.items():
            if name not in self.noisy and math.isfinite(part := _part(band.widened(self.relative))):
                parts.setdefault(str(name), []).append(part)
        return {name: statistics.median(found) for name, found in sorted(parts.items())}


@dataclass(frozen=True)
class Allowance:
    """The tolerance of the plan."""

    stated: Tolerance | None = None
    bands: Bands | None = None
    #: the event numbers of the first steps after a resume
    firsts: frozenset[int] = frozenset()

    @property
    def is_exact(self) -> bool:
        """Whether everything must be equal to the last bit."""
        return self.stated is None and self.bands is None

    def allows(self, pair: NumberPair) -> bool:
        """Return whether a value of the run is within the tolerance."""
        ours = as_number(pair.ours)
        if self.bands is None or ours is None or pair.agrees(None):
            return pair.agrees(self.stated)
        if pair.step is None:
            return self._within(self.bands.metrics, (pair.epoch, pair.what, pair.rank), ours)
        band = self.bands.losses.get((pair.rank, pair.epoch, pair.step, pair.index))
        first, later = PROFILES[self.bands.profile]
        by = first if pair.number in self.firsts else later
        return band is not None and band.widened(by).holds(ours)

    def allows_size(self, name: str, place: StatePlace | None, ours: float, due: float) -> bool:
        """Return whether the size of a part is within the tolerance; no `place`: at any place."""
        if self.bands is not None and place is not None:
            return self._within(self.bands.sizes, (*place, name), ours)
        by = self.stated or self._relative()
        return abs(ours - due) <= by.absolute + by.relative * abs(due)

    def _within(self, bands: Mapping[Key, Interval], key: Key, ours: float) -> bool:
        band = bands.get(key)
        return band is not None and band.widened(self._relative()).holds(ours)

    def _relative(self) -> Tolerance:
        return Tolerance() if self.bands is None else self.bands.relative

    def is_too_noisy(self, metric: str) -> bool:
        """Return whether a metric varies so much by itself that its value proves nothing."""
        return self.bands is not None and metric in self.bands.noisy


EXACT = Allowance()


def _part(band: Interval) -> float:
    """Return the width of a band to one side, relative to its middle."""
    if not band.half:
        return 0.0
    return band.half / abs(band.middle) if band.middle else math.inf


def _losses(lineage: Lineage) -> Iterator[_Value]:
    for step in lineage.all_steps():
        at = step.epoch, step.step
        for index, loss in enumerate(step.losses or ()):
            yield "", at, (step.rank, *at, index), as_number(loss)


def _metrics(commits: Iterable[Commit]) -> Iterator[_Value]:
    for commit in commits:
        for rank, record in enumerate(commit.metrics):
            for name, metric in flat(record):
                yield name, (commit.epoch,), (commit.epoch, name, rank), as_number(metric)


def _sizes(snapshots: StateSnapshots) -> Iterator[_Value]:
    for place, seen in snapshots.by_place.items():
        at = place.epoch, place.step, MOMENTS.index(place.moment)
        for part in seen.components:
            size = part.size if isinstance(part.size, float) else None
            yield part.name, at, (*place, part.name), size


def _common(runs: Sequence[Iterable[_Value]]) -> dict[str, Found]:
    """Return the numbers that all runs have, by series and position."""
    values: dict[Key, list[float]] = {}
    where: dict[Key, tuple[str, tuple[float, ...]]] = {}
    for run in runs:
        for series, position, key, value in run:
            if value is not None:
                values.setdefault(key, []).append(value)
                where[key] = (series, position)
    # A number that one clean run lacks has no band, and so allows nothing.
    shared = [key for key, found in values.items() if len(found) == len(runs)]
    order = {position: n for n, position in enumerate(sorted({where[key][1] for key in shared}))}
    found: dict[str, Found] = {}
    for key in shared:
        series, position = where[key]
        found.setdefault(series, {}).setdefault(order[position], {})[key] = values[key]
    return found
