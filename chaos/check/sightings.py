"""What was seen of a course's state, by place."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias

from chaos.model.event import Component, StateSeen
from chaos.model.history import History

Place: TypeAlias = tuple[int, int, int, str]  # rank, epoch, step, moment
MOMENTS = ("entered", "step", "left")  # in the order of training


class Allowed(Protocol):
    """What must be known of a plan's leeway to compare states."""

    @property
    def is_exact(self) -> bool:
        """Whether everything must be equal to the last bit."""

    def allows_size(self, name: str, place: Place | None, ours: float, due: float) -> bool:
        """Say whether a part of the state is as large as it must be."""


@dataclass(frozen=True)
class Sightings:
    """The states seen in one history, each with its number."""

    history: History

    @cached_property
    def all(self) -> tuple[tuple[int, StateSeen], ...]:
        """Every sighting, in order."""
        return tuple(self.history.of(StateSeen))

    @cached_property
    def by_place(self) -> Mapping[Place, StateSeen]:
        """The last sighting at each place, of any attempt."""
        return {place_of(seen): seen for _, seen in self.all}

    @cached_property
    def entries(self) -> Mapping[tuple[int, int], tuple[int, StateSeen]]:
        """How each rank first entered training, by (attempt, rank)."""
        found: dict[tuple[int, int], tuple[int, StateSeen]] = {}
        for number, seen in self.all:
            if seen.moment == "entered":
                found.setdefault((seen.attempt, seen.rank), (number, seen))
        return found

    @cached_property
    def left(self) -> Mapping[tuple[int, int], StateSeen]:
        """What each rank left an epoch with, by (rank, epoch): the last attempt's."""
        return {(s.rank, s.epoch): s for _, s in self.all if s.moment == "left"}

    @cached_property
    def names(self) -> frozenset[str]:
        """Every component that was ever seen."""
        return frozenset(part.name for _, seen in self.all for part in seen.components)

    def fresh(self, rank: int) -> Mapping[str, Component]:
        """Give what a rank begins training with from scratch."""
        first = self.entries.get((0, rank))
        if first is None or (first[1].epoch, first[1].step) != (0, 0):
            return {}
        return parts_of(first[1])


def place_of(seen: StateSeen) -> Place:
    """Give where and when a state was seen."""
    return seen.rank, seen.epoch, seen.step, seen.moment


def parts_of(seen: StateSeen | None) -> dict[str, Component]:
    """Give a state's components by name."""
    return {} if seen is None else {part.name: part for part in seen.components}


def is_rng(name: str) -> bool:
    """Say whether a component is a generator of random numbers."""
    return name == "rng" or name.startswith("rng.")


def holds_nothing(part: Component | None) -> bool:
    """Say whether a component is missing, or there and empty."""
    return part is None or not part.digest or part.count == 0


def is_pending(part: Component | None) -> bool:
    """Say whether a component was still to be made, so that nothing is known of it."""
    return part is not None and part.pending


def agree(
    ours: Component | None, due: Component | None, leeway: Allowed, place: Place | None = None
) -> bool:
    """Say whether a component is the baseline's: to the last bit, or in size where that is all."""
    if holds_nothing(ours) or holds_nothing(due):
        return holds_nothing(ours) and holds_nothing(due)
    assert ours is not None
    assert due is not None
    if ours.digest == due.digest:
        return True
    if leeway.is_exact or not isinstance(ours.size, float) or not isinstance(due.size, float):
        return not leeway.is_exact and ours.size == due.size
    return leeway.allows_size(due.name, place, ours.size, due.size)


def differing(ours: StateSeen, due: StateSeen, leeway: Allowed) -> Iterator[str]:
    """Name the components of the baseline's state that are not the same in ours."""
    mine = parts_of(ours)
    for part in due.components:
        if is_pending(part) or is_pending(mine.get(part.name)):
            continue
        if not agree(mine.get(part.name), part, leeway, place_of(due)):
            yield part.name
