"""Fisher's exact test, one-sided: did fewer runs stand than chance would leave?"""

import math


def fewer_p(stood: int, before: int, stands: int, after: int) -> float:
    """Give the chance of `stands` or fewer of `after`, if both sides stand equally often."""
    total, good = before + after, stood + stands
    ways = (
        math.comb(good, k) * math.comb(total - good, after - k)
        for k in range(max(0, after - (total - good)), stands + 1)
    )
    return sum(ways) / math.comb(total, after)
