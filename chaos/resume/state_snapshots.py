"""The state snapshots of one history, by place.

A worker numbers parts in the order of the moment: `model`, `model.1`, `optimizer.1.lr`. Another
attempt may have an optimizer more, or less. So parts that carry the structure of their owner are
renamed here: the same name stands for the same structure, in a run as in its baseline. Where two
owners have the same structure, their names also depend on the number of such owners: with another
number, it is not known which is which.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, sqrt
from typing import Literal, Protocol, TypeAlias

import msgspec

from chaos.model.event import Component, StateSeen
from chaos.model.history import History
from chaos.model.places import START, AttemptRank, RankEpoch, StatePlace

MOMENTS = ("entered", "step", "left")  # in the order of training
# A rank; the kind of owner; its structure; its index among those that have it; their number.
_Owner: TypeAlias = tuple[int, str, str, int, int]
PartStanding: TypeAlias = Literal["restored", "reset", "not restored", "different"]
#: of a part: its owner, and its name within that
PartKey: TypeAlias = tuple[object, ...]
_NUMBERED = re.compile(r"(model\.rest|model\.buffers|model|optimizer|schedule)(\.\d+)?(\..*)?")


class StateTolerance(Protocol):
    """The part of a plan's tolerance that is needed to compare states."""

    @property
    def is_exact(self) -> bool:
        """Whether everything must be equal to the last bit."""

    def allows_size(
        self, name: str, state_place: StatePlace | None, run_size: float, baseline_size: float
    ) -> bool:
        """Return whether the size of a part of the state is within the tolerance."""


@dataclass(frozen=True)
class StateSnapshots:
    """The snapshots of one history, each with its number."""

    history: History
    #: the snapshots after which parts are named
    naming_source: "StateSnapshots | None" = None

    @cached_property
    def numbered_snapshots(self) -> tuple[tuple[int, StateSeen], ...]:
        return tuple(
            (number, self._unify_names(snapshot))
            for number, snapshot in self.history.select_events(StateSeen)
        )

    @cached_property
    def owner_names(self) -> dict[_Owner, str]:
        """The name of each owner of parts that was seen so far."""
        if self.naming_source is None:
            return {}
        assert (
            self.naming_source.numbered_snapshots is not None
        )  # its owners are named as its snapshots are read
        return dict(self.naming_source.owner_names)

    def _unify_names(self, snapshot: StateSeen) -> StateSeen:
        new_names = {
            original_name: self._choose_name(owner, original_name)
            for original_name, owner in find_owners(snapshot)
        }
        if all(original_name == name for original_name, name in new_names.items()):
            return snapshot
        parts = tuple(_rename_part(part, new_names) for part in snapshot.components)
        return msgspec.structs.replace(snapshot, components=parts)

    def _choose_name(self, owner: _Owner, original_name: str) -> str:
        name = self.owner_names.get(owner)
        if name is None:
            rank, base, *_ = owner
            taken_names = {
                name for other_owner, name in self.owner_names.items() if other_owner[0] == rank
            }
            candidates = (base, *(f"{base}.{index}" for index in range(1, len(taken_names) + 1)))
            free_names = (name for name in candidates if name not in taken_names)
            name = self.owner_names[owner] = (
                original_name if original_name not in taken_names else next(free_names)
            )
        return name

    @cached_property
    def latest_snapshots(self) -> Mapping[StatePlace, StateSeen]:
        """The last snapshot at each place, of any attempt."""
        return {
            state_place: snapshots[-1] for state_place, snapshots in self.snapshots_by_place.items()
        }

    @cached_property
    def snapshots_by_place(self) -> Mapping[StatePlace, Sequence[StateSeen]]:
        """The snapshots of all attempts at each place, in order."""
        groups: dict[StatePlace, list[StateSeen]] = {}
        for _, snapshot in self.numbered_snapshots:
            groups.setdefault(locate_snapshot(snapshot), []).append(snapshot)
        return groups

    @cached_property
    def entries(self) -> Mapping[AttemptRank, tuple[int, StateSeen]]:
        """The first entry into training of each rank of each attempt."""
        first_entries: dict[AttemptRank, tuple[int, StateSeen]] = {}
        for number, snapshot in self.numbered_snapshots:
            if snapshot.moment == "entered":
                first_entries.setdefault(
                    AttemptRank(snapshot.attempt, snapshot.rank), (number, snapshot)
                )
        return first_entries

    @cached_property
    def exit_snapshots(self) -> Mapping[RankEpoch, StateSeen]:
        """The state in which each rank left an epoch: the last attempt's."""
        return {
            RankEpoch(s.rank, s.epoch): s for _, s in self.numbered_snapshots if s.moment == "left"
        }

    @cached_property
    def part_names(self) -> frozenset[str]:
        """The name of every component that was ever seen."""
        return frozenset(
            part.name for _, snapshot in self.numbered_snapshots for part in snapshot.components
        )

    def combine_place_parts(self, epoch: int, step: int, moment: str) -> dict[str, Component]:
        """Return the parts of all ranks together at a place, of any attempt (`combine_parts`)."""
        ranks = {rank for _, rank in self.entries}
        snapshots = (
            self.latest_snapshots.get(StatePlace(rank, epoch, step, moment)) for rank in ranks
        )
        return combine_parts([snapshot for snapshot in snapshots if snapshot is not None])

    def combine_entry_parts(self, attempt: int) -> dict[str, Component]:
        """Return the parts of all ranks together as an attempt began to train."""
        return combine_parts(
            [
                snapshot
                for (entry_attempt, _), (_, snapshot) in self.entries.items()
                if entry_attempt == attempt
            ]
        )

    def combine_exit_parts(self, epoch: int) -> tuple[int, dict[str, Component]]:
        """Return the last attempt that left an epoch, -1 without one, and its ranks' parts."""
        last_attempt = max(
            (
                s.attempt
                for (_, exit_epoch), s in self.exit_snapshots.items()
                if exit_epoch == epoch
            ),
            default=-1,
        )
        last_snapshots = [
            s
            for (_, exit_epoch), s in self.exit_snapshots.items()
            if exit_epoch == epoch and s.attempt == last_attempt
        ]
        return last_attempt, combine_parts(last_snapshots)

    def find_initial_parts(self, rank: int) -> Mapping[str, Component]:
        """Return the state with which a rank begins training from scratch."""
        first_entry = self.entries.get(AttemptRank(0, rank))
        if first_entry is None or (first_entry[1].epoch, first_entry[1].step) != START:
            return {}
        return index_parts(first_entry[1])


