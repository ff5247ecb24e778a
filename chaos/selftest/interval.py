"""How sure a share is that was counted in so many runs."""

from dataclasses import dataclass
from math import sqrt

Z_95 = 1.959963984540054  # the 97.5 % quantile of the standard normal distribution


@dataclass(frozen=True)
class Share:
    """`count` of `total`."""

    count: int
    total: int

    @property
    def bounds(self) -> tuple[float, float]:
        """The 95 % Wilson score interval; (0, 1) where nothing was counted.

        E. B. Wilson, Probable inference, the law of succession, and
        statistical inference, Journal of the American Statistical Association
        22 (1927) 209-212. It holds for few runs and for shares of 0 and 1,
        where the usual plus-minus has no width.
        """
        if self.total == 0:
            return 0.0, 1.0
        n, share, z2 = self.total, self.count / self.total, Z_95**2
        centre = (share + z2 / (2 * n)) / (1 + z2 / n)
        half = Z_95 / (1 + z2 / n) * sqrt(share * (1 - share) / n + z2 / (4 * n * n))
        # At both ends the bound is the end itself, which floating point may miss by a little.
        low = 0.0 if self.count == 0 else max(0.0, centre - half)
        high = 1.0 if self.count == n else min(1.0, centre + half)
        return low, high

    def __str__(self) -> str:
        low, high = self.bounds
        return f"{self.count} of {self.total} (95 %: {100 * low:.1f}-{100 * high:.1f} %)"
