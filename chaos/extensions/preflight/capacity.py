"""The pool of nodes of a market in many simulated runs, and how many are up in the long run."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from chaos.extensions.preflight.market import (
    Bathtub,
    Exponential,
    Lifetime,
    Market,
    Replay,
    Shock,
    Weibull,
    scale_trace,
)

Floats: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
HOUR_S = 3600.0


class PoolCapacity(Protocol):
    """The interface of an engine to the simulation."""

    up: Counts
    next_s: Floats
    #: nodes that left at the last change, at which a repeated trace begins again: no observed loss.
    #: None if no market repeats a trace
    cut: Counts | None

    def change(self) -> Counts:
        """Make the next change in every run; return how many nodes were lost (0: a return)."""


def capacity(market: Market, pool: int, runs: int, rng: np.random.Generator) -> PoolCapacity:
    """Return the engine for a job's nodes on a market."""
    return pools_capacity([(market, pool)], runs, rng)


def pools_capacity(
    pools: Sequence[tuple[Market, int]], runs: int, rng: np.random.Generator
) -> PoolCapacity:
    """Return the engine for pools side by side; only one pool if its lives are not exponential."""
    sizes = [market.size(pool) for market, pool in pools]
    engine = _engine([(market, n) for (market, _), n in zip(pools, sizes, strict=True)], runs, rng)
    if not any(market.is_shared for market, _ in pools):
        return engine
    # A generator of its own: whatever the job wants, the market has the very same losses.
    return HeldNodes(engine, [pool for _, pool in pools], runs, rng.spawn(1)[0])


def _engine(
    pools: Sequence[tuple[Market, int]], runs: int, rng: np.random.Generator
) -> PoolCapacity:
    """Return the engine of whole markets: counts if lives are exponential, else node by node."""
    market, nodes = pools[0]
    if market.replay is not None:
        return ReplayedTrace(market.replay, nodes, runs, rng)
    if isinstance(market.lifetime, Exponential):
        return Memoryless(pools, runs, rng)
    assert market.lifetime is not None
    return Ageing(market, market.lifetime, nodes, runs, rng)


class HeldNodes:
    """The nodes that jobs hold on markets of more: as many as they want of those that are up.

    A loss takes any node of the market alike. One that the job loses is replaced at once by
    one that is up and that it did not hold, if there is any.
    """

    def __init__(
        self, market: PoolCapacity, wanted: Sequence[int], runs: int, rng: np.random.Generator
    ) -> None:
        self._market, self._runs, self._rng = market, runs, rng
        self._wanted: Counts = np.repeat(np.array(wanted, dtype=np.int64), runs)
        self.up: Counts = np.minimum(market.up, self._wanted)
        self.next_s, self.cut = market.next_s, market.cut

    def change(self) -> Counts:
        previous_up, previous_held = self._market.up.copy(), self.up
        lost = self._draw_job_losses(self._market.change(), previous_up, previous_held)
        self.up = np.minimum(self._market.up, self._wanted)
        self.next_s = self._market.next_s
        if self._market.cut is not None:
            # Where a repeated trace begins again, the job loses what it then holds less.
            self.cut = np.where(self._market.cut > 0, np.maximum(0, previous_held - self.up), 0)
        return lost

    def _draw_job_losses(self, lost: Counts, previous_up: Counts, previous_held: Counts) -> Counts:
        """Draw the job's among the lost nodes: one after the other, without putting back."""
        hit = np.zeros_like(lost)
        for n in range(int(lost.max(initial=0))):
            rows = np.flatnonzero(lost > n)
            # One number per run, the same for all pools, so that a node more mostly changes little.
            drawn = self._rng.random(self._runs)[rows % self._runs]
            hit[rows] += drawn * (previous_up[rows] - n) < previous_held[rows] - hit[rows]
        return hit


