"""Spot markets: losses of nodes, absences, notices and prices."""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from chaos.errors import UsageError
from chaos.record import Record
from chaos.scenario_file.messages import find_nearest
from chaos.wording import plural


class FiniteRecord(Record):
    """A record that refuses infinity and NaN."""

    model_config = ConfigDict(allow_inf_nan=False)


class Exponential(FiniteRecord):
    """Lives that do not depend on age: each node is lost once in `mtbf_h` hours."""

    kind: Literal["exponential"] = "exponential"
    mtbf_h: PositiveFloat

    @property
    def mean_h(self) -> float:
        return self.mtbf_h


class Weibull(FiniteRecord):
    """Lives with hazard growing as age^(shape-1): below 1 the young are lost, above 1 the old."""

    kind: Literal["weibull"] = "weibull"
    scale_h: PositiveFloat
    shape: float = Field(ge=0.05, le=50, description="beyond it no one has seen lives")

    @property
    def mean_h(self) -> float:
        return self.scale_h * math.gamma(1 + 1 / self.shape)


class Bathtub(FiniteRecord):
    """Lives with many losses when young, few in the middle, and none after `cap_h`.

    With probability `early_share` a life is exponential with mean `early_h`;
    otherwise Weibull (`late_h`, `late_shape`). No node outlives the cap.
    """

    kind: Literal["bathtub"] = "bathtub"
    early_share: float = Field(ge=0, le=1)
    early_h: PositiveFloat
    late_h: PositiveFloat
    late_shape: float = Field(gt=1, le=50)
    cap_h: PositiveFloat

    @property
    def mean_h(self) -> float:
        """The mean life of a node: the integral of the share that is alive."""
        ages = (np.arange(2000) + 0.5) * (self.cap_h / 2000)
        with np.errstate(over="ignore"):  # an overflow means a node that was lost long before
            late = np.exp(-((ages / self.late_h) ** self.late_shape))
        alive = self.early_share * np.exp(-ages / self.early_h) + (1 - self.early_share) * late
        return self.cap_h * float(alive.mean())


Lifetime: TypeAlias = Annotated[Exponential | Weibull | Bathtub, Field(discriminator="kind")]


class Shock(FiniteRecord):
    """A loss of many: once in `every_h` hours each node is lost with probability `share`.

    With `seen`, each shock is one of those in a trace, all equally likely.
    """

    every_h: PositiveFloat
    share: float = Field(gt=0, le=1)
    seen: tuple[tuple[PositiveInt, PositiveInt], ...] = Field(
        default=(), description="nodes lost, of so many that were held: `share` is their mean"
    )

    @model_validator(mode="after")
    def _check_seen_losses(self) -> Self:
        if any(lost > held_nodes for lost, held_nodes in self.seen):
            raise ValueError("shock.seen is [lost, of so many]: more are lost than were held")
        return self

    def hit_probability(self, pool: int) -> float:
        """Return the probability that a shock takes any of `pool` nodes."""
        shares = [lost / held_nodes for lost, held_nodes in self.seen] or [self.share]
        return sum(1 - (1 - share) ** pool for share in shares) / len(shares)


class LossNotice(FiniteRecord):
    """The notice of a loss: `seconds` before it, in `reliability` of all cases."""

    seconds: NonNegativeFloat = 0.0
    reliability: float = Field(default=1.0, ge=0, le=1)


class Doubt(FiniteRecord):
    """The factors by which a fitted market may be worse: the ends of its 95 % intervals."""

    losses: float = Field(default=1.0, ge=1, description="so many times as frequent")
    away: float = Field(default=1.0, ge=1, description="nodes are missing so many times as long")


class Replay(FiniteRecord):
    """The changes of a real trace, from a random moment on, repeated.

    A pool of more nodes than `peak` is several such traces.
    """

    #: the times of changes, the first at 0
    at_s: tuple[NonNegativeFloat, ...] = Field(min_length=2)
    #: the share of the peak that is up from then on
    up: tuple[float, ...] = Field(min_length=2)
    span_s: PositiveFloat
    peak: PositiveInt | None = Field(
        default=None, description="the nodes of the trace; left out: as many as the pool"
    )


# How the nodes of a trace are read as those of a job; `TraceNodes` has what each means.
TraceReading: TypeAlias = Literal["pool", "market"]


class TraceNodes(FiniteRecord):
    """The nodes of the trace that a market is learnt from, and how they are read.

    `pool`: the trace is a cluster like the job's, of another size; of the job's nodes as large a
    share is up as of the trace's most. `market`: the trace is what could be had; the job holds as
    many as it wants of the nodes that are up, a loss takes any of them alike, and those that it
    does not hold replace its own at once.
    """

    most: PositiveInt = Field(description="at one time")
    read: TraceReading | None = Field(
        default=None,
        description="left out: both, and where the answers differ it is `cannot tell`",
    )


