"""Every part of the state in surviving work, compared with the baseline's at its place.

`state_at_resume` judges the state at the entry of a resumed attempt; this module judges what
follows. Random numbers are left out: a generator that nothing draws from may differ for good, and
where one matters, losses show it (`state`, `rank-randomness`).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chaos.check.analysis import RunAnalysis
from chaos.check.compare import PairTally, compare_pairs
from chaos.model.event import Component, StateSeen
from chaos.model.events.state import GROUPS, find_group
from chaos.model.places import RankName, StatePlace
from chaos.resume.state_snapshots import (
    MOMENTS,
    StateSnapshots,
    has_same_content,
    is_rng,
    locate_snapshot,
    pair_parts,
)


@dataclass(frozen=True, slots=True)
class PartPair:
    """One part of one rank's state, and the baseline's at its place."""

    #: its event
    number: int
    state_place: StatePlace
    actual: Component
    expected: Component

    @property
    def name(self) -> RankName:
        """The rank and the part; it repeats itself on a rank, or does not."""
        return RankName(self.state_place.rank, self.expected.name)

    @property
    def order(self) -> tuple[Any, ...]:
        """Its place in training, then its distance from the cause: the first has the least."""
        rank, epoch, step, moment = self.state_place
        group_index = GROUPS.index(find_group(self.expected.name))
        return epoch, step, MOMENTS.index(moment), group_index, self.expected.name, rank


@dataclass(frozen=True)
class StateComparison:
    """The parts that differ from the baseline's where they should not."""

    compared: int
    #: all that were compared
    names: frozenset[str]
    #: the parts that differ, and are known to repeat
    differing: Sequence[PartPair]
    #: those that differ, and nothing shows whether they repeat
    unproven: frozenset[str]
    #: those that are in the baseline at places where the run has them not
    missing: frozenset[str]

    def select_groups(self, groups: Collection[str]) -> "StateComparison":
        """Return the comparison of some groups; all of it where none of them was compared."""
        selected_names = frozenset(name for name in self.names if find_group(name) in groups)
        if not selected_names:
            return self
        return replace(
            self,
            differing=[pair for pair in self.differing if pair.expected.name in selected_names],
            unproven=self.unproven & selected_names,
            missing=frozenset(name for name in self.missing if find_group(name) in groups),
        )

    @property
    def earliest_differences(self) -> Sequence[PartPair]:
        """The part that differs first, on all ranks where it does there; empty without one."""
        if not self.differing:
            return ()
        first_pair = min(self.differing, key=lambda pair: pair.order)
        first_key = (*first_pair.state_place[1:], first_pair.expected.name)
        return [a for a in self.differing if (*a.state_place[1:], a.expected.name) == first_key]


def compare_states(analysis: RunAnalysis) -> StateComparison | None:
    """Compare the state in surviving work with the baseline's; None where it need not be equal.

    The control is the state before the fault, and in further clean runs.
    """
    if analysis.reference is None or not analysis.allowance.is_exact:
        return None
    reference, lineage = analysis.reference.snapshots, analysis.run.lineage
    early_snapshots = [
        snapshot
        for number, snapshot in analysis.run.snapshots.numbered_snapshots
        if number < analysis.fault_start
    ]
    repeat_snapshots = (
        snapshot
        for tables in analysis.repeats
        for _, snapshot in tables.snapshots.numbered_snapshots
    )
    control = PairTally.from_pairs(
        _build_control([*early_snapshots, *repeat_snapshots], reference), _is_same
    )
    excluded_names = analysis.unstable_components | {
        pair.expected.name for pair in control.differing_pairs
    }
    pairs, missing = list[PartPair](), set[str]()
    for number, snapshot in analysis.run.snapshots.numbered_snapshots:
        if snapshot.attempt in analysis.resized_attempts or not lineage.is_surviving(snapshot):
            continue
        for actual_part, expected_part in pair_parts(
            snapshot, reference.latest_snapshots.get(locate_snapshot(snapshot))
        ):
            if is_rng(expected_part.name) or expected_part.name in excluded_names:
                continue
            if actual_part is None:
                missing.add(expected_part.name)
            else:
                pairs.append(
                    PartPair(number, locate_snapshot(snapshot), actual_part, expected_part)
                )
    comparison = compare_pairs(pairs, _is_same, control=control)
    return StateComparison(
        compared=comparison.compared_count,
        names=frozenset(pair.expected.name for pair in pairs),
        differing=comparison.proven.differing_pairs,
        unproven=frozenset(
            pair.expected.name for pair in pairs if pair.name in comparison.unproven_names
        ),
        missing=frozenset(missing),
    )


def _build_control(snapshots: Iterable[StateSeen], reference: StateSnapshots) -> Iterator[PartPair]:
    """Yield the parts of clean runs; one that never moved in the baseline proves nothing yet."""
    moving_parts = _find_moving_parts(reference)
    for snapshot in snapshots:
        initial_parts = reference.find_initial_parts(snapshot.rank)
        for actual_part, expected_part in pair_parts(
            snapshot, reference.latest_snapshots.get(locate_snapshot(snapshot))
        ):
            if actual_part is None:
                continue
            pair = PartPair(0, locate_snapshot(snapshot), actual_part, expected_part)
            # Equal parts prove that a part repeats itself only once it has moved: before the first
            # step every part is equal to the baseline's, whether it is random or not. A difference
            # is proof at any time.
            if (
                not _is_same(pair)
                or pair.name not in moving_parts
                or expected_part != initial_parts.get(expected_part.name)
            ):
                yield pair


def _find_moving_parts(reference: StateSnapshots) -> frozenset[RankName]:
    """Return the parts that change over the places of the baseline."""
    first_digests: dict[RankName, str] = {}
    moving_parts = set()
    for _, snapshot in reference.numbered_snapshots:
        for part in snapshot.components:
            name = RankName(snapshot.rank, part.name)
            if first_digests.setdefault(name, part.digest) != part.digest:
                moving_parts.add(name)
    return frozenset(moving_parts)


def _is_same(pair: PartPair) -> bool:
    return has_same_content(pair.actual, pair.expected)
