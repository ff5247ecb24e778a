"""What came back of a job's state: one row per resumed attempt, rank and component.

The place to compare at is where a rank was about to make the first step of its
attempt: the baseline was there too. What differs from the baseline before the
first fault already does not repeat here. For that the run's own state at the
commit stands in, if it is of a kind that nothing touches between the two.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import msgspec

from chaos.check.leeway import Leeway
from chaos.check.restarts import Restart
from chaos.check.sightings import (
    Place,
    Sightings,
    agree,
    differing,
    holds_nothing,
    is_pending,
    is_rng,
    parts_of,
    place_of,
)
from chaos.model.diagnosis import GROUPS, Standing
from chaos.model.event import Component, StateSeen

_SETTINGS = ("lr", "weight_decay", "betas", "eps", "momentum", "dampening", "nesterov", "settings")
_ORDER: tuple[Standing, ...] = ("not restored", "reset", "different", "restored", "not compared")
_KEPT_TO_THE_ENTRY = ("model", "optimizer", "optimizer settings", "schedule")


@dataclass(frozen=True, slots=True)
class Row:
    """One component of one rank as it entered a resumed attempt, and what was due there.

    `copied_from`: another rank whose state it is, to the last bit.
    """

    attempt: int
    rank: int
    epoch: int
    step: int
    number: int
    component: str
    standing: Standing
    ours: Component | None
    due: Component | None
    copied_from: int | None = None

    @property
    def group(self) -> str:
        """The kind of state that it is part of."""
        return group_of(self.component)

    @property
    def is_broken(self) -> bool:
        """Whether it did not come back as it was."""
        return self.standing in ("reset", "not restored", "different")


@cache
def group_of(name: str) -> str:
    """Give the kind of state that a component is part of."""
    head, _, tail = name.partition(".")
    head = head.rstrip("0123456789[]_")
    if head == "optimizer":
        return "optimizer settings" if tail.rpartition(".")[2] in _SETTINGS else "optimizer"
    known = {"scheduler": "schedule", "ema": "averaged model", "averaged": "averaged model"}
    group = known.get(head, head)
    return group if group in GROUPS else "declared"


def severity(row: Row) -> tuple[int, int, str, int]:
    """Order rows by how near they are to the cause: what is gone first, in the table's order."""
    return _ORDER.index(row.standing), GROUPS.index(row.group), row.component, row.rank


def unstable(run: Sightings, reference: Sightings, *, began: int, leeway: Leeway) -> frozenset[str]:
    """Name the components that differ from the baseline's before the first fault already."""
    found: set[str] = set()
    for number, seen in run.all:
        if number >= began:
            break
        due = reference.by_place.get(place_of(seen))
        if due is not None and due.components != seen.components:
            found.update(differing(seen, due, leeway))
    return frozenset(found)


@dataclass(frozen=True)
class Beside:
    """The two courses that rows are made of.

    `resized` attempts have other numbers of workers than the baseline, and
    those `descended` from one go on from its state, which the baseline
    never had: they are held against what was left at the commit.
    """

    run: Sightings
    reference: Sightings
    unstable: frozenset[str]
    leeway: Leeway
    resized: frozenset[int] = frozenset()
    descended: frozenset[int] = frozenset()

    def rows(self, restarts: Sequence[Restart]) -> tuple[Row, ...]:
        """Give the rows of all resumed attempts, the nearest to the cause first in each."""
        found: list[Row] = []
        for restart in restarts:
            found += sorted(self._of_attempt(restart), key=severity)
        return tuple(found)

    def _of_attempt(self, restart: Restart) -> Iterator[Row]:
        for rank in sorted(restart.attempt.starts):
            entry = self.run.entries.get((restart.attempt.index, rank))
            if entry is not None:
                yield from self._of_rank(*entry)

    def _of_rank(self, number: int, seen: StateSeen) -> Iterator[Row]:
        due = self._due(seen)
        if due is None:
            return
        ours, theirs, fresh = parts_of(seen), parts_of(due), self.run.fresh(seen.rank)
        own = self._own_before(seen)
        at = (seen.attempt, seen.rank, seen.epoch, seen.step, number)
        for name, baseline in theirs.items():
            mine, expected = ours.get(name), baseline
            if is_pending(mine) or is_pending(baseline):
                yield Row(*at, name, "not compared", mine, baseline)
                continue
            if name in self.unstable or seen.attempt in self.descended:
                if name not in own:
                    yield Row(*at, name, "not compared", mine, baseline)
                    continue
                expected = own[name]
            # Ranks of another number of workers see other batches, and draw as many numbers.
            if is_rng(name) and (not self.leeway.is_exact or seen.attempt in self.resized):
                yield Row(*at, name, "not compared", mine, baseline)
                continue
            standing = self._standing(mine, expected, fresh.get(name), place_of(due))
            row = Row(*at, name, standing, mine, expected)
            yield replace(row, copied_from=self._owner(row)) if row.is_broken else row

    def _due(self, seen: StateSeen) -> StateSeen | None:
        """Give the baseline's state at the place where a rank went on.

        Within an epoch that is the one after the step before. Only model and
        optimizer are the same there: schedules and averages move on after a
        step, and the next forward draws random numbers.
        """
        entered = self.reference.by_place.get(place_of(seen))
        if entered is not None or not seen.step:
            return entered
        after = self.reference.by_place.get((seen.rank, seen.epoch, seen.step, "step"))
        if after is None:
            return None
        kept = tuple(p for p in after.components if group_of(p.name) in ("model", "optimizer"))
        return msgspec.structs.replace(after, components=kept)

    def _standing(
        self, ours: Component | None, due: Component, fresh: Component | None, place: Place
    ) -> Standing:
        if agree(ours, due, self.leeway, place):
            return "restored"
        if ours is None or holds_nothing(ours):
            return "not restored"
        if ours.size == 0.0 or (fresh is not None and agree(ours, fresh, self.leeway)):
            return "reset"
        return "different"

    def _owner(self, row: Row) -> int | None:
        """Find the rank whose state this is in the baseline, at the same place."""
        if row.ours is None or not row.ours.digest:
            return None
        for rank in sorted({of for _, of in self.reference.entries} - {row.rank}):
            seen = self.reference.by_place.get((rank, row.epoch, row.step, "entered"))
            theirs = parts_of(seen).get(row.component)
            if theirs is not None and theirs.digest == row.ours.digest:
                return rank
        return None

    def _own_before(self, seen: StateSeen) -> Mapping[str, Component]:
        """Give what the run's own state was at the commit, where nothing happens in between.

        That nothing does is read from the baseline: there the two are equal.
        """
        key = (seen.rank, seen.epoch - 1)
        mine, theirs = self.run.left.get(key), self.reference.left.get(key)
        entered = parts_of(self.reference.by_place.get((seen.rank, seen.epoch, 0, "entered")))
        if seen.step or mine is None or theirs is None or mine.attempt >= seen.attempt:
            return {}
        kept = {p.name for p in theirs.components if entered.get(p.name) == p}
        return {
            p.name: p
            for p in mine.components
            if p.name in kept and group_of(p.name) in _KEPT_TO_THE_ENTRY
        }
