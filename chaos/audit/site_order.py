"""The order in which an audit injects its faults: first those that can show a defect of resuming.

A restart from scratch shows none. So the first round has one place of every group
that has places after the first commit, each in another part of training. Places
before the first commit come last.
"""

import random
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, zip_longest

from chaos.audit.chains import can_share
from chaos.audit.job_profile import JobProfile
from chaos.audit.site_category import (
    CATEGORY_ORDERS,
    NODE_LOST,
    SITE_CATEGORIES,
    Question,
)
from chaos.audit.site_groups import FaultSite, PlaceKey, SiteSubgroup, find_resume_point
from chaos.model.places import TrainingPlace

PARTS = 3  # of training, from each of which a restart is to resume: early, middle, late
_PART_NAMES: Mapping[int, tuple[str, ...]] = {
    0: (),
    1: ("the only",),
    2: ("an early", "a late"),
    3: ("an early", "a middle", "a late"),
}


# The fractional part of the golden ratio: its multiples, modulo 1, fill a range evenly however soon
# one stops.
_GOLDEN = 0.6180339887498949


def spread_numbers(count: int, *, shift: float = 0.0) -> list[int]:
    """Order the numbers below a count so that the first few of them leave no large gap.

    Multiples of the golden ratio have that property; `shift` moves their beginning.
    """
    return sorted(range(count), key=lambda n: (shift + n * _GOLDEN) % 1.0)


@dataclass(frozen=True)
class SiteOrder:
    """All places with their ops, in order."""

    #: those for an answer: of every group, with resumes from every part of training
    needed: tuple[FaultSite, ...]
    later: tuple[FaultSite, ...]

    @property
    def all_places(self) -> tuple[FaultSite, ...]:
        return (*self.needed, *self.later)


def order_places(
    places: Sequence[FaultSite],
    profile: JobProfile,
    *,
    question: Question = "spot",
    seed: int = 0,
    late_keys: Collection[PlaceKey] = (),
) -> SiteOrder:
    """Order places for a question; the seed decides which place of a unit comes first.

    `late_keys`: those that come after the others of their unit.
    """
    groups = (
        *CATEGORY_ORDERS[question],
        *(g for g in SITE_CATEGORIES if g not in CATEGORY_ORDERS[question]),
    )
    parts = {place: find_part(place, profile) for place in places}
    queues, scratch_queues = (
        dict[SiteSubgroup, list[FaultSite]](),
        dict[SiteSubgroup, list[FaultSite]](),
    )
    turns = count(random.Random(f"{seed}:order").randrange(PARTS))  # noqa: S311 (repeatable)
    by_unit: dict[SiteSubgroup, list[FaultSite]] = {}
    for place in sorted(places, key=lambda place: groups.index(place.group)):
        by_unit.setdefault(place.subgroup, []).append(place)
    for unit, unit_places in by_unit.items():
        spread_places = _spread_places(unit_places, seed=seed)
        spread_places.sort(key=lambda place: place.key in late_keys)
        resuming_places = [s for s in spread_places if parts[s] is not None]
        if resuming_places:
            # A disk's content grows: an early loss of it takes less along than a late one.
            first_part = -1 if unit[0] == NODE_LOST else next(turns)
            queues[unit] = _move_part_first(first_part, resuming_places, parts)
        if len(resuming_places) < len(spread_places):
            scratch_queues[unit] = [s for s in spread_places if parts[s] is None]
    needed_places = [queue.pop(0) for queue in queues.values()]
    for part in sorted(
        {p for p in parts.values() if p is not None} - {parts[s] for s in needed_places}
    ):
        queue = next(q for q in queues.values() if any(parts[s] == part for s in q))
        part_place = next(s for s in queue if parts[s] == part)
        queue.remove(part_place)
        needed_places.append(part_place)
    needed_places += [queue.pop(0) for unit, queue in scratch_queues.items() if unit not in queues]
    return SiteOrder(
        tuple(needed_places),
        (*interleave_queues(queues.values()), *interleave_queues(scratch_queues.values())),
    )


def find_last_resume_point(place: FaultSite, profile: JobProfile) -> TrainingPlace | None:
    """Return the last point from which a restart resumes, None if all begin anew."""
    points = [point for op in place.ops if (point := find_resume_point(op, profile)) is not None]
    return max(points, default=None)


def find_part(place: FaultSite, profile: JobProfile) -> int | None:
    """Return the part of training from which a restart resumes, counted from 0."""
    point = find_last_resume_point(place, profile)
    if point is None:
        return None
    points = profile.resume_places_before_end
    return bisect_left(points, point) * count_parts(profile) // len(points)


def count_parts(profile: JobProfile) -> int:
    """Return the number of parts of training that have a checkpoint to resume from."""
    return min(PARTS, len(profile.resume_places_before_end))


def select_part_places(
    needed: Sequence[FaultSite], profile: JobProfile, *, excluded_parts: Collection[int | None]
) -> list[FaultSite]:
    """Return a place for each part of training that restarts resume from, in the given order.

    Where it can be, it is one that has a run of its own anyway. `excluded_parts` need none.
    """
    place_by_part: dict[int, FaultSite] = {}
    for place in sorted(needed, key=can_share):
        part = find_part(place, profile)
        if part is not None and part not in excluded_parts:
            place_by_part.setdefault(part, place)
    return [place for place in needed if place in place_by_part.values()]


def find_missing_parts(
    tried_places: Sequence[FaultSite], profile: JobProfile, *, wanted_parts: Collection[int | None]
) -> tuple[str, ...]:
    """Return the names of the checkpoints, of those parts, from which none of these resumed."""
    resumed_parts = {find_part(place, profile) for place in tried_places}
    names = _PART_NAMES[count_parts(profile)]
    return tuple(
        name for n, name in enumerate(names) if n in wanted_parts and n not in resumed_parts
    )


def _move_part_first(
    part: int, places: list[FaultSite], parts: Mapping[FaultSite, int | None]
) -> list[FaultSite]:
    """Move to the front the first that resumes from one part of training, or from the nearest.

    Parts are counted anew after the last of them, so -1 is the last.
    """
    available_parts = sorted({p for s in places if (p := parts[s]) is not None})
    wanted_part = part % (1 + available_parts[-1])
    nearest_part = min(available_parts, key=lambda p: abs(p - wanted_part))
    first_place = next(s for s in places if parts[s] == nearest_part)
    return [first_place, *(s for s in places if s is not first_place)]


def find_spares(
    places: Sequence[FaultSite], needed_places: Sequence[FaultSite], profile: JobProfile
) -> list[FaultSite]:
    """Return the places that may stand in for those due: no node is lost in an earlier part."""
    lost_part = max(
        (find_part(p, profile) or 0 for p in needed_places if p.group == NODE_LOST), default=0
    )
    parts = ((place, find_part(place, profile)) for place in places)
    return [p for p, n in parts if n is not None and (p.group != NODE_LOST or n >= lost_part)]


def _spread_places(places: Sequence[FaultSite], *, seed: int) -> list[FaultSite]:
    """Order a group so that the first few are spread over the job; the seed shifts them."""
    if not places:
        return []
    places = sorted(places, key=lambda s: s.order)
    shift = random.Random(f"{seed}:{places[0].group}:order").random()  # noqa: S311
    return [places[n] for n in spread_numbers(len(places), shift=shift)]


def interleave_queues(queues: Iterable[Iterable[FaultSite]]) -> Iterator[FaultSite]:
    """Return an iterator of one place of each queue in turn."""
    turns = zip_longest(*queues)
    return (place for place in chain.from_iterable(turns) if place is not None)
