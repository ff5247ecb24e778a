"""A market or a trace in fast motion, as the ops of a plan: by the clock, or at places of a job."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from chaos.errors import UsageError
from chaos.extensions.preflight.capacity import PoolCapacity, capacity
from chaos.extensions.preflight.market import LossNotice, Market, TraceReading, speed_up_losses
from chaos.extensions.preflight.trace import Trace
from chaos.model.plan import Op, PlanBackend
from chaos.wording import plural

LOSSES = 1.5  # per time of a fault-free run, if no scale is given


@dataclass(frozen=True)
class NodeChange:
    """The nodes that are lost and that join at one instant."""

    #: counted from the job's start
    at_s: float
    #: their numbers, by the order in which all nodes joined; for a loss of only workers, the
    #: numbers of their nodes
    lost: tuple[int, ...]
    joined: int = 0

    def shift_nodes(self, permanent_nodes: int) -> Self:
        """Return the change, with its nodes numbered after so many that are never lost."""
        return replace(self, lost=tuple(node + permanent_nodes for node in self.lost))


def choose_scale(market: Market, *, nodes: int, work_s: float) -> float:
    """Return the factor by which time runs faster, so that a run meets a few losses."""
    every_s = market.mtbf_h * 3600 / nodes
    if not math.isfinite(every_s):
        raise UsageError("no node is lost on this market", "There is nothing to replay.")
    return max(1.0, every_s * LOSSES / work_s)


def compress_market(
    market: Market, scale: float, *, away_s: float = 0.0, notice_s: float = 0.0
) -> Market:
    """Return the market with time running `scale` times faster.

    The absence of a lost node and the length of a notice are in seconds that are not
    compressed: a restart and a save are not, either.
    """
    return speed_up_losses(market, scale).replace(
        name=f"{market.name}, {scale:,.0f} times as fast",
        away_h=away_s / 3600,
        notice=LossNotice(seconds=notice_s),
    )


def choose_pool(market: Market, *, nodes: int) -> int:
    """Return the number of nodes to hold so that a replayed trace always leaves enough for the job.

    Raises `UsageError` if the trace has moments with next to no node, or, read as a market, fewer
    than the job's.
    """
    if market.replay is None:
        return nodes
    min_share, hint = (
        min(market.replay.up),
        "a fitted market can be compared, waiting for nodes cannot",
    )
    if market.is_shared:
        if round(min_share * market.size(nodes)) < nodes:
            raise UsageError(
                f"the trace has moments with fewer than {plural(nodes, 'node')}",
                f"Leave --replay-trace out: {hint}.",
            )
        return nodes
    if min_share * 1000 < nodes:
        raise UsageError(
            "the trace has moments in which no node is left",
            f"Leave --replay-trace out: {hint}.",
        )
    pool = math.ceil(nodes / min_share)
    while round(min_share * pool) < nodes:
        pool += 1
    return pool


def draw_losses(
    market: Market, *, nodes: int, pool: int, until_s: float, seed: int
) -> tuple[NodeChange, ...]:
    """Draw the job's losses of workers, without loss of nodes; some of `pool` hold no worker."""
    rng = np.random.Generator(np.random.PCG64(seed))
    engine, changes = capacity(market, pool, 1, rng), []
    for at_s, up_nodes, lost in _advance_engine(engine, until_s):
        hit_workers = int(rng.hypergeometric(nodes, max(0, up_nodes - nodes), lost)) if lost else 0
        if hit_workers:
            changes.append(NodeChange(at_s, tuple(rng.permutation(nodes)[:hit_workers].tolist())))
    return tuple(changes)


