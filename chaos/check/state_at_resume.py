"""The state at each resume: one row per resumed attempt, rank and component.

It is compared at the place where a rank was about to make the first step of its attempt: the
baseline has a snapshot there too. A part that differs from the baseline already before the first
fault does not repeat. For such a part the run's own state at the commit is the measure, if the part
is of a kind that nothing changes in between. It is also the measure for tensors wherever numbers
need not repeat to the last bit: loading what was saved needs no determinism, and a norm within the
tolerance may be that of another state.
"""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from chaos.check.lineage import Lineage
from chaos.check.restarts import Restart
from chaos.check.state_snapshots import (
    Allowed,
    StateSnapshots,
    agree,
    differing,
    holds_nothing,
    is_elsewhere,
    is_pending,
    is_rng,
    parts_of,
    place_of,
)
from chaos.check.tolerance import EXACT, Allowance
from chaos.model.diagnosis import Standing
from chaos.model.event import Component, StateSeen
from chaos.model.events.state import GROUPS, group_of
from chaos.model.places import START, AttemptRank, Place, RankEpoch, StatePlace

_ORDER: tuple[Standing, ...] = ("not restored", "reset", "different", "restored", "not compared")
_KEPT_TO_THE_ENTRY = ("model", "optimizer", "optimizer settings", "schedule")
_TENSORS = ("model", "optimizer")
# The result of a run, and the state that the job declared. Other parts (an optimizer's) serve it:
# where they differ and the result does not, they had no effect.
SHIPPED = ("model", "buffers", "averaged model", "declared")
# bfloat16 keeps eight bits of a number, so the norm of a state that was saved in it is this near.
_ROUNDED = 2.0**-8


@dataclass(frozen=True, slots=True)
class Row:
    """One component of one rank as it entered a resumed attempt, and the component due there."""

    attempt: int
    rank: int
    epoch: int
    step: int
    number: int
    component: str
    standing: Standing
    ours: Component | None
    due: Component | None
    #: another rank whose state it is, to the last bit
    copied_from: int | None = None
    #: the run's own state at the commit was due
    of_own: bool = False
    #: it differs from that, but so little that it may have been saved in fewer bits
    rounded: bool = False
    #: it is what all ranks have together, and other ranks saved it
    is_resharded: bool = False
    #: of a model with parameters of other shapes, or another number of them
    is_restructured: bool = False

    @property
    def group(self) -> str:
        """The kind of its part of the state."""
        return group_of(self.component)

    @property
    def is_broken(self) -> bool:
        """Whether it did not come back as it was."""
        return self.standing in ("reset", "not restored", "different")


def severity(row: Row) -> tuple[int, int, str, int]:
    """Order rows by how near they are to the cause: missing parts first, in the table's order."""
    return _ORDER.index(row.standing), GROUPS.index(row.group), row.component, row.rank


def unstable(
    run: StateSnapshots, reference: StateSnapshots, *, began: int, allowance: Allowance
) -> frozenset[str]:
    """Return the components that differ from the baseline's already before the first fault."""
    found: set[str] = set()
    for number, seen in run.all:
        if number >= began:
            break
        due = reference.by_place.get(place_of(seen))
        if due is not None and due.components != seen.components:
            found.update(differing(seen, due, allowance))
    return frozenset(found)


@dataclass(frozen=True)
class _Sides:
    """The parts that are compared as a rank begins to train in an attempt."""

    #: where the baseline's was taken
    place: StatePlace
    ours: Mapping[str, Component]
    #: all parts of the rank there
    baseline: Mapping[str, Component]
    #: those that have a counterpart: with another number of workers, what all ranks have together
    #: (`whole_parts`)
    due: Mapping[str, Component]
    #: the run's own state at the commit
    own: Mapping[str, Component]
    #: that of a job that begins
    fresh: Mapping[str, Component]