class Market(FiniteRecord):
    """A spot market. Either `lifetime` or `replay` determines the losses."""

    name: str = "market"
    lifetime: Lifetime | None = None
    replay: Replay | None = None
    shock: Shock | None = None
    #: the mean time until a lost node is replaced (exponential; 0: at once)
    away_h: NonNegativeFloat = 0.0
    notice: LossNotice = LossNotice()
    doubt: Doubt | None = Field(default=None, description="left out: taken as it is given")
    trace_nodes: TraceNodes | None = Field(
        default=None, description="left out: it is of as many nodes as the job holds"
    )
    #: a node's price as a share of the on-demand price
    price_ratio: float = Field(default=0.35, gt=0)
    source: str = Field(default="given by hand", description="where these figures are from")

    @model_validator(mode="after")
    def _check_loss_source(self) -> Self:
        if (self.lifetime is None) == (self.replay is None):
            raise ValueError("a market needs either lifetime or replay")
        if self.doubt is not None and self.lifetime is None:
            raise ValueError("market.doubt is of lifetime: a repeated trace has its own")
        trace_node_count = self.trace_nodes and self.trace_nodes.most
        if trace_node_count and self.replay is not None and self.replay.peak != trace_node_count:
            text = "market.replay.peak and market.trace_nodes.most are the nodes of one trace"
            raise ValueError(f"{text}, got {self.replay.peak} and {trace_node_count}")
        return self

    @property
    def is_shared(self) -> bool:
        """Whether the job holds some nodes of a market, and not a market of its own size."""
        return self.trace_nodes is not None and self.trace_nodes.read == "market"

    def choose_reading(self, reading: TraceReading | None) -> "Market":
        """Return the market with the nodes of its trace read in this way."""
        if self.trace_nodes is None:
            return self
        nodes = self.trace_nodes.replace(read=reading)
        return self.replace(trace_nodes=nodes)

    def size(self, pool: int) -> int:
        """Return the number of nodes of the market on which a job holds up to `pool`."""
        return self.trace_nodes.most if self.trace_nodes and self.is_shared else pool

    @property
    def makes_wait(self) -> bool:
        """Whether a lost node may be missing for a while."""
        return self.replay is not None or self.away_h > 0

    @property
    def mtbf_h(self) -> float:
        """Node-hours held per node lost, by all causes."""
        if self.replay is not None:
            return _replayed_mtbf_h(self.replay)
        assert self.lifetime is not None
        rate = 1 / self.lifetime.mean_h
        if self.shock is not None:
            rate += self.shock.share / self.shock.every_h
        return 1 / rate


def find_worst_market(market: Market) -> Market | None:
    """Return a fitted market as bad as its trace allows; None if it has no doubt."""
    if market.doubt is None or market.lifetime is None:
        return None
    values = {
        "name": f"{market.name}, at worst",
        "away_h": market.away_h * market.doubt.away,
        "doubt": None,
    }
    return speed_up_losses(market, market.doubt.losses).model_copy(update=values)


def speed_up_losses(market: Market, times: float) -> Market:
    """Return a market whose nodes are lost so many times as often; absences stay."""
    life, shock, replay = market.lifetime, market.shock, market.replay
    if life is not None:
        hours = {name: value / times for name, value in life if name.endswith("_h")}
        life = life.model_copy(update=hours)
    if shock is not None:
        shock = shock.replace(every_h=shock.every_h / times)
    if replay is not None:
        at_s = tuple(time_s / times for time_s in replay.at_s)
        replay = replay.replace(at_s=at_s, span_s=replay.span_s / times)
    return market.replace(lifetime=life, shock=shock, replay=replay)


def _replayed_mtbf_h(replay: Replay) -> float:
    ends = (*replay.at_s[1:], replay.span_s)
    held_s = sum(
        up * (end_s - start_s)
        for up, start_s, end_s in zip(replay.up, replay.at_s, ends, strict=True)
    )
    lost = sum(max(0.0, previous_up - next_up) for previous_up, next_up in pairwise(replay.up))
    return held_s / 3600 / lost if lost else math.inf


