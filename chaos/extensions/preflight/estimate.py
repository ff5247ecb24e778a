"""Figures with their 95 % intervals, and hours, seconds and shares as text."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chaos.wording import Z_95, wilson_interval

# Means of samples drawn anew with replacement (bootstrap), for the interval of a mean.
MEANS_DRAWN = 2_000


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether it surely has a sign."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Quantiles:
    """A distribution in three numbers: 5, 50 and 95 %."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True)
class Chance:
    """A probability with its 95 % interval (Wilson)."""

    share: float
    low: float
    high: float
    #: the runs that it is from
    n: int


def bootstrap_mean(values: Sequence[float], *, seed: int = 0) -> Estimate:
    """Return the mean of independent values; the interval is found by resampling."""
    samples = np.asarray(values, dtype=float)
    rng = np.random.Generator(np.random.PCG64(seed))
    means = rng.choice(samples, (MEANS_DRAWN, len(samples))).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return Estimate(float(samples.mean()), float(low), float(high))


def estimate_mean(values: NDArray[np.float64]) -> Estimate:
    """Return the mean of many runs; the interval is that of the normal distribution."""
    mean = float(values.mean())
    half = Z_95 * float(values.std()) / math.sqrt(len(values))
    return Estimate(mean, mean - half, mean + half)


def spread(values: NDArray[np.float64]) -> Quantiles:
    """Return 5, 50 and 95 %; infinite values stay infinite."""
    ranked = np.quantile(values, [0.05, 0.5, 0.95], method="inverted_cdf")
    return Quantiles(*(float(value) for value in ranked))


def chance(hits: int, n: int) -> Chance:
    """Return a share with its Wilson interval; without any run, that is 0 to 1."""
    return Chance(hits / n if n else 0.0, *wilson_interval(hits, n), n)


_LONG = 2.0  # below so many hours or minutes, the smaller unit is used


def format_seconds(seconds: float) -> str:
    """Return seconds with three digits, whole from 100 on."""
    return f"{seconds:.0f} s" if seconds >= 100 else f"{seconds:.3g} s"  # noqa: PLR2004


def choose_time_unit(hours: float) -> tuple[str, float]:
    """Return the unit for a time of this size, and its number per hour."""
    if hours >= _LONG:
        return "h", 1.0
    return ("min", 60.0) if hours * 60 >= _LONG else ("s", 3600.0)


def format_hours(hours: float) -> str:
    """Return a time with its unit: `3.4 h`, `12.0 min`, `5.3 s`."""
    unit, units_per_hour = choose_time_unit(hours)
    return f"{hours * units_per_hour:.1f} {unit}"


_MANY = 2.0  # from so many on, a share is said in times


def format_price_share(share: float) -> str:
    """Return a share of a price: `47%`, `3.6 times`, `36 times`."""
    if share < _MANY:
        return f"{share:.0%}"
    return f"{share:,.0f} times" if share >= 10 else f"{share:.1f} times"  # noqa: PLR2004


def format_percent(share: float) -> str:
    """Return a requested share with all its digits: `95%`, `99.9%`."""
    return f"{100 * share:.10g}%"