@dataclass(frozen=True)
class Beside:
    """The state snapshots of the run and of its baseline, from which rows are made."""

    run: StateSnapshots
    reference: StateSnapshots
    unstable: frozenset[str]
    allowance: Allowance
    #: the attempts with other numbers of workers than the baseline
    resized: frozenset[int] = frozenset()
    #: those that continue from the state of a resized one, which the baseline never had: they are
    #: compared with the state at the commit
    descended: frozenset[int] = frozenset()

    def rows(self, restarts: Sequence[Restart]) -> tuple[Row, ...]:
        """Return the rows of all resumed attempts, the nearest to the cause first in each."""
        found: list[Row] = []
        for restart in restarts:
            keys = (AttemptRank(restart.attempt.index, rank) for rank in restart.attempt.starts)
            entries = [self.run.entries[key] for key in keys if key in self.run.entries]
            found += sorted((r for entry in entries for r in self._of_rank(*entry)), key=severity)
        return tuple(found)

    def _of_rank(self, number: int, seen: StateSeen) -> Iterator[Row]:
        # What a part is due to be, the first that applies:
        #
        #   nothing            it proves nothing there (`_is_out`), or its owner is not there at all
        #   another structure  a model of other shapes: the finding is the model, part by part there
        #                      is nothing to compare
        #   the run's own      the state that this run saved, where the baseline never had it, had
        #                      been left before, or is known within a tolerance alone
        #   the baseline's     at the same place
        #
        # Loading what was saved needs no determinism, so the run's own state is due to the last
        # bit where numbers may lie in a tolerance: a norm within it may be that of another epoch's
        # momentum.
        sides = self._sides(seen)
        is_resized = seen.attempt in self.resized
        at = (seen.attempt, seen.rank, seen.epoch, seen.step, number)
        for name, baseline in sides.baseline.items():
            mine, mine_before = sides.ours.get(name), sides.own.get(name)
            due = sides.due.get(name)
            # A part is not compared, or judged by the run's own state at the commit, or by the
            # baseline's at the same place.
            is_out = due is None or self._is_out(seen, mine, due, is_own=mine_before is not None)
            other = self._restructured(seen, sides) if name.startswith("model") else None
            if other is not None and is_elsewhere(baseline, sides.ours) and not is_out:
                yield Row(*at, "model", "different", other, baseline, is_restructured=True)
                continue
            if is_out or is_elsewhere(baseline, sides.ours):
                yield Row(*at, name, "not compared", mine, baseline)
                continue
            assert due is not None
            if mine_before is not None and self._goes_by_own(seen, mine_before, due):
                row = Row(*at, name, "restored", mine, mine_before, of_own=True)
                row = replace(row, is_resharded=is_resized and mine_before.share is not None)
                yield self._by_own(row, sides.fresh.get(name))
            else:
                place, fresh = sides.place, sides.fresh.get(name)
                standing = _standing(mine, due, fresh, self.allowance, place)
                is_resharded = is_resized and due.share is not None
                row = Row(*at, name, standing, mine, due, is_resharded=is_resharded)
                yield replace(row, copied_from=self._owner(row)) if row.is_broken else row

    def _restructured(self, seen: StateSeen, sides: "_Sides") -> Component | None:
        """Return the model of an attempt, if it is the only one here and there, and another."""
        if seen.attempt in self.resized | self.descended:
            return None
        here, there = (
            [part for name, part in parts.items() if _is_model(name)]
            for parts in (sides.ours, sides.baseline)
        )
        if len(here) != 1 or len(there) != 1 or here[0].structure == there[0].structure:
            return None
        return here[0]

    def _sides(self, seen: StateSeen) -> "_Sides":
        place, groups = self._place(seen)
        there = parts_of(self.reference.by_place.get(place))
        baseline = {n: part for n, part in there.items() if group_of(n) in groups}
        ours, own, fresh = parts_of(seen), self._own_before(seen), self.run.fresh(seen.rank)
        if seen.attempt not in self.resized:
            own = {**own, **self._own_there(seen)}
            return _Sides(place, ours, baseline, baseline, own, fresh)
        whole_there = self.reference.whole_at(*place[1:])
        due = {n: part for n, part in whole_there.items() if group_of(n) in groups}
        baseline = baseline or due  # of a rank that the baseline has not
        sharded = {name for name, part in baseline.items() if part.share is not None}
        for name in sharded & ours.keys():
            whole = self.run.whole_entry(seen.attempt).get(name)
            if whole is not None and (whole.share is not None or holds_nothing(whole)):
                ours[name] = whole
            else:  # of ranks without a common mesh, or not sharded any more
                due.pop(name, None)
        whole_fresh = self.run.whole_entry(0)
        fresh = {n: whole_fresh.get(n, p) if n in sharded else p for n, p in fresh.items()}
        return _Sides(place, ours, baseline, due, own, fresh)

    def _place(self, seen: StateSeen) -> tuple[StatePlace, Container[str]]:
        """Return where the baseline's state is due that a rank continued with, and of which groups.

        Within an epoch that is the state after the step before. Only model and optimizer are the
        same there: schedules and averages move on after a step, and the next forward draws random
        numbers.
        """
        place = place_of(seen)
        if not seen.step or place in self.reference.by_place:
            return place, GROUPS
        return place._replace(moment="step"), ("model", "optimizer")

    def _is_out(
        self, seen: StateSeen, mine: Component | None, due: Component, *, is_own: bool
    ) -> bool:
        """Return whether the value of a part proves nothing."""
        if is_pending(mine) or is_pending(due):
            return True
        # With another number of workers a rank has other batches, and draws other numbers.
        if is_rng(due.name) and (not self.allowance.is_exact or seen.attempt in self.resized):
            return True
        return not is_own and (due.name in self.unstable or seen.attempt in self.descended)

    def _goes_by_own(self, seen: StateSeen, own: Component, due: Component) -> bool:
        """Return whether a part is to be what the run itself had there, and not the baseline's.

        Where the run had left its baseline before, another attempt has to answer for that.
        """
        if own.name in self.unstable or seen.attempt in self.descended:
            return True
        has_left = self.allowance.is_exact and own.digest != due.digest
        return has_left or self._is_due_exactly(own)

    def _is_due_exactly(self, own: Component) -> bool:
        """Return whether a part is due to the last bit although numbers may lie in a tolerance.

        Tensors are, however many workers load them.
        """
        is_tensor = isinstance(own.size, float) and group_of(own.name) in _TENSORS
        return is_tensor and not self.allowance.is_exact

    def _by_own(self, row: Row, fresh: Component | None) -> Row:
        """Judge a part by the run's own state at the commit."""
        ours, own = row.ours, row.due
        assert own is not None
        if not self._is_due_exactly(own):
            place = StatePlace(row.rank, row.epoch, row.step, "entered")
            return replace(row, standing=_standing(ours, own, fresh, self.allowance, place))
        standing = _standing(ours, own, fresh, EXACT)
        # A state that the run had at another time is an old checkpoint, and no rounded one.
        if standing == "different" and _is_near(ours, own) and not self._was_seen_before(row):
            return replace(row, standing="not compared", rounded=True)
        return replace(row, standing=standing)

    def _was_seen_before(self, row: Row) -> bool:
        """Return whether the run itself, on any rank, had this state at another time."""
        assert row.ours is not None
        return any(
            part.name == row.component and part.digest == row.ours.digest
            for number, seen in self.run.all
            if number < row.number and seen.attempt < row.attempt
            for part in seen.components
        )

    def _owner(self, row: Row) -> int | None:
        """Return the rank whose state this is in the baseline, at the same place."""
        if row.ours is None or not row.ours.digest:
            return None
        for rank in sorted({of for _, of in self.reference.entries} - {row.rank}):
            seen = self.reference.by_place.get(StatePlace(rank, row.epoch, row.step, "entered"))
            theirs = parts_of(seen).get(row.component)
            if theirs is not None and theirs.digest == row.ours.digest:
                return rank
        return None

    def _own_there(self, seen: StateSeen) -> Mapping[str, Component]:
        """Return the state in which an earlier attempt came to the same place by training.

        Of several attempts that did, any may have made the save: one that had the same part counts.
        """
        found: dict[str, Component] = {}
        if not self.allowance.is_exact:
            return found
        mine = parts_of(seen)
        for other in self.run.every_at.get(place_of(seen), ()):
            if other.attempt >= seen.attempt:
                continue
            # An attempt that entered there did not come there by training: its state may itself be
            # the one that was loaded wrongly.
            _, entry = self.run.entries.get(AttemptRank(other.attempt, other.rank), (0, other))
            if Place(entry.epoch, entry.step) >= Place(other.epoch, other.step):
                continue
            for name, part in parts_of(other).items():
                is_found = (
                    name in found and name in mine and found[name].digest == mine[name].digest
                )
                if name not in self.unstable and not is_found:
                    found[name] = part
        return found

    def _own_before(self, seen: StateSeen) -> Mapping[str, Component]:
        """Return the run's own state at the commit, for parts that nothing changes in between.

        The baseline shows these parts: there the states at the commit and at the entry are equal.
        """
        # The state was looked at as a rank left an epoch, and is looked at next at the entry of a
        # later attempt. In between a right job may draw random numbers, move a schedule, or average
        # weights. Which parts it leaves alone there is read off the baseline, which goes through
        # the same stretch without a restart.
        before = seen.epoch - 1
        if seen.attempt in self.resized:
            last, mine = self.run.whole_left(before)
            _, theirs = self.reference.whole_left(before)
            entered = self.reference.whole_at(seen.epoch, 0, "entered")
        else:
            left = self.run.left.get(RankEpoch(seen.rank, before))
            last, mine = -1 if left is None else left.attempt, parts_of(left)
            theirs = parts_of(self.reference.left.get(RankEpoch(seen.rank, before)))
            due = self.reference.by_place.get(StatePlace(seen.rank, seen.epoch, 0, "entered"))
            entered = parts_of(due)
        # Within an epoch there is no such pair of looks; and a state that no earlier attempt left
        # is none that this one can have loaded.
        if seen.step or not 0 <= last < seen.attempt:
            return {}
        return {
            name: part
            for name, part in mine.items()
            if name in theirs
            and name in entered
            and entered[name].digest == theirs[name].digest
            and (part.share is None) == (theirs[name].share is None)
            and group_of(name) in _KEPT_TO_THE_ENTRY
        }


