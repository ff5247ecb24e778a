"""Sharded state as that of all ranks together, where a restart has another number of them.

Shares are sums that add up to the same for every sharding (see `probe.state.part`).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from chaos.check.state_snapshots import whole_parts
from chaos.guard.judge import Entry
from chaos.guard.records import Save, Start
from chaos.model.event import Component, StateSeen

ALL = -1  # the rank of what all ranks have together
NEAR_S = 600.0  # between the records of the ranks of one save


def is_sharded(parts: Iterable[Component]) -> bool:
    """Return whether a rank has but a share of a part."""
    return any(part.share is not None for part in parts)


def whole_saves(saves: Iterable[Save]) -> list[Save]:
    """Return the saves of which the records of all ranks are there, each as one."""
    by_step = defaultdict[tuple[int, int], dict[int, Save]](dict)
    for save in saves:  # the newest of a rank stands
        if save.is_live:
            by_step[save.step, save.ranks][save.rank] = save
    found = []
    for (_, ranks), own in by_step.items():
        times = [save.at_s for save in own.values()]
        if len(own) == ranks and max(times) - min(times) < NEAR_S:
            every = [own[rank] for rank in sorted(own)]
            entered = [save.entered for save in every]
            found.append(
                msgspec.structs.replace(
                    every[0],
                    rank=ALL,
                    made=_whole([save.made for save in every]),
                    entered=_whole(entered) if all(entered) else (),
                )
            )
    return sorted(found, key=lambda save: save.at_s)


def whole_entry(starts: Sequence[Start]) -> Entry:
    """Return the ranks of one start as one that has all that they have."""
    return Entry(ALL, len(starts), _whole([start.entered for start in starts]))


def ranks_of(own: Start, starts: Iterable[Start], *, before_s: float) -> list[Start]:
    """Return the records of all ranks of one start, fewer if some are not there yet.

    `before_s` is when this rank's start before began: records of that time are none of this one.
    """
    found: dict[int, Start] = {}
    for start in sorted(starts, key=lambda one: one.began_s):
        is_of_now = start.began_s > max(before_s + 1, own.began_s - NEAR_S)
        if start.ranks == own.ranks and is_of_now:
            found[start.rank] = start
    found[own.rank] = own
    return [found[rank] for rank in sorted(found)]


def _whole(of_ranks: Sequence[Sequence[Component]]) -> tuple[Component, ...]:
    seen = [
        StateSeen(attempt=0, rank=0, epoch=0, step=0, moment="entered", components=tuple(parts))
        for parts in of_ranks
    ]
    parts = whole_parts(seen).values()
    return tuple(msgspec.structs.replace(part, share=None) for part in parts)
