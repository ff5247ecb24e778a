"""Rank test of Mann and Whitney, Holm's correction, and Fisher's exact test."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

# All values times those of the smaller side: 50 against 50, 10 against 490. The normal
# approximation is good if both sides are larger, but not if one of them is small.
EXACT_MAX = 5_000


@dataclass(frozen=True)
class RankTest:
    """The comparison of two samples.

    `p` is two-sided. `delta` is Cliff's: the chance that a value of the second
    sample is above one of the first, less the chance that it is below, from -1 to 1.
    `least_p` is the p of samples of this size that do not overlap.
    """

    p: float
    delta: float
    least_p: float


def rank_test(first: Sequence[float], second: Sequence[float]) -> RankTest:
    """Compare two samples; both must have values."""
    assert first
    assert second
    ranks = doubled_ranks([*first, *second])
    mine = sum(ranks[len(first) :])
    count = len(first), len(second)
    exact = sum(count) * min(count) <= EXACT_MAX
    # All sums are doubled, to stay in whole numbers: the mean is size * (n + 1).
    out = abs(mine - count[1] * (len(ranks) + 1))
    p = _exact_p(ranks, min(count), out) if exact else _normal_p(ranks, count, out)
    above = sum((b > a) - (b < a) for a in first for b in second)
    return RankTest(
        p=p,
        delta=above / (count[0] * count[1]),
        least_p=least_p(*count),
    )


def least_p(first: int, second: int) -> float:
    """Return the p of two samples of so many values that do not overlap, which is the lowest."""
    return min(1.0, 2 / math.comb(first + second, first))


def holm(values: Sequence[float]) -> list[float]:
    """Correct p values for their number, in their order, so that they bound any false alarm."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    corrected, highest = [0.0] * len(values), 0.0
    for done, place in enumerate(order):
        highest = max(highest, min(1.0, values[place] * (len(values) - done)))
        corrected[place] = highest
    return corrected


def doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value, so that shared ranks are whole numbers."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    ranks, seen = [0] * len(values), 0
    for _, group in groupby(order, key=lambda place: values[place]):
        places = list(group)
        for place in places:
            ranks[place] = 2 * seen + len(places) + 1
        seen += len(places)
    return ranks


def _exact_p(ranks: Sequence[int], size: int, out: int) -> float:
    """Return the share of the ways to choose `size` ranks whose sum lies `out` from its mean.

    The number of ways to each sum is held in one long whole number, with a fixed number
    of bytes for each sum: a shift adds a rank to every sum.
    """
    every = math.comb(len(ranks), size)
    width = (every.bit_length() + 7) // 8
    ways = [1, *([0] * size)]
    for rank in ranks:
        for chosen in range(size, 0, -1):
            ways[chosen] += ways[chosen - 1] << (8 * width * rank)
    counts = ways[size].to_bytes(width * (sum(sorted(ranks)[-size:]) + 1), "little")
    mean = size * (len(ranks) + 1)
    far = sum(
        int.from_bytes(counts[width * total : width * (total + 1)], "little")
        for total in range(len(counts) // width)
        if abs(total - mean) >= out
    )
    return far / every


def _normal_p(ranks: Sequence[int], count: tuple[int, int], out: int) -> float:
    """Approximate, with the variance that ties leave and a correction for continuity."""
    total = len(ranks)
    spread = sum((rank - (total + 1)) ** 2 for rank in ranks)
    variance = count[0] * count[1] * spread / (total * (total - 1))
    if variance == 0:
        return 1.0
    return math.erfc(max(0.0, out - 1) / math.sqrt(2 * variance))


def fewer_p(stood: int, before: int, stands: int, after: int) -> float:
    """Return the chance of `stands` or fewer of `after`, if both sides stand equally often."""
    total, good = before + after, stood + stands
    ways = (
        math.comb(good, k) * math.comb(total - good, after - k)
        for k in range(max(0, after - (total - good)), stands + 1)
    )
    return sum(ways) / math.comb(total, after)
