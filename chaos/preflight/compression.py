"""A market or a trace in fast motion, as the ops of a plan: by the clock, or at places of a job."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from chaos.errors import UsageError
from chaos.model.plan import Op, PlanBackend
from chaos.preflight.capacity import PoolCapacity, capacity
from chaos.preflight.market import LossNotice, Market, TraceReading, faster
from chaos.preflight.trace import Trace
from chaos.words import plural

LOSSES = 1.5  # per time of a fault-free run, if no scale is given


@dataclass(frozen=True)
class NodeChange:
    """The nodes that are lost and that join at one instant."""

    #: counted from the job's start
    at_s: float
    #: their numbers, by the order in which all nodes joined; for a loss of only workers, the
    #: numbers of their nodes
    lost: tuple[int, ...]
    came: int = 0

    def after(self, kept: int) -> Self:
        """Return the change, with its nodes numbered after so many that are never lost."""
        return replace(self, lost=tuple(node + kept for node in self.lost))


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
    return faster(market, scale).model_copy(
        update={
            "name": f"{market.name}, {scale:,.0f} times as fast",
            "away_h": away_s / 3600,
            "notice": LossNotice(seconds=notice_s),
        }
    )


def pool_for(market: Market, *, nodes: int) -> int:
    """Return the number of nodes to hold so that a replayed trace always leaves enough for the job.

    Raises `UsageError` if the trace has moments with next to no node, or, read as a market, fewer
    than the job's.
    """
    if market.replay is None:
        return nodes
    least, hint = min(market.replay.up), "a fitted market can be compared, waiting for nodes cannot"
    if market.is_shared:
        if round(least * market.size(nodes)) < nodes:
            raise UsageError(
                f"the trace has moments with fewer than {plural(nodes, 'node')}",
                f"Leave --replay-trace out: {hint}.",
            )
        return nodes
    if least * 1000 < nodes:
        raise UsageError(
            "the trace has moments in which no node is left",
            f"Leave --replay-trace out: {hint}.",
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
    for at_s, before, lost in _changes(engine, until_s):
        hit = int(rng.hypergeometric(nodes, max(0, before - nodes), lost)) if lost else 0
        if hit:
            found.append(NodeChange(at_s, tuple(rng.permutation(nodes)[:hit].tolist())))
    return tuple(found)


def drawn_changes(
    market: Market, *, pool: int, until_s: float, seed: int
) -> tuple[int, tuple[NodeChange, ...]]:
    """Draw the nodes up at first, and losses of `pool` nodes and the times of new ones.

    They are independent of the job.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    engine, found = capacity(market, pool, 1, rng), []
    first = joined = int(engine.up[0])
    up = list(range(first))
    for at_s, _, lost in _changes(engine, until_s):
        now = int(engine.up[0])
        gone = sorted(rng.permutation(up)[: max(lost, len(up) - now)].tolist())
        came = now - len(up) + len(gone)
        up = [node for node in up if node not in gone] + list(range(joined, joined + came))
        joined += came
        if gone or came:
            found.append(NodeChange(at_s, tuple(gone), came))
    return first, tuple(found)


def _changes(engine: PoolCapacity, until_s: float) -> Iterator[tuple[float, int, int]]:
    """Make the changes of a single run until then; yield the time, the nodes before, the lost."""
    while engine.next_s[0] < until_s:
        at_s, before = float(engine.next_s[0]), int(engine.up[0])
        yield at_s, before, int(engine.change()[0])


# -- ops by the clock ---------------------------------------------------------------------------

# A loss takes only a worker; or its node, which returns later; or a node whose loss is announced,
# which another node replaces at once.
Losses: TypeAlias = Literal["kills", "nodes", "notices"]

# From an order to the node's joining.
JOIN_S: dict[PlanBackend, float] = {"fork": 0.0, "ray": 2.0, "torchrun": 1.5, "python": 0.0}
# The least time of a trigger by the clock: none falls before the first workers are there.
SOON_S = 0.01


