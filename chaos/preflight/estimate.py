"""A figure, and how sure it is."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2_000


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float


def mean_of(values: Sequence[float], *, seed: int = 0) -> Estimate:
    """Give the mean of independent values; the interval comes from drawing them again."""
    given = np.asarray(values, dtype=float)
    rng = np.random.Generator(np.random.PCG64(seed))
    means = rng.choice(given, (RESAMPLES, len(given))).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return Estimate(float(given.mean()), float(low), float(high))