def draw_changes(
    market: Market, *, pool: int, until_s: float, seed: int
) -> tuple[int, tuple[NodeChange, ...]]:
    """Draw the nodes up at first, and losses of `pool` nodes and the times of new ones.

    They are independent of the job.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    engine, changes = capacity(market, pool, 1, rng), []
    initial_up = joined = int(engine.up[0])
    up = list(range(initial_up))
    for at_s, _, lost in _advance_engine(engine, until_s):
        current_up = int(engine.up[0])
        lost_nodes = sorted(rng.permutation(up)[: max(lost, len(up) - current_up)].tolist())
        new_nodes = current_up - len(up) + len(lost_nodes)
        up = [node for node in up if node not in lost_nodes] + list(
            range(joined, joined + new_nodes)
        )
        joined += new_nodes
        if lost_nodes or new_nodes:
            changes.append(NodeChange(at_s, tuple(lost_nodes), new_nodes))
    return initial_up, tuple(changes)


def _advance_engine(engine: PoolCapacity, until_s: float) -> Iterator[tuple[float, int, int]]:
    """Make the changes of a single run until then; yield the time, the nodes before, the lost."""
    while engine.next_s[0] < until_s:
        at_s, up_nodes = float(engine.next_s[0]), int(engine.up[0])
        yield at_s, up_nodes, int(engine.change()[0])


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
    startup_s: float = 0.0
    #: from the order of a node to its joining
    join_s: float = 0.0
    #: a loss is announced so long ahead
    notice_s: float = 0.0

    def build_trigger(self, moment_s: float) -> dict[str, float]:
        """Return the trigger of an op."""
        return {"seconds": max(SOON_S, moment_s - self.startup_s)}


def timed_ops(changes: Sequence[NodeChange], losses: Losses, clock: PlanClock) -> tuple[Op, ...]:
    """Return the ops of a market's changes, in the order of their times."""
    entries = [entry for change in changes for entry in _build_entries(change, losses, clock)]
    entries.sort(key=lambda entry: entry["at"]["seconds"])
    return tuple(Op.model_validate({"index": n, **entry}) for n, entry in enumerate(entries))


def _build_entries(
    change: NodeChange, losses: Losses, clock: PlanClock
) -> Iterator[dict[str, Any]]:
    notice_s = min(clock.notice_s, change.at_s) if losses == "notices" else 0.0
    faults: dict[Losses, dict[str, Any]] = {
        "kills": {"kill_worker": {}},
        "nodes": {"kill_node": {}},
        "notices": {"preempt_node": {"notice_s": round(notice_s, 3)}},
    }
    for node in change.lost:
        yield {"at": clock.build_trigger(change.at_s - notice_s), "node": node, **faults[losses]}
    if change.joined:
        return_settings = {"nodes": change.joined}
        yield {
            "at": clock.build_trigger(change.at_s - clock.join_s),
            "return_capacity": return_settings,
        }


@dataclass(frozen=True)
class PoolChange:
    """A change of the followed nodes."""

    #: counted from the beginning
    at_s: float
    #: the nodes that leave
    lost: int
    #: the nodes that return
    returned: int


@dataclass(frozen=True)
class FollowedNodes:
    """The followed nodes from `start_s` of the trace on, `up` of them at first."""

    start_s: float
    up: int
    changes: tuple[PoolChange, ...]


