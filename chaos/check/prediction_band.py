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
from chaos.model.scenario import Profile

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
    """The range of a number: `half` to either side of `middle`, or values that are no number."""

    #: NaN where all runs had a value that is no number
    middle: float
    half: float
    #: these values: `nan`, `inf`, `-inf`
    odd: frozenset[str] = frozenset()

    def holds(self, value: float) -> bool:
        """Return whether a value lies in it; one that is no number does if a run had the same."""
        if not math.isfinite(value):
            return str(value) in self.odd
        return abs(value - self.middle) <= self.half

    def widened(self, by: Tolerance) -> "Interval":
        """Return it with a tolerance added."""
        half = self.half + by.absolute + by.relative * abs(self.middle)
        return replace(self, half=half)


Series: TypeAlias = Mapping[int, Mapping[Key, Sequence[float]]]


@dataclass(frozen=True, slots=True)
class Compared:
    """The numbers to compare with bands, and the windows that they lie in, counted.

    A number that is the same in all clean runs has no noise to leave a band by, and is not counted.
    """

    numbers: int
    windows: int

    @classmethod
    def of(cls, every: Iterable[Series]) -> "Compared":
        """Count the numbers that vary. A window at either end of a series has one side only."""
        numbers = windows = 0
        for series in every:
            varying = [[v for v in at.values() if len(set(v)) > 1] for at in series.values()]
            numbers += sum(map(len, varying))
            windows += math.ceil(len(series) / (WINDOW + 1)) if any(varying) else 0
        return cls(max(1, numbers), max(1, windows))


def learn(series: Series, compared: Compared) -> dict[Key, Interval]:
    """Return the interval of each number.

    `series` maps a position in training to the numbers there, each by its key with one value per
    clean run; all have much the same spread (losses, or one metric). `compared` counts all numbers
    that will be compared with bands, in other series as well. Raises `ValueError` for fewer than
    two runs.
    """
    places = sorted(series)
    rows = [_Spread.of(series[place].values()) for place in places]
    near = [
        _Spread.pooled(rows[max(0, index - WINDOW) : index + WINDOW + 1])
        for index in range(len(rows))
    ]
    # Bonferroni: one run is compared in many numbers, so each may err but seldom; halved, since a
    # number may lie off to either side. With the normal quantile, or with as many degrees as steps
    # and ranks are pooled, 14 % of further clean runs left the band with heavy tails (Student's t
    # of 3 degrees), and 8 % where runs drift as a random walk.
    of_a_number = student(FALSE_ALARMS / (2 * compared.numbers), _degrees(rows, near))
    found = {}
    for place, spread in zip(places, near, strict=True):
        for key, values in series[place].items():
            if len(values) < 2:  # noqa: PLR2004 (one value has no spread)
                raise ValueError(f"a band takes two runs or more, {key} has {len(values)}")
            # The band lies around the numbers, and a value that is none lies in it where a run had
            # the same: so it does not depend on which clean run came first, and what runs do by
            # themselves is no defect.
            numbers = _numbers(values)
            drawn = len(numbers) or len(values)
            of_a_run = student(FALSE_ALARMS / (2 * compared.windows), max(1, drawn - 1))
            q = max(of_a_number, of_a_run)
            half = max(q * spread.s * math.sqrt(1 + 1 / drawn), WIDEST_TIMES * spread.widest)
            odd = frozenset(str(value) for value in values if not math.isfinite(value))
            found[key] = Interval(_mean(numbers), half, odd)
    return found


@cache
def student(tail: float, degrees: int) -> float:
    """Return the value that Student's t exceeds with a chance of `tail`, below one half.

    By bisection of the sums that its distribution is for whole degrees (Abramowitz and Stegun,
    Handbook of Mathematical Functions, 26.7.3 and 26.7.4).
    """
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        low, high = (angle, high) if _beyond(angle, degrees) > tail else (low, angle)
    return math.sqrt(degrees) * math.tan(low)


def _beyond(angle: float, degrees: int) -> float:
    """Return the chance of a t above sqrt(degrees) times the tangent of an angle."""
    cos2 = math.cos(angle) ** 2
    is_odd = degrees % 2
    term = math.cos(angle) if is_odd else 1.0
    total = term if degrees > 1 else 0.0
    for k in range(2 + is_odd, degrees - 1, 2):
        term *= cos2 * (k - 1) / k
        total += term
    within = math.sin(angle) * total
    return (1 - (2 / math.pi * (angle + within) if is_odd else within)) / 2


@dataclass(frozen=True, slots=True)
class _Spread:
    """The deviations of numbers from their means, at one position or several."""

    apart: Sequence[float]
    squares: float
    freedom: int
    widest: float

    @classmethod
    def of(cls, numbers: Iterable[Sequence[float]]) -> "_Spread":
        apart, freedom = list[float](), 0
        for values in filter(None, map(_numbers, numbers)):
            middle = _mean(values)
            apart += [value - middle for value in values]
            freedom += len(values) - 1
        squares = math.fsum(a * a for a in apart)
        return cls(apart, squares, freedom, max(map(abs, apart), default=0.0))

    @classmethod
    def pooled(cls, rows: Sequence["_Spread"]) -> "_Spread":
        squares, freedom = sum(row.squares for row in rows), sum(row.freedom for row in rows)
        return cls((), squares, freedom, max(row.widest for row in rows))

    @property
    def s(self) -> float:
        return math.sqrt(self.squares / self.freedom) if self.freedom else 0.0


def _degrees(rows: Sequence[_Spread], near: Sequence[_Spread]) -> int:
    """Return the degrees of the Student's distribution whose tails are those of the deviations."""
    squares = [
        (a / spread.s) ** 2
        for row, spread in zip(rows, near, strict=True)
        if spread.s
        for a in row.apart
    ]
    if not squares:
        return DEGREES_MAX
    count = len(squares)
    kurtosis = count * math.fsum(z * z for z in squares) / math.fsum(squares) ** 2
    excess = max(kurtosis - 3, 1e-9)
    return max(DEGREES_MIN, min(DEGREES_MAX, int(DEGREES_PART * (4 + 6 / excess))))


def _numbers(values: Sequence[float]) -> Sequence[float]:
    return [value for value in values if math.isfinite(value)]


def _mean(numbers: Sequence[float]) -> float:
    return math.fsum(numbers) / len(numbers) if numbers else math.nan