@dataclass(frozen=True)
class PlanClock:
    """The conversion of a market's moments to seconds of a plan, from its first workers on."""

    #: from the beginning of the market's time to the start of the first workers
    placed_s: float = 0.0
    #: from the order of a node to its joining
    join_s: float = 0.0
    #: a loss is announced so long ahead
    notice_s: float = 0.0

    def at(self, moment_s: float) -> dict[str, float]:
        """Return the trigger of an op."""
        return {"seconds": max(SOON_S, moment_s - self.placed_s)}


def timed_ops(changes: Sequence[NodeChange], losses: Losses, clock: PlanClock) -> tuple[Op, ...]:
    """Return the ops of a market's changes, in the order of their times."""
    entries = [entry for change in changes for entry in _entries(change, losses, clock)]
    entries.sort(key=lambda entry: entry["at"]["seconds"])
    return tuple(Op.model_validate({"index": n, **entry}) for n, entry in enumerate(entries))


def _entries(change: NodeChange, losses: Losses, clock: PlanClock) -> Iterator[dict[str, Any]]:
    notice_s = min(clock.notice_s, change.at_s) if losses == "notices" else 0.0
    faults: dict[Losses, dict[str, Any]] = {
        "kills": {"kill_worker": {}},
        "nodes": {"kill_node": {}},
        "notices": {"preempt_node": {"notice_s": round(notice_s, 3)}},
    }
    for node in change.lost:
        yield {"at": clock.at(change.at_s - notice_s), "node": node, **faults[losses]}
    if change.came:
        came = {"nodes": change.came}
        yield {"at": clock.at(change.at_s - clock.join_s), "return_capacity": came}


@dataclass(frozen=True)
class PoolChange:
    """A change of the followed nodes."""

    #: counted from the beginning
    at_s: float
    #: the nodes that leave
    lost: int
    #: the nodes that return
    back: int


@dataclass(frozen=True)
class FollowedNodes:
    """The followed nodes from `since_s` of the trace on, `up` of them at first."""

    since_s: float
    up: int
    changes: tuple[PoolChange, ...]


def follow_nodes(
    trace: Trace, *, pool: int, least: int, seed: int, read: TraceReading = "pool"
) -> FollowedNodes:
    """Follow a job's nodes through a trace from a drawn moment of its first half on.

    Of a pool they are `pool` drawn ones, there or not; of a market up to `pool` of those that are
    up, of which others replace a lost one at once. At that moment `least` of them are up; they are
    followed to the end of the trace.

    The node that a change takes or returns is drawn among the possible ones: the
    trace has only counts, and the result is the same. Losses of several nodes at
    once take several of these as well. Raises `UsageError` if the trace never has
    so many nodes.
    """
    draws = random.Random(seed)  # noqa: S311  repeatable is what it must be
    if pool > trace.peak:
        raise UsageError(
            f"the trace has {trace.peak} nodes at most, and {pool} are to be followed",
            "Take a job with fewer workers, or fewer --spares.",
            place=trace.name,
        )
    ups, changes = (_walk if read == "pool" else _hold)(trace, pool, draws)
    half_s = trace.span_s / 2
    begins = [n for n, up in enumerate(ups) if up >= least and changes[n].at_s <= half_s]
    if not begins:
        raise UsageError(
            f"of {pool} nodes of the trace never {least} are up at once in its first half",
            "Try another --seed, or more --spares.",
            place=trace.name,
        )
    first = draws.choice(begins)
    since_s = changes[first].at_s
    later = [
        PoolChange(change.at_s - since_s, change.lost, change.back)
        for change in changes[first + 1 :]
        if change.lost or change.back
    ]
    return FollowedNodes(since_s, ups[first], tuple(later))