def follow_nodes(
    trace: Trace, *, pool: int, min_nodes: int, seed: int, read: TraceReading = "pool"
) -> FollowedNodes:
    """Follow a job's nodes through a trace from a drawn moment of its first half on.

    Of a pool they are `pool` drawn ones, there or not; of a market up to `pool` of those that are
    up, of which others replace a lost one at once. At that moment `min_nodes` of them are up; they
    are followed to the end of the trace.

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
            location=trace.name,
        )
    ups, changes = (_follow_pool if read == "pool" else _follow_market)(trace, pool, draws)
    half_s = trace.span_s / 2
    starts = [n for n, up in enumerate(ups) if up >= min_nodes and changes[n].at_s <= half_s]
    if not starts:
        raise UsageError(
            f"of {pool} nodes of the trace never {min_nodes} are up at once in its first half",
            "Try another --seed, or more --spares.",
            location=trace.name,
        )
    start = draws.choice(starts)
    start_s = changes[start].at_s
    later_changes = [
        PoolChange(change.at_s - start_s, change.lost, change.returned)
        for change in changes[start + 1 :]
        if change.lost or change.returned
    ]
    return FollowedNodes(start_s, ups[start], tuple(later_changes))


def _follow_pool(
    trace: Trace, pool: int, draws: random.Random
) -> tuple[list[int], list[PoolChange]]:
    """Return the followed nodes that are up after each change of the trace, and the changes."""
    slots = list(range(trace.peak))
    job_nodes = set(draws.sample(slots, pool))
    up = set(draws.sample(slots, trace.changes[0].up))
    ups, changes = [len(up & job_nodes)], [PoolChange(0.0, 0, 0)]
    for change in trace.changes[1:]:
        lost_nodes = set(draws.sample(sorted(up), change.lost))
        returned_nodes = set(draws.sample([s for s in slots if s not in up], change.added))
        up = (up - lost_nodes) | returned_nodes
        ups.append(len(up & job_nodes))
        changes.append(
            PoolChange(change.at_s, len(lost_nodes & job_nodes), len(returned_nodes & job_nodes))
        )
    return ups, changes


def _follow_market(
    trace: Trace, pool: int, draws: random.Random
) -> tuple[list[int], list[PoolChange]]:
    """Return how many of up to `pool` nodes are held after each change, and the changes."""
    up = trace.changes[0].up
    ups, changes = [min(up, pool)], [PoolChange(0.0, 0, 0)]
    for change in trace.changes[1:]:
        held_nodes = ups[-1]
        lost = sum(draws.sample([1] * held_nodes + [0] * (up - held_nodes), change.lost))
        up = change.up
        ups.append(min(up, pool))
        changes.append(PoolChange(change.at_s, lost, ups[-1] - (held_nodes - lost)))
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
    def fewest_workers(self) -> int:
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
        self._training_place = (0, 0)  # the place of training: epoch, and finished steps of it
        self._latest_op_place = (0, 0)  # the place of the newest op

    def walk(self, trace: FollowedNodes, *, scale: float) -> None:
        """Walk until the job ends; raises `UsageError` for a scale that fits it badly."""
        up, now_s, changes = trace.up, 0.0, list(trace.changes)
        while changes:
            change = changes.pop(0)
            self._train(change.at_s / scale - now_s)
            now_s = change.at_s / scale
            if self._find_next_place() is None:
                return
            if change.returned:
                self._gain(change.returned, grows=up < self.pace.workers)
            up += change.returned
            working_nodes, idle_nodes = min(up, self.pace.workers), max(0, up - self.pace.workers)
            up -= change.lost
            if change.lost:
                faulted = sum(
                    self._draws.sample([1] * working_nodes + [0] * idle_nodes, change.lost)
                )
                returns, up, now_s = self._await_nodes(changes, up, now_s, scale)
                self._lose(faulted, change.lost - faulted, returns, working_nodes)
            if len(self.ops) > OPS_MAX:
                raise UsageError(
                    f"more than {OPS_MAX} faults would fall into this job",
                    "Take a smaller --scale, or a shorter job.",
                )

    def _train(self, seconds: float) -> None:
        remaining_steps = int(seconds / self.pace.step_s)
        epoch, step = self._training_place
        while remaining_steps and epoch < len(self.pace.steps):
            finished_steps = min(remaining_steps, self.pace.steps[epoch] - step)
            remaining_steps, step = remaining_steps - finished_steps, step + finished_steps
            if step >= self.pace.steps[epoch]:
                epoch, step = epoch + 1, 0
        self._training_place = (epoch, step)

    def _gain(self, nodes: int, *, grows: bool) -> None:
        # Held, until the nodes have joined: their start takes seconds, in which training at this
        # speed would advance by epochs, while the next loss of the trace assumes them there.
        if self._add_op("return_capacity", {"nodes": nodes, "hold": True}) and grows:
            self._resume()  # an elastic job starts again to take them in

    def _await_nodes(
        self, changes: list[PoolChange], up: int, now_s: float, scale: float
    ) -> tuple[list[tuple[int, float]], int, float]:
        """Return (nodes, after seconds) until the job can continue, then nodes up, then the time.

        Nodes that leave while it waits are subtracted from those that join afterwards.
        """
        arrivals: list[tuple[int, float]] = []
        start_s, extra_losses = now_s, 0
        while up < self.pace.fewest_workers:
            if not changes:  # the trace ends; the missing nodes join a second later
                arrivals.append((self.pace.fewest_workers - up, now_s - start_s + 1.0))
                return arrivals, self.pace.fewest_workers, now_s
            change = changes.pop(0)
            now_s, net = change.at_s / scale, change.returned - change.lost
            up, extra_losses = up + net, extra_losses + max(0, -net)
            paid = min(extra_losses, max(0, net))
            extra_losses -= paid
            if net > paid:
                arrivals.append((net - paid, now_s - start_s))
        self.waited_s = max(self.waited_s, now_s - start_s)
        if self.waited_s > AFTER_S_MAX:
            raise UsageError(
                f"the job would wait {self.waited_s:.0f} s for nodes",
                "Take a larger --scale, or more --spares.",
            )
        return arrivals, up, now_s

    def _lose(
        self,
        faulted: int,
        idle_nodes: int,
        returns: Sequence[tuple[int, float]],
        working_nodes: int,
    ) -> None:
        if idle_nodes:
            self._add_op("withhold_capacity", {"nodes": idle_nodes})
        for nodes, after_s in returns:
            self._add_op("return_capacity", {"nodes": nodes, "after_s": round(after_s, 3)})
        if not faulted:
            return
        ranks = tuple(sorted(self._draws.sample(range(working_nodes), faulted)))
        fault = {} if len(ranks) == 1 else {"ranks": ranks}
        if self._add_op("kill_node", fault, rank=ranks[0]):
            self.losses += 1
            self._resume()

    def _resume(self) -> None:
        saved = [epoch for epoch in self.pace.saved if epoch < self._latest_op_place[0]]
        self._training_place = (max(saved) + 1 if saved else 0, 0)

    def _add_op(self, kind: str, fault: dict[str, Any], *, rank: int = 0) -> bool:
        """Add a fault at the next step after all others; return False if training is over."""
        training_place = self._find_next_place()
        if training_place is None:
            return False
        self.moved += training_place > max(self._training_place, (self._training_place[0], 1))
        self._latest_op_place = training_place
        trigger = {"epoch": training_place[0], "step": training_place[1], "rank": rank}
        self.ops.append(Op.model_validate({"index": len(self.ops), "at": trigger, kind: fault}))
        return True

    def _find_next_place(self) -> tuple[int, int] | None:
        """Return the first place that neither training nor another op has passed."""
        epoch, step = max(
            self._training_place, (self._latest_op_place[0], self._latest_op_place[1] + 1)
        )
        step = max(1, step)
        while epoch < len(self.pace.steps) and step > self.pace.steps[epoch]:
            epoch, step = epoch + 1, 1
        return (epoch, step) if epoch < len(self.pace.steps) else None


# Parts of a trace that are tried, and how far apart their seeds are: two of a user's share none.
PARTS, SEED_STRIDE = 16, 1_000_003


def find_walk(
    trace: Trace, pace: JobPace, *, pool: int, seed: int, read: TraceReading, scale: float
) -> tuple[FollowedNodes, TraceWalk]:
    """Return a job's nodes and its walk in the first drawn part of a trace that takes a worker.

    Raises `UsageError` if no part of those that are tried does.
    """
    for part in range(PARTS):
        part_seed = seed + part * SEED_STRIDE
        start = follow_nodes(trace, pool=pool, min_nodes=pace.workers, seed=part_seed, read=read)
        walk = TraceWalk(pace, part_seed)
        walk.walk(start, scale=scale)
        if walk.losses:
            return start, walk
    raise UsageError(
        f"in {PARTS} parts of the trace, at this pace, no loss takes a worker of this job",
        "Try a larger --scale, or a longer job.",
        location=trace.name,
    )
