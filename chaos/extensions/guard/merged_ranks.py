"""Sharded state as that of all ranks together, where a restart has another number of them.

Shares are sums that add up to the same for every sharding (see `probe.state.part`).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from chaos.extensions.guard.judge import RankEntry
from chaos.extensions.guard.records import GuardedStart, RankSave
from chaos.model.event import Component, StateSeen
from chaos.resume.state_snapshots import combine_parts

ALL = -1  # the rank of what all ranks have together
NEAR_S = 600.0  # between the records of the ranks of one save


def is_sharded(parts: Iterable[Component]) -> bool:
    """Return whether a rank has but a share of a part."""
    return any(part.share is not None for part in parts)


def merge_saves(saves: Iterable[RankSave]) -> list[RankSave]:
    """Return the saves of which the records of all ranks are there, each as one."""
    saves_by_step = defaultdict[tuple[int, int], dict[int, RankSave]](dict)
    for save in saves:  # the newest of a rank stands
        if save.is_live:
            saves_by_step[save.step, save.ranks][save.rank] = save
    merged_saves = []
    for (_, ranks), save_by_rank in saves_by_step.items():
        times = [save.at_s for save in save_by_rank.values()]
        if len(save_by_rank) == ranks and max(times) - min(times) < NEAR_S:
            rank_saves = [save_by_rank[rank] for rank in sorted(save_by_rank)]
            entered_parts = [save.entered for save in rank_saves]
            merged_saves.append(
                msgspec.structs.replace(
                    rank_saves[0],
                    rank=ALL,
                    made=_merge_parts([save.made for save in rank_saves]),
                    entered=_merge_parts(entered_parts) if all(entered_parts) else (),
                )
            )
    return sorted(merged_saves, key=lambda save: save.at_s)


def merge_starts(starts: Sequence[GuardedStart]) -> RankEntry:
    """Return the ranks of one start as one that has all that they have."""
    return RankEntry(ALL, len(starts), _merge_parts([start.entered for start in starts]))


def collect_rank_starts(
    own_start: GuardedStart, starts: Iterable[GuardedStart], *, before_s: float
) -> list[GuardedStart]:
    """Return the records of all ranks of one start, fewer if some are not there yet.

    `before_s` is when this rank's start before began: records of that time are none of this one.
    """
    start_by_rank: dict[int, GuardedStart] = {}
    for start in sorted(starts, key=lambda record: record.began_s):
        is_current = start.began_s > max(before_s + 1, own_start.began_s - NEAR_S)
        if start.ranks == own_start.ranks and is_current:
            start_by_rank[start.rank] = start
    start_by_rank[own_start.rank] = own_start
    return [start_by_rank[rank] for rank in sorted(start_by_rank)]


def _merge_parts(rank_parts: Sequence[Sequence[Component]]) -> tuple[Component, ...]:
    snapshots = [
        StateSeen(attempt=0, rank=0, epoch=0, step=0, moment="entered", components=tuple(parts))
        for parts in rank_parts
    ]
    parts = combine_parts(snapshots).values()
    return tuple(msgspec.structs.replace(part, share=None) for part in parts)
