"""The order in which an audit injects its faults: what can show a defect of resuming comes first.

A restart from scratch shows none. So the round begins with one place of every
group that has places after the first commit, each in another part of training,
and what is struck before anything was saved comes last.
"""

import random
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from math import inf

from chaos.audit.extent import Extent, Point
from chaos.audit.group import GROUPS, ORDERS, Group, Question
from chaos.audit.spread import evenly
from chaos.audit.strike import Strike
from chaos.model.plan import Op
from chaos.model.trigger import AtMoment, AtRecovery, AtStep

PARTS = 3  # of training, from each of which a restart is to go on: early, middle, late
_PART_NAMES: Mapping[int, tuple[str, ...]] = {
    0: (),
    1: ("the only",),
    2: ("an early", "a late"),
    3: ("an early", "a middle", "a late"),
}


@dataclass(frozen=True)
class Order:
    """All strikes; those `needed` for an answer: of every group, with resumes from every part."""

    needed: tuple[Strike, ...]
    rest: tuple[Strike, ...]

    @property
    def all(self) -> tuple[Strike, ...]:
        """Every strike, in order."""
        return (*self.needed, *self.rest)


def in_order(
    strikes: Sequence[Strike], extent: Extent, *, question: Question = "spot", seed: int = 0
) -> Order:
    """Order strikes for a question; what the seed decides is which place of a group comes first."""
    groups = (*ORDERS[question], *(g for g in GROUPS if g not in ORDERS[question]))
    parts = {strike: part_of(strike, extent) for strike in strikes}
    queues, scratch = dict[Group, list[Strike]](), dict[Group, list[Strike]]()
    offset = random.Random(f"{seed}:order").randrange(PARTS)  # noqa: S311 (repeatable)
    for turn, group in enumerate(groups):
        mine = _spread([s for s in strikes if s.group == group], seed=seed)
        resuming = [s for s in mine if parts[s] is not None]
        if resuming:
            queues[group] = _begun_in(offset + turn, resuming, parts)
        if len(resuming) < len(mine):
            scratch[group] = [s for s in mine if parts[s] is None]
    first = [queue.pop(0) for queue in queues.values()]
    for part in sorted({p for p in parts.values() if p is not None} - {parts[s] for s in first}):
        queue = next(q for q in queues.values() if any(parts[s] == part for s in q))
        more = next(s for s in queue if parts[s] == part)
        queue.remove(more)
        first.append(more)
    first += [queue.pop(0) for group, queue in scratch.items() if group not in queues]
    return Order(tuple(first), (*_in_rounds(queues), *_in_rounds(scratch)))


def resumes_from(strike: Strike, extent: Extent) -> Point | None:
    """Return the last point from which a restart goes on, None where all go on from nothing."""
    found = [point for op in strike.ops if (point := _before(op, extent)) is not None]
    return max(found, default=None)


def part_of(strike: Strike, extent: Extent) -> int | None:
    """Return the part of training from which a restart goes on, counted from 0."""
    point = resumes_from(strike, extent)
    if point is None:
        return None
    points = extent.resume_points
    return bisect_left(points, point) * parts_in(extent) // len(points)


def parts_in(extent: Extent) -> int:
    """Return how many parts of training have a checkpoint to go on from."""
    return min(PARTS, len(extent.resume_points))


def missing_parts(
    tried: Sequence[Strike], extent: Extent, *, of: Collection[int | None]
) -> tuple[str, ...]:
    """Name the checkpoints, of those parts of training, from which none of these went on."""
    found = {part_of(strike, extent) for strike in tried}
    names = _PART_NAMES[parts_in(extent)]
    return tuple(name for n, name in enumerate(names) if n in of and n not in found)


def _before(op: Op, extent: Extent) -> Point | None:
    """Return the last point before an op that has training left after it."""
    at, points = op.at, extent.resume_points
    if isinstance(at, AtRecovery) or not points:
        return None
    place = _place(op, extent)
    known = bisect_left(extent.points, place)
    # The last ones may have no training left after them.
    return extent.points[known - 1] if 0 < known <= len(points) else None


def _place(op: Op, extent: Extent) -> tuple[float, float]:
    """Return where an op stands, so that the points before it are smaller."""
    at = op.at
    if isinstance(at, AtStep):
        return at.epoch, at.step
    if isinstance(at, AtMoment) and at.moment == "committed":
        return at.epoch + 1, 0.5
    if isinstance(at, AtMoment) and at.moment == "saving":
        first = [step for epoch, step in extent.own_saves if epoch == at.epoch]
        return at.epoch, min(first, default=inf)
    return at.epoch, inf


def _begun_in(part: int, strikes: list[Strike], parts: Mapping[Strike, int | None]) -> list[Strike]:
    """Put first what goes on from one part of training, or from the nearest to it that there is."""
    there = sorted({p for s in strikes if (p := parts[s]) is not None})
    wanted = part % (1 + there[-1])
    nearest = min(there, key=lambda p: abs(p - wanted))
    first = next(s for s in strikes if parts[s] == nearest)
    return [first, *(s for s in strikes if s is not first)]


def _spread(strikes: Sequence[Strike], *, seed: int) -> list[Strike]:
    """Order a group so that any beginning is spread over the job, and none begins with the job."""
    if not strikes:
        return []
    places = sorted(strikes, key=lambda s: s.place)
    shift = random.Random(f"{seed}:{strikes[0].group}:order").random()  # noqa: S311
    return [places[n] for n in evenly(len(places), shift=shift)]


def _in_rounds(queues: Mapping[Group, Sequence[Strike]]) -> Iterator[Strike]:
    """Yield one strike of each group in turn."""
    turns = zip_longest(*queues.values())
    return (strike for strike in chain.from_iterable(turns) if strike is not None)