class Memoryless:
    """Exponential lives, shocks and absences: only counts matter, so any number of nodes is cheap.

    Gillespie's direct method: an exponential draws the time of the next change, a uniform its
    kind. Several pools go side by side on the same draws; they share the shocks.
    """

    def __init__(
        self, pools: Sequence[tuple[Market, int]], runs: int, rng: np.random.Generator
    ) -> None:
        self._pools = len(pools)
        self.up: Counts = np.repeat(np.array([pool for _, pool in pools], dtype=np.int64), runs)
        self.next_s = np.zeros(len(self.up))
        self.cut: Counts | None = None
        self._runs, self._rng, self._shock = runs, rng, pools[0][0].shock
        rates = np.array([self._rates(market) for market, _ in pools])
        self._loss, self._shock_rate, self._return = np.repeat(rates, runs, axis=0).T.copy()
        self._has_returns = self._return > 0
        self._base_rate = self._shock_rate + self.up * self._return
        self._draw()

    @staticmethod
    def _rates(market: Market) -> tuple[float, float, float]:
        """Return losses per node, shocks, and returns per missing node, in a second."""
        assert isinstance(market.lifetime, Exponential)
        times_h = (market.lifetime.mtbf_h, market.shock and market.shock.every_h, market.away_h)
        loss, shock, node_return = (1 / (hours * HOUR_S) if hours else 0.0 for hours in times_h)
        return loss, shock, node_return

    def change(self) -> Counts:
        # One uniform number chooses among three kinds laid end to end: a node's own loss, a shock,
        # a return. All pools read the same one, so a pool with a node more mostly sees the same
        # event, and the difference of two settings has little noise.
        point = self._spread(self._rng.random(self._runs)) * self._total
        is_single = point < self._losing
        lost: Counts = is_single.astype(np.int64)
        if self._shock is not None:
            shocked_rows = np.flatnonzero(~is_single & (point < self._losing + self._shock_rate))
            if len(shocked_rows):
                lost[shocked_rows] = draw_shock_losses(
                    self._shock, self.up[shocked_rows], self._rng
                )
        returns = self._has_returns & (point >= self._losing + self._shock_rate)
        # Where replacements come at once the count never changes: a loss is a loss and a return in
        # one.
        self.up = self.up + returns - lost * self._has_returns
        self._draw()
        return lost

    def _draw(self) -> None:
        self._losing = self.up * self._loss
        self._total = self._losing - self.up * self._return + self._base_rate
        drawn = self._spread(self._rng.standard_exponential(self._runs))
        self.next_s = self.next_s + drawn / self._total

    def _spread(self, drawn: Floats) -> Floats:
        return drawn if self._pools == 1 else np.concatenate([drawn] * self._pools)