def locate_snapshot(snapshot: StateSeen) -> StatePlace:
    """Return the place and the moment of a snapshot."""
    return StatePlace(snapshot.rank, snapshot.epoch, snapshot.step, snapshot.moment)


def index_parts(snapshot: StateSeen | None) -> dict[str, Component]:
    """Return a state's components by name."""
    return {} if snapshot is None else {part.name: part for part in snapshot.components}


def combine_parts(snapshots: Sequence[StateSeen]) -> dict[str, Component]:
    """Return the parts that ranks have together, whatever their number.

    A sharded part is the sum of its shares, if these are the whole. Another part is that of every
    rank that has it, if it is the same on all. A rank's own is in neither case.
    """
    names = dict.fromkeys(part.name for snapshot in snapshots for part in snapshot.components)
    parts_by_rank = [index_parts(snapshot) for snapshot in snapshots]
    combined_parts = (
        _combine_shares([parts[name] for parts in parts_by_rank if name in parts]) for name in names
    )
    return {part.name: part for part in combined_parts if part is not None}


def _combine_shares(parts: Sequence[Component]) -> Component | None:
    # Shares add up to the whole only if each element is held once: ranks without a common mesh hold
    # more, or less, which the number of elements shows. Nothing is known of the whole then.
    first_part = parts[0]
    if first_part.share is None:
        return first_part if all(part.digest == first_part.digest for part in parts) else None
    shares = [part.share for part in parts if part.share is not None]
    if any(share.whole_elements != sum(s.elements for s in shares) for share in shares):
        return None
    digest_sum = sum(int(share.sum, 16) for share in shares) % 2**64
    norm = sqrt(sum(float(share.squares) for share in shares))
    return msgspec.structs.replace(
        first_part, digest=f"{digest_sum:016x}", size=norm if isfinite(norm) else str(norm)
    )


def parse_owner(name: str) -> str:
    """Return the owner of a part, by its name: `optimizer.1` of `optimizer.1.lr`."""
    match = _NUMBERED.fullmatch(name)
    return name if match is None else match[1] + (match[2] or "")


def lacks_owner(part: Component, other_parts: Mapping[str, Component]) -> bool:
    """Return whether the others lack a part's owner altogether: then it cannot be lost."""
    owner = parse_owner(part.name)
    return bool(part.structure) and all(parse_owner(name) != owner for name in other_parts)


def find_owners(snapshot: StateSeen) -> Iterator[tuple[str, _Owner]]:
    """Yield each owner of parts, with the name that the worker gave it."""
    # A worker numbers owners by the order in which they were made, which differs between attempts:
    # an optimizer of an earlier phase, or a model that was tried out, shifts the numbers. So an
    # owner is known by its kind and structure, and among equals by its place and their count.
    structures = {
        parse_owner(part.name): part.structure for part in snapshot.components if part.structure
    }
    kinds = {name: (_parse_base(name), structure) for name, structure in structures.items()}
    total_counts, counts_so_far = Counter(kinds.values()), Counter[tuple[str, str]]()
    for name, kind in kinds.items():
        yield name, (snapshot.rank, *kind, counts_so_far[kind], total_counts[kind])
        counts_so_far[kind] += 1