def _is_model(name: str) -> bool:
    """Return whether a part is the parameters of an optimizer, of whatever number."""
    return re.fullmatch(r"model(\.\d+)?", name) is not None


def _standing(
    ours: Component | None,
    due: Component,
    fresh: Component | None,
    allowance: Allowed,
    place: StatePlace | None = None,
) -> Standing:
    if agree(ours, due, allowance, place):
        return "restored"
    if ours is None or holds_nothing(ours):
        return "not restored"
    # A norm of zero is that of a part that was just made, such as a momentum before any step.
    if ours.size == 0.0 or (fresh is not None and agree(ours, fresh, allowance)):
        return "reset"
    return "different"


def _is_near(ours: Component | None, own: Component) -> bool:
    """Return whether a state may be the other one in fewer bits: that changes its norm a little."""
    # As near as bfloat16 rounds. A right job may save in fewer bits, and what it loads then has
    # neither the digest nor any state that the run ever had: in doubt, and no finding.
    if ours is None or not isinstance(ours.size, float) or not isinstance(own.size, float):
        return False
    return 0 < abs(ours.size - own.size) <= _ROUNDED * abs(own.size)


# -- from scratch ----------------------------------------------------------------------------------


def began_anew(
    restart: Restart, rows: Sequence[Row], run: StateSnapshots, reference: Lineage | None
) -> bool:
    """Return whether an attempt trained from scratch, by its state, or else by its losses.

    By state: the model has its first value, and no other part is restored but those that never
    changed. By losses: those of its first epoch are the baseline's of epoch 0, and not those of its
    own place. An attempt that was handed a checkpoint, and whose training is seen to begin at the
    beginning, did as well.
    """
    starts = restart.attempt.starts.values()
    if any(start.moved and start.place == START for start in starts):
        return True
    mine = [
        row for row in rows if row.attempt == restart.attempt.index and not is_rng(row.component)
    ]
    models = [row for row in mine if row.group == "model"]
    if models:
        return all(row.standing == "reset" for row in models) and all(
            _is_fresh(r, run) for r in mine
        )
    if reference is None or restart.attempt.place in (None, START):
        return False
    firsts = restart.attempt.first_steps
    return bool(firsts) and all(_repeats_epoch_0(restart, rank, reference) for rank in firsts)


def _is_fresh(row: Row, run: StateSnapshots) -> bool:
    if row.group in ("optimizer settings", "gradients") or row.standing == "not compared":
        return True
    if row.standing == "restored":
        return holds_nothing(row.due) or agree(
            run.fresh(row.rank).get(row.component), row.due, EXACT
        )
    return row.standing != "different"


def _repeats_epoch_0(restart: Restart, rank: int, reference: Lineage) -> bool:
    start = restart.attempt.starts.get(rank)
    if start is None:
        return False
    ours = restart.attempt.steps_of(rank, start.epoch).losses
    first, due = (reference.steps_of(rank, of).losses[: len(ours)] for of in (0, start.epoch))
    return bool(ours) and all(ours) and ours == first and ours != due
