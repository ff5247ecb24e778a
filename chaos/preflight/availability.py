"""How many nodes a market leaves, over time and in the long run."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from chaos.preflight.capacity import HOUR_S, Counts, Floats, capacity
from chaos.preflight.market import Market

_RUNS = 400
_ROUNDS_MAX = 4_000
_SEED = 20_060_201


@dataclass(frozen=True)
class Availability:
    """Nodes that are up at moments `at_h`, in 5, 50 and 95 % of runs; losses per hour so far."""

    at_h: tuple[float, ...]
    low: tuple[float, ...]
    middle: tuple[float, ...]
    high: tuple[float, ...]
    losses_per_h: tuple[float, ...]


def availability(
    market: Market, pool: int, *, hours: float, seed: int, points: int = 60
) -> Availability:
    """Give how many of `pool` nodes are up over time, and how many are lost per hour.

    Where the market changes too often to follow for so long, the time is cut.
    """
    grid_s = np.linspace(0, hours * HOUR_S, points + 1)
    up, lost = _sampled(market, pool, grid_s, seed)
    low, middle, high = np.quantile(up, [0.05, 0.5, 0.95], axis=0, method="inverted_cdf")
    width_h = hours / points
    return Availability(
        tuple(grid_s / HOUR_S),
        tuple(low.tolist()),
        tuple(middle.tolist()),
        tuple(high.tolist()),
        (0.0, *(lost.mean(axis=0) / width_h).tolist()),
    )


@lru_cache(maxsize=256)
def held_quantile(market: Market, pool: int, share: float) -> int:
    """Give the number of nodes that are up, of `pool`, in all but `share` of the time."""
    if not market.makes_wait:
        return pool
    settled_h = 5 * max(market.away_h, 0.01)
    span_h = market.replay.span_s / HOUR_S if market.replay else 20 * settled_h
    grid_s = np.linspace(settled_h * HOUR_S, (settled_h + span_h) * HOUR_S, 40)
    up, _ = _sampled(market, pool, grid_s, _SEED)
    return int(np.quantile(up, share, method="inverted_cdf"))


def _sampled(market: Market, pool: int, grid_s: Floats, seed: int) -> tuple[Counts, Counts]:
    engine = capacity(market, pool, _RUNS, np.random.Generator(np.random.SFC64(seed)))
    up = np.full((_RUNS, len(grid_s)), -1, dtype=np.int64)
    lost = np.zeros((_RUNS, len(grid_s) - 1), dtype=np.int64)
    rows = np.arange(_RUNS)
    for _ in range(_ROUNDS_MAX):
        if engine.next_s.min() > grid_s[-1]:
            break
        held, at_s = engine.up.copy(), engine.next_s
        up = np.where((up < 0) & (grid_s[None, :] < at_s[:, None]), held[:, None], up)
        bin_of = np.searchsorted(grid_s, at_s) - 1
        is_in = (bin_of >= 0) & (bin_of < lost.shape[1])
        count = engine.change()
        np.add.at(lost, (rows[is_in], bin_of[is_in]), count[is_in])
    return np.where(up < 0, engine.up[:, None], up), lost