def key_parts(components: Iterable[Component]) -> Mapping[PartKey, Component]:
    """Return parts by a key that another start has as well, whatever numbers their names have."""
    snapshot = StateSeen(
        attempt=0, rank=0, epoch=0, step=0, moment="entered", components=tuple(components)
    )
    owners = dict(find_owners(snapshot))

    def build_key(part: Component) -> PartKey:
        owner = parse_owner(part.name)
        if not part.structure or owner not in owners:
            return (part.name,)
        return (*owners[owner], part.name.removeprefix(owner))

    return {build_key(part): part for part in snapshot.components}


def has_owner(key: PartKey, other_parts: Mapping[PartKey, Component]) -> bool:
    """Return whether the others have a part's owner: else the part cannot be lost."""
    return len(key) == 1 or any(other_key[:-1] == key[:-1] for other_key in other_parts)


def _parse_base(owner: str) -> str:
    match = _NUMBERED.fullmatch(owner)
    return owner if match is None else match[1]


def _rename_part(part: Component, names: Mapping[str, str]) -> Component:
    if not part.structure:
        return part
    owner = parse_owner(part.name)
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


def pair_parts(
    run_snapshot: StateSeen, baseline_snapshot: StateSeen | None
) -> Iterator[tuple[Component | None, Component]]:
    """Yield the baseline's parts at a place, each with ours, unless they prove nothing."""
    run_parts = index_parts(run_snapshot)
    for part in () if baseline_snapshot is None else baseline_snapshot.components:
        run_part = run_parts.get(part.name)
        if not (is_pending(part) or is_pending(run_part) or lacks_owner(part, run_parts)):
            yield run_part, part


def has_same_content(actual_part: Component | None, expected_part: Component | None) -> bool:
    """Return whether two components are equal to the last bit; so are two that hold nothing."""
    if holds_nothing(actual_part) or holds_nothing(expected_part):
        return holds_nothing(actual_part) and holds_nothing(expected_part)
    assert actual_part is not None
    assert expected_part is not None
    return actual_part.digest == expected_part.digest


def find_equal_keys(
    actual_parts: Mapping[PartKey, Component], expected_parts: Mapping[PartKey, Component]
) -> set[PartKey]:
    """Return the keys of the expected parts that are there, with the same content."""
    return {
        key for key, part in expected_parts.items() if has_same_content(actual_parts.get(key), part)
    }


def are_parts_equal(
    actual_part: Component | None,
    expected_part: Component | None,
    allowance: StateTolerance | None = None,
    state_place: StatePlace | None = None,
) -> bool:
    """Return whether a component is the expected one: to the last bit, or in size nearly."""
    if has_same_content(actual_part, expected_part):
        return True
    if holds_nothing(actual_part) or holds_nothing(expected_part):
        return False
    assert actual_part is not None
    assert expected_part is not None
    if allowance is None or allowance.is_exact:
        return False
    # Within a tolerance digests say nothing, and the size must do: the norm of tensors. What has no
    # size, such as a generator, is not equal then, and callers leave it out.
    if not isinstance(actual_part.size, float) or not isinstance(expected_part.size, float):
        return actual_part.size == expected_part.size
    return allowance.allows_size(
        expected_part.name, state_place, actual_part.size, expected_part.size
    )


def judge_standing(
    actual_part: Component | None,
    expected_part: Component,
    initial_part: Component | None,
    allowance: StateTolerance | None = None,
    state_place: StatePlace | None = None,
) -> PartStanding:
    """Return what became of a part; `initial_part`: as training begins from scratch."""
    if are_parts_equal(actual_part, expected_part, allowance, state_place):
        return "restored"
    if actual_part is None or holds_nothing(actual_part):
        return "not restored"
    # A norm of zero is that of a part that was just made, such as a momentum before any step.
    if actual_part.size == 0.0 or (
        initial_part is not None and are_parts_equal(actual_part, initial_part, allowance)
    ):
        return "reset"
    return "different"


def find_differing_parts(
    run_snapshot: StateSeen,
    baseline_snapshot: StateSeen,
    allowance: StateTolerance | None = None,
) -> Iterator[str]:
    """Yield the components of the baseline's state that differ in ours."""
    for run_part, part in pair_parts(run_snapshot, baseline_snapshot):
        if not are_parts_equal(run_part, part, allowance, locate_snapshot(baseline_snapshot)):
            yield part.name
