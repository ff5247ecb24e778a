"""Every part of the state that was seen in surviving work, beside the baseline's at its place.

`components` judges how a rank enters a resumed attempt; this is what follows.
Random numbers are not among it: a generator that nothing draws from may differ
for good, and where one matters, losses show it (`state`, `rank-randomness`).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from chaos.check.attempt import Attempt
from chaos.check.components import group_of
from chaos.check.sightings import (
    MOMENTS,
    Place,
    Sightings,
    holds_nothing,
    is_elsewhere,
    is_pending,
    is_rng,
    parts_of,
    place_of,
)
from chaos.model.diagnosis import GROUPS
from chaos.model.event import Component, StateSeen

_Key: TypeAlias = tuple[int, str]  # a rank, and a part of its state


@dataclass(frozen=True, slots=True)
class PartPair:
    """One part of one rank's state, and the baseline's at its place. `number`: its event."""

    number: int
    place: Place
    ours: Component
    due: Component

    @property
    def order(self) -> tuple[int, int, int, int, str, int]:
        """Order by place in training, then by what is nearest to the cause."""
        rank, epoch, step, moment = self.place
        group = GROUPS.index(group_of(self.due.name))
        return epoch, step, MOMENTS.index(moment), group, self.due.name, rank


@dataclass
class StateCourse:
    """What the comparison came to.

    `apart` differ, and are known to repeat themselves. `unproven` differ, and
    nothing shows whether they repeat; `missing` the baseline has at places
    where the run has them not. `names` were compared at all.
    """

    compared: int = 0
    names: set[str] = field(default_factory=set)
    apart: list[PartPair] = field(default_factory=list)
    unproven: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)

    def add(self, pair: PartPair, *, is_proven: bool) -> None:
        """Count a part that both have, the same or not."""
        self.compared += 1
        self.names.add(pair.due.name)
        if _same(pair.ours, pair.due):
            return
        if is_proven:
            self.apart.append(pair)
        else:
            self.unproven.add(pair.due.name)

    def of(self, groups: Collection[str]) -> "StateCourse":
        """Give what of this is of some groups; all of it where none of them was compared."""
        kept = {name for name in self.names if group_of(name) in groups}
        if not kept:
            return self
        return StateCourse(
            compared=self.compared,
            names=self.names,
            apart=[pair for pair in self.apart if pair.due.name in kept],
            unproven={name for name in self.unproven if name in kept},
            missing={name for name in self.missing if group_of(name) in groups},
        )

    @property
    def first(self) -> Sequence[PartPair]:
        """The part that differs first, on all the ranks that show it there; empty if none does."""
        if not self.apart:
            return ()
        first = min(self.apart, key=lambda apart: apart.order)
        at = (*first.place[1:], first.due.name)
        return [a for a in self.apart if (*a.place[1:], a.due.name) == at]


@dataclass(frozen=True)
class Clean:
    """What shows which parts repeat themselves: the baseline, what came before the fault, repeats.

    `unstable` are the parts that are known not to.
    """

    reference: Sightings
    before: Sequence[StateSeen]
    repeats: Sequence[Sightings] = ()
    unstable: frozenset[str] = frozenset()

    def does_not_repeat(self) -> frozenset[str]:
        """Name the parts that differ between clean runs, or before the fault."""
        others = [seen for run in self.repeats for _, seen in run.all]
        found = (name for seen in others for name, is_same in self._beside(seen) if not is_same)
        return self.unstable | frozenset(found)

    def repeats_itself(self) -> frozenset[_Key]:
        """Name the parts that were the baseline's once more, where they had moved at all."""
        moved = self._moving()
        found = set()
        for seen in (*self.before, *(s for run in self.repeats for _, s in run.all)):
            first = self.reference.fresh(seen.rank)
            for name, is_same in self._beside(seen):
                part = parts_of(self.reference.by_place[place_of(seen)])[name]
                has_moved = (seen.rank, name) not in moved or part != first.get(name)
                if is_same and has_moved:
                    found.add((seen.rank, name))
        return frozenset(found)

    def _moving(self) -> frozenset[_Key]:
        """Name the parts that are not the same at all places of the baseline."""
        first: dict[_Key, str] = {}
        found = set()
        for _, seen in self.reference.all:
            for part in seen.components:
                key = (seen.rank, part.name)
                if first.setdefault(key, part.digest) != part.digest:
                    found.add(key)
        return frozenset(found)

    def _beside(self, seen: StateSeen) -> Iterator[tuple[str, bool]]:
        due = self.reference.by_place.get(place_of(seen))
        if due is None:
            return
        mine = parts_of(seen)
        for part in due.components:
            ours = mine.get(part.name)
            if ours is not None and not is_pending(ours) and not is_pending(part):
                yield part.name, _same(ours, part)


def state_course(kept: Iterable[tuple[int, StateSeen]], clean: Clean) -> StateCourse:
    """Compare, to the last bit, what was seen in surviving work with the baseline."""
    out, proven = clean.does_not_repeat(), clean.repeats_itself()
    found = StateCourse()
    for number, seen in kept:
        due, mine = clean.reference.by_place.get(place_of(seen)), parts_of(seen)
        for part in () if due is None else due.components:
            ours = mine.get(part.name)
            if is_rng(part.name) or part.name in out or is_pending(part) or is_pending(ours):
                continue
            if is_elsewhere(part, mine):
                continue
            if ours is None:
                found.missing.add(part.name)
            else:
                is_proven = (seen.rank, part.name) in proven
                found.add(PartPair(number, place_of(seen), ours, part), is_proven=is_proven)
    return found


def surviving(
    run: Sightings, attempts: Sequence[Attempt], *, without: frozenset[int]
) -> list[tuple[int, StateSeen]]:
    """Give the sightings that no later attempt did again, apart from the attempts `without`."""
    of: dict[int, list[tuple[int, StateSeen]]] = {}
    for number, seen in run.all:
        of.setdefault(seen.attempt, []).append((number, seen))
    kept: list[tuple[int, StateSeen]] = []
    for attempt in attempts:
        if attempt.place is not None:
            since = {r: start.place for r, start in attempt.starts.items() if start.settled}
            kept = [item for item in kept if not _is_redone(item[1], since, attempt.place)]
        kept += of.get(attempt.index, [])
    return [(number, seen) for number, seen in kept if seen.attempt not in without]


def _is_redone(
    seen: StateSeen, since: Mapping[int, tuple[int, int]], earliest: tuple[int, int]
) -> bool:
    start, place = since.get(seen.rank, earliest), (seen.epoch, seen.step)
    return place > start or (place == start and seen.moment != "step")


def _same(ours: Component, due: Component) -> bool:
    if holds_nothing(ours) or holds_nothing(due):
        return holds_nothing(ours) and holds_nothing(due)
    return ours.digest == due.digest
