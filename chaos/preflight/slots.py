"""A few of a trace's nodes, followed through it: so many as a job and its spares need."""

import random
from dataclasses import dataclass

from chaos.errors import UsageError
from chaos.preflight.trace import Trace


@dataclass(frozen=True)
class PoolChange:
    """At `at_s` after the beginning, `lost` of the followed nodes go and `back` come."""

    at_s: float
    lost: int
    back: int


@dataclass(frozen=True)
class Followed:
    """What became of the followed nodes from `since_s` of the trace on; `up` of them to begin."""

    since_s: float
    up: int
    changes: tuple[PoolChange, ...]


def followed(trace: Trace, *, pool: int, least: int, seed: int) -> Followed:
    """Follow `pool` drawn nodes of a trace from a drawn moment of its first half on.

    At that moment `least` of them are up; the trace ends where it ends.

    Which node a change takes or brings back is drawn among those that it
    could be: the trace's counts do not tell, and its events come to the same.
    Losses that took several nodes at once take several of these as well.
    Raises `UsageError` where the trace never has so many nodes.
    """
    draws = random.Random(seed)  # noqa: S311  repeatable is what it must be
    if pool > trace.peak:
        raise UsageError(
            f"the trace has {trace.peak} nodes at most, and {pool} are to be followed",
            "Take a job with fewer workers, or fewer --spares.",
            place=trace.name,
        )
    ups, changes = _walk(trace, pool, draws)
    half = [n for n, change in enumerate(changes) if change.at_s <= trace.span_s / 2]
    begins = [n for n in half if ups[n] >= least]
    if not begins:
        raise UsageError(
            f"of {pool} nodes drawn from the trace never {least} are up at once in its first half",
            "Try another --seed, or more --spares.",
            place=trace.name,
        )
    first = draws.choice(begins)
    since_s = changes[first].at_s
    later = [change for change in changes[first + 1 :] if change.lost or change.back]
    moved = (PoolChange(c.at_s - since_s, c.lost, c.back) for c in later)
    return Followed(since_s, ups[first], tuple(moved))


def _walk(trace: Trace, pool: int, draws: random.Random) -> tuple[list[int], list[PoolChange]]:
    """Give how many followed nodes are up after each change of the trace, and the changes."""
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