class Ageing:
    """Lives that depend on age: every node has a clock, and so have the shocks."""

    def __init__(
        self, market: Market, life: Lifetime, pool: int, runs: int, rng: np.random.Generator
    ) -> None:
        self.up = np.full(runs, pool, dtype=np.int64)
        self.cut: Counts | None = None
        self._rng, self._life, self._shock, self._away = rng, life, market.shock, market.away_h
        self._is_up = np.ones((runs, pool + 1), dtype=np.bool_)
        self._clock = np.full((runs, pool + 1), np.inf)  # the last column is the shock's
        self._clock[:, :pool] = draw_lives_s(life, (runs, pool), rng)
        if market.shock is not None:
            self._clock[:, pool] = rng.exponential(market.shock.every_h * HOUR_S, runs)
        # The same memory in one row: access to single elements takes half the time.
        self._flat_is_up, self._flat_clock = self._is_up.reshape(-1), self._clock.reshape(-1)
        self._row_starts = np.arange(runs) * (pool + 1)
        self._draw()

    def change(self) -> Counts:
        cells, is_shock = self._cells, self._node == self._clock.shape[1] - 1
        is_lost = self._flat_is_up.take(cells) & ~is_shock
        lost: Counts = is_lost.astype(np.int64)
        if self._away == 0:
            self._flat_clock[cells] = self.next_s + draw_lives_s(self._life, cells.shape, self._rng)
        else:
            is_back = ~(is_lost | is_shock)
            lost_rows, returned_rows = np.flatnonzero(is_lost), np.flatnonzero(is_back)
            away_s = self._rng.standard_exponential(len(lost_rows)) * (self._away * HOUR_S)
            self._set_state(lost_rows, away_s, is_up=False)
            self._set_state(
                returned_rows, draw_lives_s(self._life, returned_rows.shape, self._rng), is_up=True
            )
            self.up = self.up + is_back - is_lost
        if self._shock is not None:
            self._apply_shock(np.flatnonzero(is_shock), lost)
        self._draw()
        return lost

    def _set_state(self, rows: NDArray[np.intp], duration_s: Floats, *, is_up: bool) -> None:
        cells = self._cells[rows]
        self._flat_clock[cells] = self.next_s[rows] + duration_s
        self._flat_is_up[cells] = is_up

    def _apply_shock(self, rows: NDArray[np.intp], lost: Counts) -> None:
        assert self._shock is not None
        if not len(rows):
            return
        shape = (len(rows), self._clock.shape[1] - 1)
        now_s = self.next_s[rows, None]
        count = draw_shock_losses(self._shock, self.up[rows], self._rng)
        keys = np.where(self._is_up[rows, :-1], self._rng.random(shape), 1.0)
        # The rank of a random key, with absent nodes behind all others: `count` of those that are
        # up, each with equal chance, in one step for all rows.
        is_taken = keys.argsort(axis=1).argsort(axis=1) < count[:, None]
        if self._away == 0:
            durations_s = draw_lives_s(self._life, shape, self._rng)
        else:
            durations_s = self._rng.exponential(self._away * HOUR_S, shape)
            self._is_up[rows, :-1] &= ~is_taken
            self.up[rows] -= count
        self._clock[rows, :-1] = np.where(is_taken, now_s + durations_s, self._clock[rows, :-1])
        next_s = self._rng.exponential(self._shock.every_h * HOUR_S, len(rows))
        self._clock[rows, -1] = self.next_s[rows] + next_s
        lost[rows] = count

    def _draw(self) -> None:
        self._node = self._clock.argmin(axis=1)
        self._cells = self._row_starts + self._node
        self.next_s = self._flat_clock.take(self._cells)


class ReplayedTrace:
    """A trace, entered at a random moment; after its end it begins again.

    A pool larger than the trace is several copies of it, each entered at another moment: its
    losses are more frequent, but not larger than those in the trace.
    """

    def __init__(self, replay: Replay, pool: int, runs: int, rng: np.random.Generator) -> None:
        self._times_s = np.append(np.asarray(replay.at_s), replay.span_s)
        self._up = scale_trace(replay, pool)
        self._copies = np.arange(len(self._up))
        self._rows = np.arange(runs)
        offset = rng.random((runs, len(self._up))) * replay.span_s
        self._positions = np.searchsorted(self._times_s, offset, side="right") - 1
        self._round_starts_s = (
            -offset
        )  # the time of the run at which the trace's present round began
        self.up = self._up[self._copies, self._positions].sum(axis=1)
        self.cut: Counts | None = np.zeros(runs, dtype=np.int64)
        self._draw()

    def change(self) -> Counts:
        cells = self._rows, self._copy
        positions = self._positions[cells]
        previous_up = self._up[self._copy, positions]
        is_wrapped = positions + 2 >= len(self._times_s)
        positions = np.where(is_wrapped, 0, positions + 1)
        self._positions[cells] = positions
        self._round_starts_s[cells] += np.where(is_wrapped, self._times_s[-1], 0.0)
        next_up = self._up[self._copy, positions]
        self.up = self.up + next_up - previous_up
        fall = np.maximum(0, previous_up - next_up)
        # The step from the end of a trace to its beginning is no observed loss.
        self.cut = np.where(is_wrapped, fall, 0)
        self._draw()
        lost: Counts = fall - self.cut
        return lost

    def _draw(self) -> None:
        next_changes_s = self._round_starts_s + self._times_s[self._positions + 1]
        self._copy = next_changes_s.argmin(axis=1)
        self.next_s = next_changes_s[self._rows, self._copy]