def _walk(trace: Trace, pool: int, draws: random.Random) -> tuple[list[int], list[PoolChange]]:
    """Return the followed nodes that are up after each change of the trace, and the changes."""
    slots = list(range(trace.peak))
    ours = set(draws.sample(slots, pool))
    up = set(draws.sample(slots, trace.changes[0].up))
    ups, changes = [len(up & ours)], [PoolChange(0.0, 0, 0)]
    for change in trace.changes[1:]:
        gone = set(draws.sample(sorted(up), change.lost))
        came = set(draws.sample([s for s in slots if s not in up], change.added))
        up = (up - gone) | came
        ups.append(len(up & ours))
        changes.append(PoolChange(change.at_s, len(gone & ours), len(came & ours)))
    return ups, changes


def _hold(trace: Trace, pool: int, draws: random.Random) -> tuple[list[int], list[PoolChange]]:
    """Return how many of up to `pool` nodes are held after each change, and the changes."""
    up = trace.changes[0].up
    ups, changes = [min(up, pool)], [PoolChange(0.0, 0, 0)]
    for change in trace.changes[1:]:
        held = ups[-1]
        lost = sum(draws.sample([1] * held + [0] * (up - held), change.lost))
        up = change.up
        ups.append(min(up, pool))
        changes.append(PoolChange(change.at_s, lost, ups[-1] - (held - lost)))
    return ups, changes


# -- the walk -----------------------------------------------------------------------------------

# A trace with more losses is not one that a job of minutes can follow.
OPS_MAX = 40
AFTER_S_MAX = 600.0


@dataclass(frozen=True)
class JobPace:
    """The pace of a job, by a clean run."""

    workers: int
    min_workers: int | None
    #: those of each epoch
    steps: tuple[int, ...]
    saved: frozenset[int]
    step_s: float

    @property
    def least(self) -> int:
        """The fewest workers with which it continues."""
        return self.min_workers or self.workers


