"""The prediction band: how far a number may lie from those of several clean runs.

For jobs that do not repeat themselves to the last bit. Several clean runs are several draws of the
same number. A run with faults is one more draw, and must lie where one more draw would.

The band of a number is a prediction interval for one further draw (Hahn and Meeker, Statistical
Intervals, 1991): mean ± q s sqrt(1 + 1/n). Five runs hardly show one number's spread s, and
neighbouring steps of all ranks have much the same, so s is pooled over a window of them. A run with
nothing wrong leaves one of all its bands once in a hundred runs. There are two ways to leave one,
and q is the wider of two quantiles of Student's distribution (Bonferroni):

- The run as a whole lies off: it drifts, or amplifies rounding. Then the numbers
  of a window are one draw and n runs leave n - 1 degrees of freedom, however
  many steps and ranks were pooled. It may do so once in each window.
- One number lies off: noise has heavy tails, or is larger at some steps. Any of
  all numbers may. The degrees are three quarters of those that have the kurtosis
  of the series, 4 + 6 / excess: a tail is longer than what was seen of it.

Neither covers a tail that only whole runs have: of five runs, each is a fifth. Training amplifies
rounding now and then, so a band is never narrower than twice the largest deviation seen in its
window. `make statistics` measures the rate, for docs/statistics.md. To this the profile adds a
tolerance of its own.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeAlias

from chaos.model.bounds import Tolerance
from chaos.model.expect import Profile

RUNS_MIN = 5
FALSE_ALARMS = 0.01
WINDOW = 8  # places before and after
WIDEST_TIMES = 2.0
# Of Student's distribution. 3 has no kurtosis that is finite, and 200 is as good as normal. The
# part was found by simulation: with half, heavy tails leave a band half as often, and where noise
# differs from step to step one defect in three is hidden.
DEGREES_MIN, DEGREES_MAX, DEGREES_PART = 3, 200, 0.75
# The part of a loss that a band may hide. A defect that moves losses by more is no small one: a
# lost optimizer's state moves them by a few percent, and a wider band hides it. And spreads of
# that size have tails that five runs do not show: 1 of 18 right runs left such a band.
HIDDEN_MAX = 0.05

Key: TypeAlias = tuple[object, ...]

# Absolute and relative, at the first step after a resume and later: NeMo Automodel's checkpoint
# robustness profiles.
PROFILES: Mapping[Profile, tuple[Tolerance, Tolerance]] = {
    "strict": (Tolerance(absolute=1e-6), Tolerance(absolute=1e-6)),
    "standard": (
        Tolerance(absolute=1e-5, relative=2e-3),
        Tolerance(absolute=5e-3, relative=2e-3),
    ),
    "relaxed": (
        Tolerance(absolute=1e-4, relative=7.5e-3),
        Tolerance(absolute=1e-2, relative=7.5e-3),
    ),
}


@dataclass(frozen=True, slots=True)
class Interval:
    """The range of a number: `half_width` either side of `middle`, or values that are no number."""

    #: NaN where all runs had a value that is no number
    middle: float
    half_width: float
    #: these values: `nan`, `inf`, `-inf`
    special_values: frozenset[str] = frozenset()

    def contains(self, value: float) -> bool:
        """Return whether a value lies in it; one that is no number does if a run had the same."""
        if not math.isfinite(value):
            return str(value) in self.special_values
        return abs(value - self.middle) <= self.half_width

    def add_tolerance(self, tolerance: Tolerance) -> "Interval":
        """Return it with a tolerance added."""
        half_width = self.half_width + tolerance.absolute + tolerance.relative * abs(self.middle)
        return replace(self, half_width=half_width)


Series: TypeAlias = Mapping[int, Mapping[Key, Sequence[float]]]


@dataclass(frozen=True, slots=True)
class BandCounts:
    """The numbers to compare with bands, and the windows that they lie in, counted.

    A number that is the same in all clean runs has no noise to leave a band by, and is not counted.
    """

    numbers: int
    windows: int

    @classmethod
    def from_series(cls, all_series: Iterable[Series]) -> "BandCounts":
        """Count the numbers that vary. A window at either end of a series has one side only."""
        numbers = windows = 0
        for series in all_series:
            varying_values = [
                [v for v in values_by_key.values() if len(set(v)) > 1]
                for values_by_key in series.values()
            ]
            numbers += sum(map(len, varying_values))
            windows += math.ceil(len(series) / (WINDOW + 1)) if any(varying_values) else 0
        return cls(max(1, numbers), max(1, windows))


def learn_intervals(series: Series, counts: BandCounts) -> dict[Key, Interval]:
    """Return the interval of each number.

    `series` maps a position in training to the numbers there, each by its key with one value per
    clean run; all have much the same spread (losses, or one metric). `counts` has those of all
    numbers that will be compared with bands, in other series as well. Raises `ValueError` for fewer
    than two runs.
    """
    positions = sorted(series)
    spreads = [_Deviations.from_numbers(series[position].values()) for position in positions]
    pooled_spreads = [
        _Deviations.pool(spreads[max(0, index - WINDOW) : index + WINDOW + 1])
        for index in range(len(spreads))
    ]
    # Bonferroni: one run is compared in many numbers, so each may err but seldom; halved, since a
    # number may lie off to either side. With the normal quantile, or with as many degrees as steps
    # and ranks are pooled, 14 % of further clean runs left the band with heavy tails (Student's t
    # of 3 degrees), and 8 % where runs drift as a random walk.
    number_quantile = find_student_quantile(
        FALSE_ALARMS / (2 * counts.numbers), _estimate_degrees(spreads, pooled_spreads)
    )
    intervals = {}
    for position, spread in zip(positions, pooled_spreads, strict=True):
        for key, values in series[position].items():
            if len(values) < 2:  # noqa: PLR2004 (one value has no spread)
                raise ValueError(f"a band takes two runs or more, {key} has {len(values)}")
            # The band lies around the numbers, and a value that is none lies in it where a run had
            # the same: so it does not depend on which clean run came first, and what runs do by
            # themselves is no defect.
            numbers = _select_finite(values)
            draw_count = len(numbers) or len(values)
            run_quantile = find_student_quantile(
                FALSE_ALARMS / (2 * counts.windows), max(1, draw_count - 1)
            )
            quantile = max(number_quantile, run_quantile)
            half_width = max(
                quantile * spread.standard_deviation * math.sqrt(1 + 1 / draw_count),
                WIDEST_TIMES * spread.widest,
            )
            special_values = frozenset(str(value) for value in values if not math.isfinite(value))
            intervals[key] = Interval(_mean(numbers), half_width, special_values)
    return intervals


@cache
def find_student_quantile(tail: float, degrees: int) -> float:
    """Return the value that Student's t exceeds with a chance of `tail`, below one half.

    By bisection of the sums that its distribution is for whole degrees (Abramowitz and Stegun,
    Handbook of Mathematical Functions, 26.7.3 and 26.7.4).
    """
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        low, high = (angle, high) if _find_tail_chance(angle, degrees) > tail else (low, angle)
    return math.sqrt(degrees) * math.tan(low)


def _find_tail_chance(angle: float, degrees: int) -> float:
    """Return the chance of a t above sqrt(degrees) times the tangent of an angle."""
    cos2 = math.cos(angle) ** 2
    is_odd = degrees % 2
    term = math.cos(angle) if is_odd else 1.0
    total = term if degrees > 1 else 0.0
    for k in range(2 + is_odd, degrees - 1, 2):
        term *= cos2 * (k - 1) / k
        total += term
    inner = math.sin(angle) * total
    return (1 - (2 / math.pi * (angle + inner) if is_odd else inner)) / 2


@dataclass(frozen=True, slots=True)
class _Deviations:
    """The deviations of numbers from their means, at one position or several."""

    deviations: Sequence[float]
    squares: float
    freedom_degrees: int
    widest: float

    @classmethod
    def from_numbers(cls, numbers: Iterable[Sequence[float]]) -> "_Deviations":
        deviations, freedom_degrees = list[float](), 0
        for values in filter(None, map(_select_finite, numbers)):
            mean = _mean(values)
            deviations += [value - mean for value in values]
            freedom_degrees += len(values) - 1
        squares = math.fsum(deviation * deviation for deviation in deviations)
        return cls(deviations, squares, freedom_degrees, max(map(abs, deviations), default=0.0))

    @classmethod
    def pool(cls, spreads: Sequence["_Deviations"]) -> "_Deviations":
        squares, freedom_degrees = (
            sum(spread.squares for spread in spreads),
            sum(spread.freedom_degrees for spread in spreads),
        )
        return cls((), squares, freedom_degrees, max(spread.widest for spread in spreads))

    @property
    def standard_deviation(self) -> float:
        return math.sqrt(self.squares / self.freedom_degrees) if self.freedom_degrees else 0.0


def _estimate_degrees(spreads: Sequence[_Deviations], pooled_spreads: Sequence[_Deviations]) -> int:
    """Return the degrees of the Student's distribution whose tails are those of the deviations."""
    squares = [
        (deviation / spread.standard_deviation) ** 2
        for row, spread in zip(spreads, pooled_spreads, strict=True)
        if spread.standard_deviation
        for deviation in row.deviations
    ]
    if not squares:
        return DEGREES_MAX
    count = len(squares)
    kurtosis = count * math.fsum(z * z for z in squares) / math.fsum(squares) ** 2
    excess = max(kurtosis - 3, 1e-9)
    return max(DEGREES_MIN, min(DEGREES_MAX, int(DEGREES_PART * (4 + 6 / excess))))


def _select_finite(values: Sequence[float]) -> Sequence[float]:
    return [value for value in values if math.isfinite(value)]


def _mean(numbers: Sequence[float]) -> float:
    return math.fsum(numbers) / len(numbers) if numbers else math.nan
