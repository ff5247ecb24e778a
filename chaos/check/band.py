"""How far apart runs of one job lie when nothing is done to them: a band around each number.

For jobs that do not repeat themselves to the last bit. Several clean runs are
several draws of the same number; a struck run is one more, and must lie where
one more draw would.

The band of a number is a prediction interval for one further draw from a
normal distribution (Hahn and Meeker, Statistical Intervals, 1991): mean ± z s
sqrt(1 + 1/n). Five runs say little of one number's spread s, and neighbouring
steps of all ranks have much the same, so s is pooled over a window of them. z
is chosen so that a run with nothing wrong leaves one of all its bands once in
a hundred runs (Bonferroni). Training amplifies rounding now and then, so a
band is never narrower than twice the largest deviation seen in its window.
To this the profile adds what it tolerates in any case.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TypeAlias

from chaos.model.leeway import Tolerance
from chaos.model.scenario import Profile

RUNS_MIN = 5
FALSE_ALARMS = 0.01
WINDOW = 8  # places before and after
WIDEST_TIMES = 2.0
# The part of a loss that a band may hide. A defect that moves losses by more is no small one: a
# lost optimizer's state moves them by a few percent, so that a wider band says nothing of it. And
# spreads of that size have tails that five runs do not show: 1 of 18 right runs left such a band.
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
    """Where a number may lie: `half` to either side of `middle`, or where runs were no number.

    `odd` names what they were (`nan`, `inf`, `-inf`); `middle` is NaN where
    all of them were.
    """

    middle: float
    half: float
    odd: frozenset[str] = frozenset()

    def holds(self, value: float) -> bool:
        """Say whether a value lies in it; what is no number does where a run had the same."""
        if not math.isfinite(value):
            return str(value) in self.odd
        return abs(value - self.middle) <= self.half

    def widened(self, by: Tolerance) -> "Interval":
        """Add what is tolerated in any case."""
        half = self.half + by.absolute + by.relative * abs(self.middle)
        return replace(self, half=half)


Series: TypeAlias = Mapping[int, Mapping[Key, Sequence[float]]]


def learn(series: Series, *, compared: int) -> dict[Key, Interval]:
    """Give the interval of each number.

    `series` maps a position in training to the numbers there, each by its key
    with one value per clean run; all have much the same spread (losses, or one
    metric). `compared` is how many numbers will be held against their bands.
    Raises `ValueError` for fewer than two runs.
    """
    places = sorted(series)
    rows = [_Spread.of(series[place].values()) for place in places]
    z = NormalDist().inv_cdf(1 - FALSE_ALARMS / (2 * max(1, compared)))
    found = {}
    for index, place in enumerate(places):
        near = rows[max(0, index - WINDOW) : index + WINDOW + 1]
        freedom = sum(row.freedom for row in near)
        s = math.sqrt(sum(row.squares for row in near) / freedom) if freedom else 0.0
        widest = max(row.widest for row in near)
        for key, values in series[place].items():
            if len(values) < 2:  # noqa: PLR2004 (one value has no spread)
                raise ValueError(f"a band takes two runs or more, {key} has {len(values)}")
            numbers = _numbers(values)
            drawn = len(numbers) or len(values)
            half = max(z * s * math.sqrt(1 + 1 / drawn), WIDEST_TIMES * widest)
            odd = frozenset(str(value) for value in values if not math.isfinite(value))
            found[key] = Interval(_mean(numbers), half, odd)
    return found


@dataclass(frozen=True, slots=True)
class _Spread:
    """The deviations of all numbers at one position from their means."""

    squares: float
    freedom: int
    widest: float

    @classmethod
    def of(cls, numbers: Iterable[Sequence[float]]) -> "_Spread":
        squares, freedom, widest = 0.0, 0, 0.0
        for values in filter(None, map(_numbers, numbers)):
            middle = _mean(values)
            apart = [value - middle for value in values]
            squares += math.fsum(a * a for a in apart)
            freedom += len(values) - 1
            widest = max(widest, *(abs(a) for a in apart))
        return cls(squares, freedom, widest)


def _numbers(values: Sequence[float]) -> Sequence[float]:
    return [value for value in values if math.isfinite(value)]


def _mean(numbers: Sequence[float]) -> float:
    return math.fsum(numbers) / len(numbers) if numbers else math.nan
