"""The nodes that a market leaves us, as vectors: many runs side by side, one change at a time.

Each engine holds `n` runs. `next_s` is when each run's pool changes next;
`change()` lets it happen in all of them, and draws the one after. What is drawn
depends on the market and the pool alone, never on the job: two settings of one
job on one seed meet the same losses (common random numbers).
"""

from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from chaos.preflight.market import Bathtub, Exponential, Lifetime, Market, Replay, Weibull

Floats: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]
HOUR_S = 3600.0


class Capacity(Protocol):
    """What the simulation asks of an engine."""

    up: Counts
    next_s: Floats

    def change(self) -> Counts:
        """Let the next change happen in every run; gives how many nodes were lost (0: a return)."""


def capacity(market: Market, pool: int, runs: int, rng: np.random.Generator) -> Capacity:
    """Give the engine for a market: counts where lives are exponential, else clocks per node."""
    if market.replay is not None:
        return Replayed(market.replay, pool, runs, rng)
    if isinstance(market.lifetime, Exponential):
        return Memoryless(market, market.lifetime, pool, runs, rng)
    assert market.lifetime is not None
    return Ageing(market, market.lifetime, pool, runs, rng)


class Memoryless:
    """Exponential lives, shocks and absences: only counts matter, so any number of nodes is cheap.

    Gillespie's direct method: one exponential says when, one uniform says what.
    """

    def __init__(
        self, market: Market, life: Exponential, pool: int, runs: int, rng: np.random.Generator
    ) -> None:
        self.up = np.full(runs, pool, dtype=np.int64)
        self.next_s = np.zeros(runs)
        self._pool, self._rng, self._shock = pool, rng, market.shock
        self._loss = 1 / (life.mtbf_h * HOUR_S)
        self._shock_rate = 0.0 if market.shock is None else 1 / (market.shock.every_h * HOUR_S)
        self._return = 0.0 if market.away_h == 0 else 1 / (market.away_h * HOUR_S)
        self._draw()

    def change(self) -> Counts:
        """Let the next change happen in every run."""
        point = self._rng.random(len(self.up)) * self._total
        single = point < self._losing
        if self._shock is None:
            lost = single.astype(np.int64)
        else:
            lost = np.where(single, 1, 0)
            struck = np.flatnonzero(~single & (point < self._losing + self._shock_rate))
            lost[struck] = self._rng.binomial(self.up[struck], self._shock.share)
        if self._return:
            back = point >= self._losing + self._shock_rate
            self.up += back
            self.up -= lost
        self._draw()
        return lost

    def _draw(self) -> None:
        self._losing = self.up * self._loss
        self._total = self._losing + self._shock_rate + (self._pool - self.up) * self._return
        self.next_s += self._rng.standard_exponential(len(self.up)) / self._total


class Ageing:
    """Lives that depend on age: every node has a clock, and so has the shock."""

    def __init__(
        self, market: Market, life: Lifetime, pool: int, runs: int, rng: np.random.Generator
    ) -> None:
        self.up = np.full(runs, pool, dtype=np.int64)
        self._rng, self._life, self._shock, self._away = rng, life, market.shock, market.away_h
        self._is_up = np.ones((runs, pool + 1), dtype=np.bool_)
        self._clock = np.full((runs, pool + 1), np.inf)  # the last column is the shock's
        self._clock[:, :pool] = lives_s(life, (runs, pool), rng)
        if market.shock is not None:
            self._clock[:, pool] = rng.exponential(market.shock.every_h * HOUR_S, runs)
        # The same memory in one row, where single elements are reached in half the time.
        self._flat_is_up, self._flat_clock = self._is_up.reshape(-1), self._clock.reshape(-1)
        self._first = np.arange(runs) * (pool + 1)
        self._draw()

    def change(self) -> Counts:
        """Let the next change happen in every run."""
        at, is_shock = self._at, self._node == self._clock.shape[1] - 1
        goes = self._flat_is_up.take(at) & ~is_shock
        lost: Counts = goes.astype(np.int64)
        if self._away == 0:
            self._flat_clock[at] = self.next_s + lives_s(self._life, at.shape, self._rng)
        else:
            comes = ~(goes | is_shock)
            self._away_now(np.flatnonzero(goes))
            self._up_now(np.flatnonzero(comes))
            self.up = self.up + comes - goes
        if self._shock is not None:
            self._strike(np.flatnonzero(is_shock), lost)
        self._draw()
        return lost

    def _away_now(self, rows: NDArray[np.intp]) -> None:
        at = self._at[rows]
        away_s = self._rng.standard_exponential(len(rows)) * (self._away * HOUR_S)
        self._flat_clock[at] = self.next_s[rows] + away_s
        self._flat_is_up[at] = False

    def _up_now(self, rows: NDArray[np.intp]) -> None:
        at = self._at[rows]
        life_s = lives_s(self._life, rows.shape, self._rng)
        self._flat_clock[at] = self.next_s[rows] + life_s
        self._flat_is_up[at] = True

    def _strike(self, rows: NDArray[np.intp], lost: Counts) -> None:
        assert self._shock is not None
        if not len(rows):
            return
        shape = (len(rows), self._clock.shape[1] - 1)
        now_s = self.next_s[rows, None]
        taken = self._is_up[rows, :-1] & (self._rng.random(shape) < self._shock.share)
        if self._away == 0:
            then = lives_s(self._life, shape, self._rng)
        else:
            then = self._rng.exponential(self._away * HOUR_S, shape)
            self._is_up[rows, :-1] &= ~taken
            self.up[rows] -= taken.sum(axis=1)
        self._clock[rows, :-1] = np.where(taken, now_s + then, self._clock[rows, :-1])
        next_s = self._rng.exponential(self._shock.every_h * HOUR_S, len(rows))
        self._clock[rows, -1] = self.next_s[rows] + next_s
        lost[rows] = taken.sum(axis=1)

    def _draw(self) -> None:
        self._node = self._clock.argmin(axis=1)
        self._at = self._first + self._node
        self.next_s = self._flat_clock.take(self._at)


class Replayed:
    """A trace, entered at a random moment; after its end it begins again."""

    def __init__(self, replay: Replay, pool: int, runs: int, rng: np.random.Generator) -> None:
        self._at = np.asarray(replay.at_s)
        self._up = np.rint(np.asarray(replay.up) * pool).astype(np.int64)
        self._span = replay.span_s
        offset = rng.random(runs) * replay.span_s
        self._place = np.searchsorted(self._at, offset, side="right") - 1
        self._zero = -offset  # the run's time at which the trace's present round began
        self.up = self._up[self._place]
        self.next_s = np.zeros(runs)
        self._draw()

    def change(self) -> Counts:
        """Let the next change happen in every run."""
        wraps = self._place + 1 >= len(self._at)
        self._zero = np.where(wraps, self._zero + self._span, self._zero)
        self._place = np.where(wraps, 0, self._place + 1)
        before, self.up = self.up, self._up[self._place]
        self._draw()
        # The seam between the end of a trace and its beginning is no loss that was seen.
        lost: Counts = np.where(wraps, 0, np.maximum(0, before - self.up))
        return lost

    def _draw(self) -> None:
        following = self._place + 1
        is_last = following >= len(self._at)
        at = self._at[np.where(is_last, 0, following)]
        self.next_s = self._zero + np.where(is_last, self._span, at)


def lives_s(life: Lifetime, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
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
