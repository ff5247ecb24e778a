"""The state snapshots of one history, by place.

A worker numbers parts in the order of the moment: `model`, `model.1`, `optimizer.1.lr`. Another
attempt may have an optimizer more, or less. So parts that carry the structure of their owner are
renamed here: the same name stands for the same structure, in a run as in its baseline. Where two
owners have the same structure, their names also depend on the number of such owners: with another
number, it is not known which is which.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, sqrt
from typing import Protocol, TypeAlias

import msgspec

from chaos.model.event import Component, StateSeen
from chaos.model.history import History
from chaos.model.places import START, AttemptRank, RankEpoch, StatePlace

MOMENTS = ("entered", "step", "left")  # in the order of training
# A rank; the kind of owner; its structure; its index among those that have it; their number.
_Owner: TypeAlias = tuple[int, str, str, int, int]
_NUMBERED = re.compile(r"(model\.rest|model\.buffers|model|optimizer|schedule)(\.\d+)?(\..*)?")


class Allowed(Protocol):
    """The part of a plan's tolerance that is needed to compare states."""

    @property
    def is_exact(self) -> bool:
        """Whether everything must be equal to the last bit."""

    def allows_size(self, name: str, place: StatePlace | None, ours: float, due: float) -> bool:
        """Return whether the size of a part of the state is within the tolerance."""


@dataclass(frozen=True)
class StateSnapshots:
    """The snapshots of one history, each with its number."""

    history: History
    #: the snapshots after which parts are named
    like: "StateSnapshots | None" = None

    @cached_property
    def all(self) -> tuple[tuple[int, StateSeen], ...]:
        return tuple((number, self._named(seen)) for number, seen in self.history.of(StateSeen))

    @cached_property
    def owners(self) -> dict[_Owner, str]:
        """The name of each owner of parts that was seen so far."""
        if self.like is None:
            return {}
        assert self.like.all is not None  # its owners are named as its snapshots are read
        return dict(self.like.owners)

    def _named(self, seen: StateSeen) -> StateSeen:
        names = {before: self._name_of(owner, before) for before, owner in owners_in(seen)}
        if all(before == name for before, name in names.items()):
            return seen
        parts = tuple(_renamed(part, names) for part in seen.components)
        return msgspec.structs.replace(seen, components=parts)

    def _name_of(self, owner: _Owner, before: str) -> str:
        name = self.owners.get(owner)
        if name is None:
            rank, base, *_ = owner
            taken = {name for other, name in self.owners.items() if other[0] == rank}
            every = (base, *(f"{base}.{index}" for index in range(1, len(taken) + 1)))
            free = (name for name in every if name not in taken)
            name = self.owners[owner] = before if before not in taken else next(free)
        return name

    @cached_property
    def by_place(self) -> Mapping[StatePlace, StateSeen]:
        """The last snapshot at each place, of any attempt."""
        return {place: seen[-1] for place, seen in self.every_at.items()}

    @cached_property
    def every_at(self) -> Mapping[StatePlace, Sequence[StateSeen]]:
        """The snapshots of all attempts at each place, in order."""
        found: dict[StatePlace, list[StateSeen]] = {}
        for _, seen in self.all:
            found.setdefault(place_of(seen), []).append(seen)
        return found

    @cached_property
    def entries(self) -> Mapping[AttemptRank, tuple[int, StateSeen]]:
        """The first entry into training of each rank of each attempt."""
        found: dict[AttemptRank, tuple[int, StateSeen]] = {}
        for number, seen in self.all:
            if seen.moment == "entered":
                found.setdefault(AttemptRank(seen.attempt, seen.rank), (number, seen))
        return found

    @cached_property
    def left(self) -> Mapping[RankEpoch, StateSeen]:
        """The state in which each rank left an epoch: the last attempt's."""
        return {RankEpoch(s.rank, s.epoch): s for _, s in self.all if s.moment == "left"}

    @cached_property
    def names(self) -> frozenset[str]:
        """The name of every component that was ever seen."""
        return frozenset(part.name for _, seen in self.all for part in seen.components)

    def whole_at(self, epoch: int, step: int, moment: str) -> dict[str, Component]:
        """Return the parts of all ranks together at a place, of any attempt (see `whole_parts`)."""
        ranks = {rank for _, rank in self.entries}
        seen = (self.by_place.get(StatePlace(rank, epoch, step, moment)) for rank in ranks)
        return whole_parts([each for each in seen if each is not None])

    def whole_entry(self, attempt: int) -> dict[str, Component]:
        """Return the parts of all ranks together as an attempt began to train."""
        return whole_parts([seen for (of, _), (_, seen) in self.entries.items() if of == attempt])

    def whole_left(self, epoch: int) -> tuple[int, dict[str, Component]]:
        """Return the last attempt that left an epoch, -1 without one, and its ranks' parts."""
        last = max((s.attempt for (_, of), s in self.left.items() if of == epoch), default=-1)
        of_last = [s for (_, of), s in self.left.items() if of == epoch and s.attempt == last]
        return last, whole_parts(of_last)

    def fresh(self, rank: int) -> Mapping[str, Component]:
        """Return the state with which a rank begins training from scratch."""
        first = self.entries.get(AttemptRank(0, rank))
        if first is None or (first[1].epoch, first[1].step) != START:
            return {}
        return parts_of(first[1])