def scale_trace(replay: Replay, pool: int) -> NDArray[np.int64]:
    """Return the number of nodes up after each change, a row for each copy of the trace."""
    # By copies, and not by a factor: a trace of two nodes that is blown up to 32 would lose 16 at a
    # time.
    copies = math.ceil(pool / (replay.peak or pool))
    sizes = [pool // copies + (n < pool % copies) for n in range(copies)]
    up: NDArray[np.int64] = np.rint(np.outer(sizes, replay.up)).astype(np.int64)
    return up


def loss_interval_s(market: Market, pool: int) -> float:
    """Return the mean seconds between two events in which `pool` nodes lose at least one.

    Exact for exponential lives and shocks; for other lives the long-run rate.
    A trace that is repeated is scaled to the pool, as in the simulation; on a market of
    more nodes a loss takes any of them alike.
    """
    if market.replay is not None and market.is_shared:
        hits = sum(
            _hit_probability(*loss, held_nodes=pool)
            for loss in _list_losses(market.replay, market.size(pool))
        )
        return market.replay.span_s / hits if hits else math.inf
    if market.replay is not None:
        # Of the scaled trace. Counted for its own peak, two nodes of 32 were said to be lost seven
        # times as often as they were, and a rule that stops a job fired.
        drops = int((np.diff(scale_trace(market.replay, pool), axis=1) < 0).sum())
        return market.replay.span_s / drops if drops else math.inf
    assert market.lifetime is not None
    rate = pool / market.lifetime.mean_h
    if market.shock is not None:
        rate += market.shock.hit_probability(pool) / market.shock.every_h
    return 3600 / rate


def _list_losses(replay: Replay, nodes: int) -> Iterator[tuple[int, int]]:
    """Yield the nodes before, and the nodes lost, of each loss of a trace of so many nodes."""
    (up,) = scale_trace(replay, nodes).tolist()
    return (
        (previous_up, previous_up - next_up)
        for previous_up, next_up in pairwise(up)
        if next_up < previous_up
    )


def _hit_probability(up_nodes: int, lost: int, *, held_nodes: int) -> float:
    """Return the probability that a loss of some of `up_nodes` takes any of those held."""
    return 1 - math.comb(max(0, up_nodes - held_nodes), lost) / math.comb(up_nodes, lost)


def summarize_reading(market: Market) -> str:
    """Return a clause on how the nodes of the market's trace are read; nothing without one."""
    if market.trace_nodes is None:
        return ""
    reading = "read as a market" if market.is_shared else "by shares"
    return f" (the trace's {market.trace_nodes.most}, {reading})"


def describe_trace_nodes(market: Market, pool: int) -> str | None:
    """Return how the nodes of the market's trace are read as `pool` of a job; None without one."""
    if market.trace_nodes is None:
        return None
    trace_node_count = market.trace_nodes.most
    trace = f"{plural(trace_node_count, 'node')} in the trace, read as"
    if market.is_shared:
        return (
            f"{trace} a market: you hold up to {pool} of those that are up, and the others replace "
            "one that you lose at once"
        )
    if pool == trace_node_count:
        return f"{trace} {pool} of yours, node for node"
    return f"{trace} {pool} of yours by shares: {_describe_shares(market, trace_node_count, pool)}"


def _describe_shares(market: Market, trace_node_count: int, pool: int) -> str:
    if trace_node_count == 1:
        return "each is up as often as that one"
    if market.replay is None:
        return f"each is up as often as one of the {trace_node_count}"
    if pool > trace_node_count:
        sizes = len(scale_trace(market.replay, pool))
        return f"{sizes} copies of the trace, each from a moment of its own"
    half = math.ceil(trace_node_count / 2)
    return (
        f"{round(pool * half / trace_node_count)} are up where {half} of the {trace_node_count} "
        "were"
    )


# -- markets by name ----------------------------------------------------------------------------


def _synthesize_market(
    name: str,
    lifetime: Lifetime,
    away_h: float,
    price_ratio: float,
    **overrides: Shock | LossNotice,
) -> Market:
    """Return a market made by chaos; its notices are of two minutes if not given."""
    settings = {"notice": LossNotice(seconds=120, reliability=0.95), **overrides}
    base = Market(name=name, lifetime=lifetime, source="synthetic, made by chaos")
    return base.model_copy(update={"away_h": away_h, "price_ratio": price_ratio, **settings})


_BATHTUB = Bathtub(early_share=0.5, early_h=0.8, late_h=22, late_shape=4, cap_h=24)
MARKETS: tuple[Market, ...] = (
    _synthesize_market("calm-500h", Exponential(mtbf_h=500), 0.1, 0.4),
    _synthesize_market(
        "mixed-50h", Exponential(mtbf_h=60), 0.25, 0.35, shock=Shock(every_h=120, share=0.4)
    ),
    _synthesize_market(
        "busy-16h", Exponential(mtbf_h=20), 0.5, 0.35, shock=Shock(every_h=24, share=0.3)
    ),
    _synthesize_market(
        "hot-4h", Exponential(mtbf_h=6), 0.75, 0.3, shock=Shock(every_h=4, share=0.3)
    ),
    _synthesize_market(
        "bathtub-24h-cap", _BATHTUB, 0.1, 0.25, notice=LossNotice(seconds=30, reliability=0.8)
    ),
    _synthesize_market("unannounced-16h", Exponential(mtbf_h=16), 0.25, 0.35, notice=LossNotice()),
)


def find_preset(name: str) -> Market:
    """Return the market of this name, or raise `UsageError` with the nearest."""
    names = [market.name for market in MARKETS]
    if name in names:
        return MARKETS[names.index(name)]
    near = find_nearest(name, names)
    hint = f"Did you mean {near}?" if near else f"The markets are {', '.join(names)}."
    raise UsageError(f"there is no market '{name}'", hint)
