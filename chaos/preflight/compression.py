"""A market pressed into the time of a short job, and the losses that it then brings."""

import math
from dataclasses import dataclass

import numpy as np

from chaos.errors import UsageError
from chaos.preflight.capacity import capacity
from chaos.preflight.market import Market, Notice, faster

LOSSES = 1.5  # in the time of a run that is left alone, where no scale is given


@dataclass(frozen=True)
class Loss:
    """So many of the job's workers go at one instant, counted from the job's start."""

    at_s: float
    workers: int


def scale_for(market: Market, *, nodes: int, work_s: float) -> float:
    """Give the factor by which time runs faster, so that a run meets a few losses."""
    every_s = market.mtbf_h * 3600 / nodes
    if not math.isfinite(every_s):
        raise UsageError("no node is lost on this market", "There is nothing to replay.")
    return max(1.0, every_s * LOSSES / work_s)


def compressed(market: Market, scale: float) -> Market:
    """Give the market with time running `scale` times faster.

    Lost nodes are replaced at once and nothing is announced: how long capacity
    stays away and what a notice is worth are not part of what is compared.
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
            "away_h": 0.0,
            "notice": Notice(),
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
) -> tuple[Loss, ...]:
    """Draw when the job loses workers: one of `pool` nodes that goes may hold none."""
    rng = np.random.Generator(np.random.PCG64(seed))
    engine, found = capacity(market, pool, 1, rng), []
    while engine.next_s[0] < until_s:
        at_s, before = float(engine.next_s[0]), int(engine.up[0])
        lost = int(engine.change()[0])
        hit = int(rng.hypergeometric(nodes, max(0, before - nodes), lost)) if lost else 0
        if hit:
            found.append(Loss(at_s, hit))
    return tuple(found)