def place_of(seen: StateSeen) -> StatePlace:
    """Return the place and the moment of a snapshot."""
    return StatePlace(seen.rank, seen.epoch, seen.step, seen.moment)


def parts_of(seen: StateSeen | None) -> dict[str, Component]:
    """Return a state's components by name."""
    return {} if seen is None else {part.name: part for part in seen.components}


def whole_parts(ranks: Sequence[StateSeen]) -> dict[str, Component]:
    """Return the parts that ranks have together, whatever their number.

    A sharded part is the sum of its shares, if these are the whole. Another part is that of every
    rank that has it, if it is the same on all. A rank's own is in neither case.
    """
    names = dict.fromkeys(part.name for seen in ranks for part in seen.components)
    by_rank = [parts_of(seen) for seen in ranks]
    found = (_whole([parts[name] for parts in by_rank if name in parts]) for name in names)
    return {part.name: part for part in found if part is not None}


def _whole(parts: Sequence[Component]) -> Component | None:
    # Shares add up to the whole only if each element is held once: ranks without a common mesh hold
    # more, or less, which the number of elements shows. Nothing is known of the whole then.
    first = parts[0]
    if first.share is None:
        return first if all(part.digest == first.digest for part in parts) else None
    shares = [part.share for part in parts if part.share is not None]
    if any(share.of != sum(s.elements for s in shares) for share in shares):
        return None
    total = sum(int(share.sum, 16) for share in shares) % 2**64
    norm = sqrt(sum(float(share.squares) for share in shares))
    return msgspec.structs.replace(
        first, digest=f"{total:016x}", size=norm if isfinite(norm) else str(norm)
    )


def owner_of(name: str) -> str:
    """Return the owner of a part, by its name: `optimizer.1` of `optimizer.1.lr`."""
    match = _NUMBERED.fullmatch(name)
    return name if match is None else match[1] + (match[2] or "")


def is_elsewhere(part: Component, others: Mapping[str, Component]) -> bool:
    """Return whether the others lack a part's owner altogether: then it cannot be lost."""
    owner = owner_of(part.name)
    return bool(part.structure) and all(owner_of(name) != owner for name in others)


def owners_in(seen: StateSeen) -> Iterator[tuple[str, _Owner]]:
    """Yield each owner of parts, with the name that the worker gave it."""
    # A worker numbers owners by the order in which they were made, which differs between attempts:
    # an optimizer of an earlier phase, or a model that was tried out, shifts the numbers. So an
    # owner is known by its kind and structure, and among equals by its place and their count.
    found = {owner_of(part.name): part.structure for part in seen.components if part.structure}
    kinds = {name: (_base(name), structure) for name, structure in found.items()}
    count, met = Counter(kinds.values()), Counter[tuple[str, str]]()
    for name, kind in kinds.items():
        yield name, (seen.rank, *kind, met[kind], count[kind])
        met[kind] += 1


def _base(owner: str) -> str:
    match = _NUMBERED.fullmatch(owner)
    return owner if match is None else match[1]


def _renamed(part: Component, names: Mapping[str, str]) -> Component:
    if not part.structure:
        return part
    owner = owner_of(part.name)
    name = names.get(owner, owner) + part.name.removeprefix(owner)
    return part if name == part.name else msgspec.structs.replace(part, name=name)


def is_rng(name: str) -> bool:
    """Return whether a component is a generator of random numbers."""
    return name == "rng" or name.startswith("rng.")


def holds_nothing(part: Component | None) -> bool:
    """Return whether a component is missing, or there and empty."""
    return part is None or not part.digest or part.count == 0


def is_pending(part: Component | None) -> bool:
    """Return whether a component was not made yet, so that its state is unknown."""
    return part is not None and part.pending


def counterparts(
    ours: StateSeen, due: StateSeen | None
) -> Iterator[tuple[Component | None, Component]]:
    """Yield the baseline's parts at a place, each with ours, unless they prove nothing."""
    mine = parts_of(ours)
    for part in () if due is None else due.components:
        own = mine.get(part.name)
        if not (is_pending(part) or is_pending(own) or is_elsewhere(part, mine)):
            yield own, part


def agree(
    ours: Component | None,
    due: Component | None,
    allowance: Allowed,
    place: StatePlace | None = None,
) -> bool:
    """Return whether a component is the baseline's: to the last bit, or in size nearly."""
    if holds_nothing(ours) or holds_nothing(due):
        return holds_nothing(ours) and holds_nothing(due)
    assert ours is not None
    assert due is not None
    if ours.digest == due.digest:
        return True
    # Within a tolerance digests say nothing, and the size must do: the norm of tensors. What has no
    # size, such as a generator, is not equal then, and callers leave it out.
    if allowance.is_exact or not isinstance(ours.size, float) or not isinstance(due.size, float):
        return not allowance.is_exact and ours.size == due.size
    return allowance.allows_size(due.name, place, ours.size, due.size)


def differing(ours: StateSeen, due: StateSeen, allowance: Allowed) -> Iterator[str]:
    """Yield the components of the baseline's state that differ in ours."""
    for mine, part in counterparts(ours, due):
        if not agree(mine, part, allowance, place_of(due)):
            yield part.name
