"""A market pressed into the time of a short job, and the losses that it then brings."""

import math
from dataclasses import dataclass

import numpy as np

from chaos.errors import UsageError
from chaos.preflight.capacity import capacity
from chaos.preflight.market import Market, Notice, faster

LOSSES = 1.5  # in the time of a run that is left alone, where no scale is given


@dataclass(frozen=True)
class Change:
    """At one instant, counted from the job's start, nodes are lost and others come.

    `lost` has their numbers, by the order in which all nodes joined; of a loss that
    takes workers alone, those of the nodes that they are on.
    """

    at_s: float
    lost: tuple[int, ...]
    came: int = 0


@dataclass(frozen=True)
class Changes:
    """A pool of `first` nodes to begin with, and what becomes of it."""

    first: int
    each: tuple[Change, ...]


def scale_for(market: Market, *, nodes: int, work_s: float) -> float:
    """Give the factor by which time runs faster, so that a run meets a few losses."""
    every_s = market.mtbf_h * 3600 / nodes
    if not math.isfinite(every_s):
        raise UsageError("no node is lost on this market", "There is nothing to replay.")
    return max(1.0, every_s * LOSSES / work_s)


def compressed(
    market: Market, scale: float, *, away_s: float = 0.0, notice_s: float = 0.0
) -> Market:
    """Give the market with time running `scale` times faster.

    How long a lost node stays away and how long before its loss is announced are
    given in seconds that are not compressed: a restart and a save are not, either.
    """
    shock, replay = market.shock, market.replay
    if shock is not None:
        shock = shock.model_copy(update={"every_h": shock.every_h / scale})
    if replay is not None:
        at_s = tuple(at / scale for at in replay.at_s)
        replay = replay.model_copy(update={"at_s": at_s, "span_s": replay.span_s / scale})
    return market.model_copy(
        update={
            "name": f"{market.name}, {scale:,.0f} times as fast",
            "lifetime": None if market.lifetime is None else faster(market.lifetime, scale),
            "shock": shock,
            "replay": replay,
            "away_h": away_s / 3600,
            "notice": Notice(seconds=notice_s),
        }
    )


def pool_for(market: Market, *, nodes: int) -> int:
    """Give how many nodes to hold so that a replayed trace always leaves the job its own.

    Raises `UsageError` where a trace has moments with next to no node.
    """
    if market.replay is None:
        return nodes
    least = min(market.replay.up)
    if least * 1000 < nodes:
        raise UsageError(
            "the trace has moments in which no node is left",
            "Leave --replay out: a fitted market can be compared, waiting for nodes cannot.",
        )
    pool = math.ceil(nodes / least)
    while round(least * pool) < nodes:
        pool += 1
    return pool


def drawn_losses(
    market: Market, *, nodes: int, pool: int, until_s: float, seed: int
) -> tuple[Change, ...]:
    """Draw when the job loses workers, nodes staying: one of `pool` that goes may hold none."""
    rng = np.random.Generator(np.random.PCG64(seed))
    engine, found = capacity(market, pool, 1, rng), []
    while engine.next_s[0] < until_s:
        at_s, before = float(engine.next_s[0]), int(engine.up[0])
        lost = int(engine.change()[0])
        hit = int(rng.hypergeometric(nodes, max(0, before - nodes), lost)) if lost else 0
        if hit:
            found.append(Change(at_s, tuple(rng.permutation(nodes)[:hit].tolist())))
    return tuple(found)


def drawn_changes(market: Market, *, pool: int, until_s: float, seed: int) -> Changes:
    """Draw which of `pool` nodes go and when new ones come, whatever the job does meanwhile."""
    rng = np.random.Generator(np.random.PCG64(seed))
    engine, found = capacity(market, pool, 1, rng), []
    first = joined = int(engine.up[0])
    up = list(range(first))
    while engine.next_s[0] < until_s:
        at_s = float(engine.next_s[0])
        lost, now = int(engine.change()[0]), int(engine.up[0])
        lost = max(lost, len(up) - now)
        gone = sorted(rng.permutation(up)[:lost].tolist())
        came = now - len(up) + lost
        up = [node for node in up if node not in gone] + list(range(joined, joined + came))
        joined += came
        if gone or came:
            found.append(Change(at_s, tuple(gone), came))
    return Changes(first, tuple(found))