def draw_shock_losses(shock: Shock, up: Counts, rng: np.random.Generator) -> Counts:
    """Draw the number of nodes that each shock takes, of those that are up."""
    if not shock.seen:
        drawn: Counts = rng.binomial(up, shock.share)
        return drawn
    lost, held_nodes = np.array(shock.seen).T[:, rng.integers(0, len(shock.seen), len(up))]
    sampled_losses = rng.hypergeometric(lost, held_nodes - lost, np.minimum(up, held_nodes))
    scaled_losses = np.floor(up * (lost / held_nodes) + rng.random(len(up)))
    counts: Counts = np.where(up > held_nodes, scaled_losses, sampled_losses).astype(np.int64)
    return counts


def draw_lives_s(life: Lifetime, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Draw lives of new nodes, in seconds."""
    match life:
        case Exponential():
            return rng.standard_exponential(shape) * (life.mtbf_h * HOUR_S)
        case Weibull():
            return rng.weibull(life.shape, shape) * (life.scale_h * HOUR_S)
        case Bathtub():
            # A Weibull is a power of an exponential: one draw serves both kinds of life.
            is_early, drawn = rng.random(shape) < life.early_share, rng.standard_exponential(shape)
            late = drawn ** (1 / life.late_shape) * life.late_h
            capped: Floats = np.minimum(np.where(is_early, drawn * life.early_h, late), life.cap_h)
            return capped * HOUR_S


# -- availability -------------------------------------------------------------------------------

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
    """Return the number of `pool` nodes that are up over time, and the losses per hour.

    If the market changes too often for such a time, the time is shortened.
    """
    grid_s = np.linspace(0, hours * HOUR_S, points + 1)
    up, lost = _sample_capacity(market, pool, grid_s, seed)
    low, middle, high = np.quantile(up, [0.05, 0.5, 0.95], axis=0, method="inverted_cdf")
    losses_per_h = lost.mean(axis=0) / (hours / points)
    return Availability(
        tuple(grid_s / HOUR_S),
        tuple(low.tolist()),
        tuple(middle.tolist()),
        tuple(high.tolist()),
        (0.0, *losses_per_h.tolist()),
    )


@lru_cache(maxsize=256)
def find_up_quantile(market: Market, pool: int, share: float) -> int:
    """Return the number of nodes that are up, of `pool`, in all but `share` of the time."""
    if not market.makes_wait:
        return pool
    # A simulation begins with all nodes up. The share that is up settles at the pace of returns,
    # and what lies before would be too good.
    settled_h = 5 * max(market.away_h, 0.01)
    span_h = market.replay.span_s / HOUR_S if market.replay else 20 * settled_h
    grid_s = np.linspace(settled_h * HOUR_S, (settled_h + span_h) * HOUR_S, 40)
    up, _ = _sample_capacity(market, pool, grid_s, _SEED)
    return int(np.quantile(up, share, method="inverted_cdf"))


def _sample_capacity(market: Market, pool: int, grid_s: Floats, seed: int) -> tuple[Counts, Counts]:
    engine = capacity(market, pool, _RUNS, np.random.Generator(np.random.SFC64(seed)))
    up = np.full((_RUNS, len(grid_s)), -1, dtype=np.int64)
    lost = np.zeros((_RUNS, len(grid_s) - 1), dtype=np.int64)
    rows = np.arange(_RUNS)
    for _ in range(_ROUNDS_MAX):
        if engine.next_s.min() > grid_s[-1]:
            break
        current_up, at_s = engine.up.copy(), engine.next_s
        up = np.where((up < 0) & (grid_s[None, :] < at_s[:, None]), current_up[:, None], up)
        bins = np.searchsorted(grid_s, at_s) - 1
        is_sampled = (bins >= 0) & (bins < lost.shape[1])
        # The bin is looked up before the change, which moves `next_s` to the one after.
        count = engine.change()
        np.add.at(lost, (rows[is_sampled], bins[is_sampled]), count[is_sampled])
    return np.where(up < 0, engine.up[:, None], up), lost
