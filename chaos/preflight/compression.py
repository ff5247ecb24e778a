"""A market in fast motion: its losses drawn, and as the ops of a plan."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from chaos.errors import UsageError
from chaos.model.plan import BackendName, Op
from chaos.preflight.capacity import capacity
from chaos.preflight.market import Market, Notice, faster

LOSSES = 1.5  # per time of a fault-free run, if no scale is given


@dataclass(frozen=True)
class NodeChange:
    """The nodes that are lost and that join at one instant, counted from the job's start.

    `lost` has their numbers, by the order in which all nodes joined; for a loss of only
    workers, the numbers of their nodes.
    """

    at_s: float
    lost: tuple[int, ...]
    came: int = 0


@dataclass(frozen=True)
class NodeChanges:
    """A pool of `first` nodes at the beginning, and its changes."""

    first: int
    each: tuple[NodeChange, ...]


def scale_for(market: Market, *, nodes: int, work_s: float) -> float:
    """Return the factor by which time runs faster, so that a run meets a few losses."""
    every_s = market.mtbf_h * 3600 / nodes
    if not math.isfinite(every_s):
        raise UsageError("no node is lost on this market", "There is nothing to replay.")
    return max(1.0, every_s * LOSSES / work_s)


def compressed(
    market: Market, scale: float, *, away_s: float = 0.0, notice_s: float = 0.0
) -> Market:
    """Return the market with time running `scale` times faster.

    The absence of a lost node and the length of a notice are in seconds that are not
    compressed: a restart and a save are not, either.
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
    """Return the number of nodes to hold so that a replayed trace always leaves enough for the job.

    Raises `UsageError` if the trace has moments with next to no node.
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
) -> tuple[NodeChange, ...]:
    """Draw the job's losses of workers, without loss of nodes; some of `pool` hold no worker."""
    rng = np.random.Generator(np.random.PCG64(seed))
    engine, found = capacity(market, pool, 1, rng), []
    while engine.next_s[0] < until_s:
        at_s, before = float(engine.next_s[0]), int(engine.up[0])
        lost = int(engine.change()[0])
        hit = int(rng.hypergeometric(nodes, max(0, before - nodes), lost)) if lost else 0
        if hit:
            found.append(NodeChange(at_s, tuple(rng.permutation(nodes)[:hit].tolist())))
    return tuple(found)


def drawn_changes(market: Market, *, pool: int, until_s: float, seed: int) -> NodeChanges:
    """Draw the losses of `pool` nodes and the times of new ones, independent of the job."""
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
            found.append(NodeChange(at_s, tuple(gone), came))
    return NodeChanges(first, tuple(found))


# -- ops by the clock ---------------------------------------------------------------------------

# A loss takes only a worker; or its node, which returns later; or a node whose loss is announced,
# which another node replaces at once.
Losses: TypeAlias = Literal["kills", "nodes", "notices"]

JOIN_S: dict[BackendName, float] = {"fork": 0.0, "ray": 2.0}  # from an order to the node's joining
SOON_S = 0.01


@dataclass(frozen=True)
class PlanClock:
    """The conversion of a market's moments to a plan's seconds, counted from the first workers on.

    The first workers start `placed_s` after the market's time begins. An ordered node joins
    `join_s` later; a loss is announced `notice_s` ahead.
    """

    placed_s: float = 0.0
    join_s: float = 0.0
    notice_s: float = 0.0

    def at(self, moment_s: float) -> dict[str, float]:
        """Return the trigger of an op."""
        return {"seconds": max(SOON_S, moment_s - self.placed_s)}


def timed_ops(changes: Sequence[NodeChange], losses: Losses, clock: PlanClock) -> tuple[Op, ...]:
    """Return the ops of a market's changes, in the order of their times."""
    entries = (entry for change in changes for entry in _entries(change, losses, clock))
    ordered = sorted(entries, key=lambda entry: entry["at"]["seconds"])
    return tuple(Op.model_validate({"index": n, **entry}) for n, entry in enumerate(ordered))


def _entries(change: NodeChange, losses: Losses, clock: PlanClock) -> Iterator[dict[str, Any]]:
    notice_s = min(clock.notice_s, change.at_s) if losses == "notices" else 0.0
    at = clock.at(change.at_s - notice_s)
    faults: dict[Losses, dict[str, Any]] = {
        "kills": {"kill_worker": {}},
        "nodes": {"kill_node": {}},
        "notices": {"preempt_node": {"notice_s": round(notice_s, 3)}},
    }
    for node in change.lost:
        yield {"at": at, "node": node, **faults[losses]}
    if change.came:
        came = {"nodes": change.came}
        yield {"at": clock.at(change.at_s - clock.join_s), "return_capacity": came}
