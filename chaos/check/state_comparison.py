"""Every part of the state in surviving work, compared with the baseline's at its place.

`state_at_resume` judges the state at the entry of a resumed attempt; this module judges what
follows. Random numbers are left out: a generator that nothing draws from may differ for good, and
where one matters, losses show it (`state`, `rank-randomness`).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chaos.check.analysis import RunAnalysis
from chaos.check.compare import Tally, compare
from chaos.check.state_snapshots import (
    MOMENTS,
    StateSnapshots,
    counterparts,
    holds_nothing,
    is_rng,
    place_of,
)
from chaos.model.event import Component, StateSeen
from chaos.model.events.state import GROUPS, group_of
from chaos.model.places import RankName, StatePlace


@dataclass(frozen=True, slots=True)
class PartPair:
    """One part of one rank's state, and the baseline's at its place."""

    #: its event
    number: int
    at: StatePlace
    ours: Component
    due: Component

    @property
    def name(self) -> RankName:
        """The rank and the part; it repeats itself on a rank, or does not."""
        return RankName(self.at.rank, self.due.name)

    @property
    def order(self) -> tuple[Any, ...]:
        """Its place in training, then its distance from the cause: the first has the least."""
        rank, epoch, step, moment = self.at
        group = GROUPS.index(group_of(self.due.name))
        return epoch, step, MOMENTS.index(moment), group, self.due.name, rank


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

    def of(self, groups: Collection[str]) -> "StateComparison":
        """Return the comparison of some groups; all of it where none of them was compared."""
        kept = frozenset(name for name in self.names if group_of(name) in groups)
        if not kept:
            return self
        return replace(
            self,
            differing=[pair for pair in self.differing if pair.due.name in kept],
            unproven=self.unproven & kept,
            missing=frozenset(name for name in self.missing if group_of(name) in groups),
        )

    @property
    def first(self) -> Sequence[PartPair]:
        """The part that differs first, on all ranks where it does there; empty without one."""
        if not self.differing:
            return ()
        first = min(self.differing, key=lambda differing: differing.order)
        at = (*first.at[1:], first.due.name)
        return [a for a in self.differing if (*a.at[1:], a.due.name) == at]


def states_of(analysis: RunAnalysis) -> StateComparison | None:
    """Compare the state in surviving work with the baseline's; None where it need not be equal.

    The control is the state before the fault, and in further clean runs.
    """
    if analysis.reference is None or not analysis.allowance.is_exact:
        return None
    reference, lineage = analysis.reference.snapshots, analysis.run.lineage
    before = [seen for number, seen in analysis.run.snapshots.all if number < analysis.began]
    others = (seen for tables in analysis.repeats for _, seen in tables.snapshots.all)
    control = Tally.of(_control([*before, *others], reference), _same)
    out = analysis.unstable | {pair.due.name for pair in control.differing}
    pairs, missing = list[PartPair](), set[str]()
    for number, seen in analysis.run.snapshots.all:
        if seen.attempt in analysis.resized or not lineage.survives(seen):
            continue
        for ours, due in counterparts(seen, reference.by_place.get(place_of(seen))):
            if is_rng(due.name) or due.name in out:
                continue
            if ours is None:
                missing.add(due.name)
            else:
                pairs.append(PartPair(number, place_of(seen), ours, due))
    found = compare(pairs, _same, control=control)
    return StateComparison(
        compared=found.compared,
        names=frozenset(pair.due.name for pair in pairs),
        differing=found.proven.differing,
        unproven=frozenset(pair.due.name for pair in pairs if pair.name in found.unproven),
        missing=frozenset(missing),
    )


def _control(clean: Iterable[StateSeen], reference: StateSnapshots) -> Iterator[PartPair]:
    """Yield the parts of clean runs; one that never moved in the baseline proves nothing yet."""
    moving = _moving(reference)
    for seen in clean:
        first = reference.fresh(seen.rank)
        for ours, due in counterparts(seen, reference.by_place.get(place_of(seen))):
            if ours is None:
                continue
            pair = PartPair(0, place_of(seen), ours, due)
            # Equal parts prove that a part repeats itself only once it has moved: before the first
            # step every part is equal to the baseline's, whether it is random or not. A difference
            # is proof at any time.
            if not _same(pair) or pair.name not in moving or due != first.get(due.name):
                yield pair


def _moving(reference: StateSnapshots) -> frozenset[RankName]:
    """Return the parts that change over the places of the baseline."""
    first: dict[RankName, str] = {}
    found = set()
    for _, seen in reference.all:
        for part in seen.components:
            name = RankName(seen.rank, part.name)
            if first.setdefault(name, part.digest) != part.digest:
                found.add(name)
    return frozenset(found)


def _same(pair: PartPair) -> bool:
    if holds_nothing(pair.ours) or holds_nothing(pair.due):
        return holds_nothing(pair.ours) and holds_nothing(pair.due)
    return pair.ours.digest == pair.due.digest