@dataclass
class TraceWalk:
    """The walk through a followed trace, with the resulting `ops`."""

    pace: JobPace
    seed: int
    ops: list[Op] = field(default_factory=list)
    #: those that take workers
    losses: int = 0
    #: those that were moved to a later step because an earlier attempt would have reached them
    moved: int = 0
    #: the longest wait for nodes
    waited_s: float = 0.0

    def __post_init__(self) -> None:
        self._draws = random.Random(self.seed)  # noqa: S311  repeatable is what it must be
        self._place = (0, 0)  # the place of training: epoch, and finished steps of it
        self._last = (0, 0)  # the place of the newest op

    def walk(self, trace: FollowedNodes, *, scale: float) -> None:
        """Walk until the job ends; raises `UsageError` for a scale that fits it badly."""
        up, now_s, changes = trace.up, 0.0, list(trace.changes)
        while changes:
            change = changes.pop(0)
            self._train(change.at_s / scale - now_s)
            now_s = change.at_s / scale
            if self._next() is None:
                return
            if change.back:
                self._gain(change.back, grows=up < self.pace.workers)
            up += change.back
            held, idle = min(up, self.pace.workers), max(0, up - self.pace.workers)
            up -= change.lost
            if change.lost:
                struck = sum(self._draws.sample([1] * held + [0] * idle, change.lost))
                returns, up, now_s = self._returns(changes, up, now_s, scale)
                self._lose(struck, change.lost - struck, returns, held)
            if len(self.ops) > OPS_MAX:
                raise UsageError(
                    f"more than {OPS_MAX} faults would fall into this job",
                    "Take a smaller --scale, or a shorter job.",
                )

    def _train(self, seconds: float) -> None:
        left = int(seconds / self.pace.step_s)
        epoch, step = self._place
        while left and epoch < len(self.pace.steps):
            made = min(left, self.pace.steps[epoch] - step)
            left, step = left - made, step + made
            if step >= self.pace.steps[epoch]:
                epoch, step = epoch + 1, 0
        self._place = (epoch, step)

    def _gain(self, nodes: int, *, grows: bool) -> None:
        # Held, until the nodes have joined: their start takes seconds, in which training at this
        # speed would advance by epochs, while the next loss of the trace assumes them there.
        if self._add("return_capacity", {"nodes": nodes, "hold": True}) and grows:
            self._resume()  # an elastic job starts again to take them in

    def _returns(
        self, changes: list[PoolChange], up: int, now_s: float, scale: float
    ) -> tuple[list[tuple[int, float]], int, float]:
        """Return (nodes, after seconds) until the job can continue, then nodes up, then the time.

        Nodes that leave while it waits are subtracted from those that join afterwards.
        """
        came: list[tuple[int, float]] = []
        since_s, gone = now_s, 0
        while up < self.pace.least:
            if not changes:  # the trace ends; the missing nodes join a second later
                came.append((self.pace.least - up, now_s - since_s + 1.0))
                return came, self.pace.least, now_s
            change = changes.pop(0)
            now_s, net = change.at_s / scale, change.back - change.lost
            up, gone = up + net, gone + max(0, -net)
            paid = min(gone, max(0, net))
            gone -= paid
            if net > paid:
                came.append((net - paid, now_s - since_s))
        self.waited_s = max(self.waited_s, now_s - since_s)
        if self.waited_s > AFTER_S_MAX:
            raise UsageError(
                f"the job would wait {self.waited_s:.0f} s for nodes",
                "Take a larger --scale, or more --spares.",
            )
        return came, up, now_s

    def _lose(
        self, struck: int, idle: int, returns: Sequence[tuple[int, float]], held: int
    ) -> None:
        if idle:
            self._add("withhold_capacity", {"nodes": idle})
        for nodes, after_s in returns:
            self._add("return_capacity", {"nodes": nodes, "after_s": round(after_s, 3)})
        if not struck:
            return
        ranks = tuple(sorted(self._draws.sample(range(held), struck)))
        fault = {} if len(ranks) == 1 else {"ranks": ranks}
        if self._add("kill_node", fault, rank=ranks[0]):
            self.losses += 1
            self._resume()

    def _resume(self) -> None:
        saved = [epoch for epoch in self.pace.saved if epoch < self._last[0]]
        self._place = (max(saved) + 1 if saved else 0, 0)

    def _add(self, kind: str, fault: dict[str, Any], *, rank: int = 0) -> bool:
        """Add a fault at the next step after all others; return False if training is over."""
        place = self._next()
        if place is None:
            return False
        self.moved += place > max(self._place, (self._place[0], 1))
        self._last = place
        at = {"epoch": place[0], "step": place[1], "rank": rank}
        self.ops.append(Op.model_validate({"index": len(self.ops), "at": at, kind: fault}))
        return True

    def _next(self) -> tuple[int, int] | None:
        """Return the first place that neither training nor another op has passed."""
        epoch, step = max(self._place, (self._last[0], self._last[1] + 1))
        step = max(1, step)
        while epoch < len(self.pace.steps) and step > self.pace.steps[epoch]:
            epoch, step = epoch + 1, 1
        return (epoch, step) if epoch < len(self.pace.steps) else None


# Parts of a trace that are tried, and how far apart their seeds are: two of a user's share none.
PARTS, APART = 16, 1_000_003


def walked(
    trace: Trace, pace: JobPace, *, pool: int, seed: int, read: TraceReading, scale: float
) -> tuple[FollowedNodes, TraceWalk]:
    """Return a job's nodes and its walk in the first drawn part of a trace that takes a worker.

    Raises `UsageError` if no part of those that are tried does.
    """
    for part in range(PARTS):
        drawn = seed + part * APART
        start = follow_nodes(trace, pool=pool, least=pace.workers, seed=drawn, read=read)
        walk = TraceWalk(pace, drawn)
        walk.walk(start, scale=scale)
        if walk.losses:
            return start, walk
    raise UsageError(
        f"in {PARTS} parts of the trace, at this pace, no loss takes a worker of this job",
        "Try a larger --scale, or a longer job.",
        place=trace.name,
    )
