"""Mann and Whitney's rank test with its exact permutation distribution, and Holm's correction.

Recovery times are few, skewed and tied; ranks ask nothing of their distribution.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

EXACT_MAX = 30  # values of both sides; beyond that the normal approximation is as good


@dataclass(frozen=True)
class RankTest:
    """Whether two samples could be one.

    `p` is two-sided. `delta` is Cliff's: how much likelier a value of the
    second sample is above one of the first than below, from -1 to 1.
    `least_p` is what samples of this size that do not overlap would give.
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
    exact = sum(count) <= EXACT_MAX
    p = _exact_p(ranks, count[1], mine) if exact else _normal_p(ranks, count, mine)
    above = sum((b > a) - (b < a) for a in first for b in second)
    return RankTest(
        p=p,
        delta=above / (count[0] * count[1]),
        least_p=min(1.0, 2 / math.comb(sum(count), count[0])),
    )


def holm(values: Sequence[float]) -> list[float]:
    """Correct p values for being several, in their order: some false alarm has at most that p."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    corrected, highest = [0.0] * len(values), 0.0
    for done, place in enumerate(order):
        highest = max(highest, min(1.0, values[place] * (len(values) - done)))
        corrected[place] = highest
    return corrected


def doubled_ranks(values: Sequence[float]) -> list[int]:
    """Give twice the rank of each value, so that shared ranks are whole numbers."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    ranks, seen = [0] * len(values), 0
    for _, group in groupby(order, key=lambda place: values[place]):
        places = list(group)
        for place in places:
            ranks[place] = 2 * seen + len(places) + 1
        seen += len(places)
    return ranks


def _exact_p(ranks: Sequence[int], size: int, observed: int) -> float:
    """Count the ways to choose `size` of the ranks whose sum lies as far out."""
    ways: list[dict[int, int]] = [{0: 1}, *({} for _ in range(size))]
    for rank in ranks:
        for chosen in range(size, 0, -1):
            of = ways[chosen]
            for total, count in ways[chosen - 1].items():
                of[total + rank] = of.get(total + rank, 0) + count
    # Everything twice over, to stay in whole numbers: the mean is size * (n + 1).
    mean = size * (len(ranks) + 1)
    out = abs(observed - mean)
    far = sum(count for total, count in ways[size].items() if abs(total - mean) >= out)
    return far / math.comb(len(ranks), size)


def _normal_p(ranks: Sequence[int], count: tuple[int, int], observed: int) -> float:
    """Approximate, with the variance that ties leave and a correction for continuity."""
    total = len(ranks)
    mean = count[1] * (total + 1)
    spread = sum((rank - (total + 1)) ** 2 for rank in ranks)
    variance = count[0] * count[1] * spread / (total * (total - 1))
    if variance == 0:
        return 1.0
    out = max(0.0, abs(observed - mean) - 1)
    return math.erfc(out / math.sqrt(2 * variance))
