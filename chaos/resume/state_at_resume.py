"""The state at each resume: one row per resumed attempt, rank and component.

It is compared at the place where a rank was about to make the first step of its attempt: the
baseline has a snapshot there too. A part that differs from the baseline already before the first
fault does not repeat. For such a part the run's own state at the commit is the measure, if the part
is of a kind that nothing changes in between. It is also the measure for tensors wherever numbers
need not repeat to the last bit: loading what was saved needs no determinism, and a norm within the
tolerance may be that of another state.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from chaos.model.diagnosis import Standing
from chaos.model.event import Component, StateSeen
from chaos.model.events.state import GROUPS, find_group
from chaos.model.places import START, AttemptRank, RankEpoch, StatePlace, TrainingPlace
from chaos.resume.attempt import Attempt
from chaos.resume.lineage import Lineage
from chaos.resume.state_snapshots import (
    StateSnapshots,
    StateTolerance,
    find_differing_parts,
    has_same_content,
    holds_nothing,
    index_parts,
    is_pending,
    is_rng,
    judge_standing,
    lacks_owner,
    locate_snapshot,
)

_ORDER: tuple[Standing, ...] = ("not restored", "reset", "different", "restored", "not compared")
_KEPT_TO_THE_ENTRY = ("model", "optimizer", "optimizer settings", "schedule")
_TENSORS = ("model", "optimizer")
# The result of a run, and the state that the job declared. Other parts (an optimizer's) serve it:
# where they differ and the result does not, they had no effect.
SHIPPED = ("model", "buffers", "averaged model", "declared")
# bfloat16 keeps eight bits of a number, so the norm of a state that was saved in it is this near.
_ROUNDED = 2.0**-8


@dataclass(frozen=True, slots=True)
class ResumeRow:
    """One component of one rank as it entered a resumed attempt, and the component due there."""

    attempt: int
    rank: int
    epoch: int
    step: int
    number: int
    component: str
    standing: Standing
    actual: Component | None
    expected: Component | None
    #: another rank whose state it is, to the last bit
    copied_from: int | None = None
    #: the run's own state at the commit was due
    expects_own_state: bool = False
    #: it differs from that, but so little that it may have been saved in fewer bits
    is_rounded: bool = False
    #: it is what all ranks have together, and other ranks saved it
    is_resharded: bool = False
    #: of a model with parameters of other shapes, or another number of them
    is_restructured: bool = False

    @property
    def group(self) -> str:
        """The kind of its part of the state."""
        return find_group(self.component)

    @property
    def is_broken(self) -> bool:
        """Whether it did not come back as it was."""
        return self.standing in ("reset", "not restored", "different")


def compute_sort_key(row: ResumeRow) -> tuple[int, int, str, int]:
    """Order rows by how near they are to the cause: missing parts first, in the table's order."""
    return _ORDER.index(row.standing), GROUPS.index(row.group), row.component, row.rank


def find_unstable_parts(
    run: StateSnapshots,
    reference: StateSnapshots,
    *,
    first_fault: int,
    allowance: StateTolerance | None = None,
) -> frozenset[str]:
    """Return the components that differ from the baseline's already before the first fault."""
    unstable_names: set[str] = set()
    for number, snapshot in run.numbered_snapshots:
        if number >= first_fault:
            break
        baseline_snapshot = reference.latest_snapshots.get(locate_snapshot(snapshot))
        if baseline_snapshot is not None and baseline_snapshot.components != snapshot.components:
            unstable_names.update(find_differing_parts(snapshot, baseline_snapshot, allowance))
    return frozenset(unstable_names)


@dataclass(frozen=True)
class _ResumeParts:
    """The parts that are compared as a rank begins to train in an attempt."""

    #: where the baseline's was taken
    state_place: StatePlace
    actual: Mapping[str, Component]
    #: all parts of the rank there
    baseline: Mapping[str, Component]
    #: those that have a counterpart: with another number of workers, what all ranks have together
    #: (`combine_parts`)
    expected: Mapping[str, Component]
    #: the run's own state at the commit
    committed: Mapping[str, Component]
    #: that of a job that begins
    initial: Mapping[str, Component]


@dataclass(frozen=True)
class ResumeComparison:
    """The state snapshots of the run and of its baseline, from which rows are made."""

    run: StateSnapshots
    reference: StateSnapshots
    unstable: frozenset[str]
    allowance: StateTolerance
    #: the attempts with other numbers of workers than the baseline
    resized: frozenset[int] = frozenset()
    #: those that continue from the state of a resized one, which the baseline never had: they are
    #: compared with the state at the commit
    resize_descendants: frozenset[int] = frozenset()

    def build_rows(self, resumed_attempts: Iterable[Attempt]) -> tuple[ResumeRow, ...]:
        """Return the rows of all resumed attempts, the nearest to the cause first in each."""
        rows: list[ResumeRow] = []
        for attempt in resumed_attempts:
            keys = (AttemptRank(attempt.index, rank) for rank in attempt.starts)
            entries = [self.run.entries[key] for key in keys if key in self.run.entries]
            rows += sorted(
                (r for entry in entries for r in self._compare_rank(*entry)), key=compute_sort_key
            )
        return tuple(rows)

    def _compare_rank(self, number: int, snapshot: StateSeen) -> Iterator[ResumeRow]:
        # What a part is due to be, the first that applies:
        #
        #   nothing            it proves nothing there (`_is_excluded`), or its owner is not there
        #   another structure  a model of other shapes: the finding is the model, part by part there
        #                      is nothing to compare
        #   the run's own      the state that this run saved, where the baseline never had it, had
        #                      been left before, or is known within a tolerance alone
        #   the baseline's     at the same place
        #
        # Loading what was saved needs no determinism, so the run's own state is due to the last
        # bit where numbers may lie in a tolerance: a norm within it may be that of another epoch's
        # momentum.
        resume_parts = self._collect_parts(snapshot)
        is_resized = snapshot.attempt in self.resized
        row_place = (snapshot.attempt, snapshot.rank, snapshot.epoch, snapshot.step, number)
        for name, baseline_part in resume_parts.baseline.items():
            actual_part, committed_part = (
                resume_parts.actual.get(name),
                resume_parts.committed.get(name),
            )
            expected_part = resume_parts.expected.get(name)
            # A part is not compared, or judged by the run's own state at the commit, or by the
            # baseline's at the same place.
            is_excluded = expected_part is None or self._is_excluded(
                snapshot, actual_part, expected_part, has_committed=committed_part is not None
            )
            restructured_model = (
                self._find_restructured_model(snapshot, resume_parts)
                if name.startswith("model")
                else None
            )
            if (
                restructured_model is not None
                and lacks_owner(baseline_part, resume_parts.actual)
                and not is_excluded
            ):
                yield ResumeRow(
                    *row_place,
                    "model",
                    "different",
                    restructured_model,
                    baseline_part,
                    is_restructured=True,
                )
                continue
            if is_excluded or lacks_owner(baseline_part, resume_parts.actual):
                yield ResumeRow(*row_place, name, "not compared", actual_part, baseline_part)
                continue
            assert expected_part is not None
            if committed_part is not None and self._expects_own_state(
                snapshot, committed_part, expected_part
            ):
                row = ResumeRow(
                    *row_place,
                    name,
                    "restored",
                    actual_part,
                    committed_part,
                    expects_own_state=True,
                )
                row = replace(row, is_resharded=is_resized and committed_part.share is not None)
                yield self._judge_by_commit(row, resume_parts.initial.get(name))
            else:
                state_place, initial_part = resume_parts.state_place, resume_parts.initial.get(name)
                standing = judge_standing(
                    actual_part, expected_part, initial_part, self.allowance, state_place
                )
                is_resharded = is_resized and expected_part.share is not None
                row = ResumeRow(
                    *row_place,
                    name,
                    standing,
                    actual_part,
                    expected_part,
                    is_resharded=is_resharded,
                )
                yield replace(row, copied_from=self._find_owner(row)) if row.is_broken else row

    def _find_restructured_model(
        self, snapshot: StateSeen, resume_parts: "_ResumeParts"
    ) -> Component | None:
        """Return the model of an attempt, if it is the only one here and there, and another."""
        if snapshot.attempt in self.resized | self.resize_descendants:
            return None
        run_models, baseline_models = (
            [part for name, part in parts.items() if _is_model(name)]
            for parts in (resume_parts.actual, resume_parts.baseline)
        )
        if (
            len(run_models) != 1
            or len(baseline_models) != 1
            or run_models[0].structure == baseline_models[0].structure
        ):
            return None
        return run_models[0]

    def _collect_parts(self, snapshot: StateSeen) -> "_ResumeParts":
        state_place, groups = self._find_baseline_place(snapshot)
        place_parts = index_parts(self.reference.latest_snapshots.get(state_place))
        baseline_parts = {n: part for n, part in place_parts.items() if find_group(n) in groups}
        actual_parts, committed_parts, initial_parts = (
            index_parts(snapshot),
            self._find_committed_parts(snapshot),
            self.run.find_initial_parts(snapshot.rank),
        )
        if snapshot.attempt not in self.resized:
            committed_parts = {**committed_parts, **self._find_trained_parts(snapshot)}
            return _ResumeParts(
                state_place,
                actual_parts,
                baseline_parts,
                baseline_parts,
                committed_parts,
                initial_parts,
            )
        combined_parts = self.reference.combine_place_parts(*state_place[1:])
        expected_parts = {n: part for n, part in combined_parts.items() if find_group(n) in groups}
        baseline_parts = baseline_parts or expected_parts  # of a rank that the baseline has not
        sharded_names = {name for name, part in baseline_parts.items() if part.share is not None}
        for name in sharded_names & actual_parts.keys():
            combined_part = self.run.combine_entry_parts(snapshot.attempt).get(name)
            if combined_part is not None and (
                combined_part.share is not None or holds_nothing(combined_part)
            ):
                actual_parts[name] = combined_part
            else:  # of ranks without a common mesh, or not sharded any more
                expected_parts.pop(name, None)
        combined_initial_parts = self.run.combine_entry_parts(0)
        initial_parts = {
            n: combined_initial_parts.get(n, p) if n in sharded_names else p
            for n, p in initial_parts.items()
        }
        return _ResumeParts(
            state_place,
            actual_parts,
            baseline_parts,
            expected_parts,
            committed_parts,
            initial_parts,
        )

    def _find_baseline_place(self, snapshot: StateSeen) -> tuple[StatePlace, Container[str]]:
        """Return where the baseline's state is due that a rank continued with, and of which groups.

        Within an epoch that is the state after the step before. Only model and optimizer are the
        same there: schedules and averages move on after a step, and the next forward draws random
        numbers.
        """
        state_place = locate_snapshot(snapshot)
        if not snapshot.step or state_place in self.reference.latest_snapshots:
            return state_place, GROUPS
        return state_place._replace(moment="step"), ("model", "optimizer")

    def _is_excluded(
        self,
        snapshot: StateSeen,
        actual_part: Component | None,
        expected_part: Component,
        *,
        has_committed: bool,
    ) -> bool:
        """Return whether the value of a part proves nothing."""
        if is_pending(actual_part) or is_pending(expected_part):
            return True
        # With another number of workers a rank has other batches, and draws other numbers.
        if is_rng(expected_part.name) and (
            not self.allowance.is_exact or snapshot.attempt in self.resized
        ):
            return True
        return not has_committed and (
            expected_part.name in self.unstable or snapshot.attempt in self.resize_descendants
        )

    def _expects_own_state(
        self, snapshot: StateSeen, committed_part: Component, expected_part: Component
    ) -> bool:
        """Return whether a part is to be what the run itself had there, and not the baseline's.

        Where the run had left its baseline before, another attempt has to answer for that.
        """
        if committed_part.name in self.unstable or snapshot.attempt in self.resize_descendants:
            return True
        has_diverged = self.allowance.is_exact and committed_part.digest != expected_part.digest
        return has_diverged or self._must_be_exact(committed_part)

    def _must_be_exact(self, committed_part: Component) -> bool:
        """Return whether a part is due to the last bit although numbers may lie in a tolerance.

        Tensors are, however many workers load them.
        """
        is_tensor = (
            isinstance(committed_part.size, float) and find_group(committed_part.name) in _TENSORS
        )
        return is_tensor and not self.allowance.is_exact

    def _judge_by_commit(self, row: ResumeRow, initial_part: Component | None) -> ResumeRow:
        """Judge a part by the run's own state at the commit."""
        actual_part, committed_part = row.actual, row.expected
        assert committed_part is not None
        if not self._must_be_exact(committed_part):
            state_place = StatePlace(row.rank, row.epoch, row.step, "entered")
            return replace(
                row,
                standing=judge_standing(
                    actual_part, committed_part, initial_part, self.allowance, state_place
                ),
            )
        standing = judge_standing(actual_part, committed_part, initial_part)
        # A state that the run had at another time is an old checkpoint, and no rounded one.
        if (
            standing == "different"
            and _may_be_rounded(actual_part, committed_part)
            and not self._had_state_earlier(row)
        ):
            return replace(row, standing="not compared", is_rounded=True)
        return replace(row, standing=standing)

    def _had_state_earlier(self, row: ResumeRow) -> bool:
        """Return whether the run itself, on any rank, had this state at another time."""
        assert row.actual is not None
        return any(
            part.name == row.component and part.digest == row.actual.digest
            for number, snapshot in self.run.numbered_snapshots
            if number < row.number and snapshot.attempt < row.attempt
            for part in snapshot.components
        )

    def _find_owner(self, row: ResumeRow) -> int | None:
        """Return the rank whose state this is in the baseline, at the same place."""
        if row.actual is None or not row.actual.digest:
            return None
        for rank in sorted({other_rank for _, other_rank in self.reference.entries} - {row.rank}):
            snapshot = self.reference.latest_snapshots.get(
                StatePlace(rank, row.epoch, row.step, "entered")
            )
            baseline_part = index_parts(snapshot).get(row.component)
            if baseline_part is not None and baseline_part.digest == row.actual.digest:
                return rank
        return None

    def _find_trained_parts(self, snapshot: StateSeen) -> Mapping[str, Component]:
        """Return the state in which an earlier attempt came to the same place by training.

        Of several attempts that did, any may have made the save: one that had the same part counts.
        """
        trained_parts: dict[str, Component] = {}
        if not self.allowance.is_exact:
            return trained_parts
        actual_parts = index_parts(snapshot)
        for earlier_snapshot in self.run.snapshots_by_place.get(locate_snapshot(snapshot), ()):
            if earlier_snapshot.attempt >= snapshot.attempt:
                continue
            # An attempt that entered there did not come there by training: its state may itself be
            # the one that was loaded wrongly.
            _, entry = self.run.entries.get(
                AttemptRank(earlier_snapshot.attempt, earlier_snapshot.rank), (0, earlier_snapshot)
            )
            if TrainingPlace(entry.epoch, entry.step) >= TrainingPlace(
                earlier_snapshot.epoch, earlier_snapshot.step
            ):
                continue
            for name, part in index_parts(earlier_snapshot).items():
                is_matched = (
                    name in trained_parts
                    and name in actual_parts
                    and trained_parts[name].digest == actual_parts[name].digest
                )
                if name not in self.unstable and not is_matched:
                    trained_parts[name] = part
        return trained_parts

    def _find_committed_parts(self, snapshot: StateSeen) -> Mapping[str, Component]:
        """Return the run's own state at the commit, for parts that nothing changes in between.

        The baseline shows these parts: there the states at the commit and at the entry are equal.
        """
        # The state was looked at as a rank left an epoch, and is looked at next at the entry of a
        # later attempt. In between a right job may draw random numbers, move a schedule, or average
        # weights. Which parts it leaves alone there is read off the baseline, which goes through
        # the same stretch without a restart.
        previous_epoch = snapshot.epoch - 1
        if snapshot.attempt in self.resized:
            last_attempt, run_parts = self.run.combine_exit_parts(previous_epoch)
            _, baseline_parts = self.reference.combine_exit_parts(previous_epoch)
            entry_parts = self.reference.combine_place_parts(snapshot.epoch, 0, "entered")
        else:
            exit_snapshot = self.run.exit_snapshots.get(RankEpoch(snapshot.rank, previous_epoch))
            last_attempt, run_parts = (
                -1 if exit_snapshot is None else exit_snapshot.attempt,
                index_parts(exit_snapshot),
            )
            baseline_parts = index_parts(
                self.reference.exit_snapshots.get(RankEpoch(snapshot.rank, previous_epoch))
            )
            entry_snapshot = self.reference.latest_snapshots.get(
                StatePlace(snapshot.rank, snapshot.epoch, 0, "entered")
            )
            entry_parts = index_parts(entry_snapshot)
        # Within an epoch there is no such pair of looks; and a state that no earlier attempt left
        # is none that this one can have loaded.
        if snapshot.step or not 0 <= last_attempt < snapshot.attempt:
            return {}
        return {
            name: part
            for name, part in run_parts.items()
            if name in baseline_parts
            and name in entry_parts
            and entry_parts[name].digest == baseline_parts[name].digest
            and (part.share is None) == (baseline_parts[name].share is None)
            and find_group(name) in _KEPT_TO_THE_ENTRY
        }


def _is_model(name: str) -> bool:
    """Return whether a part is the parameters of an optimizer, of whatever number."""
    return re.fullmatch(r"model(\.\d+)?", name) is not None


def _may_be_rounded(actual_part: Component | None, committed_part: Component) -> bool:
    """Return whether a state may be the other one in fewer bits: that changes its norm a little."""
    # As near as bfloat16 rounds. A right job may save in fewer bits, and what it loads then has
    # neither the digest nor any state that the run ever had: in doubt, and no finding.
    if (
        actual_part is None
        or not isinstance(actual_part.size, float)
        or not isinstance(committed_part.size, float)
    ):
        return False
    return 0 < abs(actual_part.size - committed_part.size) <= _ROUNDED * abs(committed_part.size)


# -- from scratch ----------------------------------------------------------------------------------


def starts_from_scratch(
    attempt: Attempt,
    rows: Sequence[ResumeRow],
    snapshots: StateSnapshots,
    reference: Lineage | None,
) -> bool:
    """Return whether an attempt trained from scratch, by its state, or else by its losses.

    By state: the model has its first value, and no other part is restored but those that never
    changed. By losses: those of its first epoch are the baseline's of epoch 0, and not those of its
    own place. An attempt that was handed a checkpoint, and whose training is seen to begin at the
    beginning, did as well.
    """
    starts = attempt.starts.values()
    if any(start.has_moved and start.training_place == START for start in starts):
        return True
    attempt_rows = [
        row for row in rows if row.attempt == attempt.index and not is_rng(row.component)
    ]
    models = [row for row in attempt_rows if row.group == "model"]
    if models:
        return all(row.standing == "reset" for row in models) and all(
            _is_initial(r, snapshots) for r in attempt_rows
        )
    if reference is None or attempt.training_place in (None, START):
        return False
    first_steps = attempt.first_step_event_numbers
    return bool(first_steps) and all(
        _repeats_epoch_0(attempt, rank, reference) for rank in first_steps
    )


def _is_initial(row: ResumeRow, snapshots: StateSnapshots) -> bool:
    if row.group in ("optimizer settings", "gradients") or row.standing == "not compared":
        return True
    if row.standing == "restored":
        return holds_nothing(row.expected) or has_same_content(
            snapshots.find_initial_parts(row.rank).get(row.component), row.expected
        )
    return row.standing != "different"


def _repeats_epoch_0(attempt: Attempt, rank: int, reference: Lineage) -> bool:
    start = attempt.starts.get(rank)
    if start is None:
        return False
    run_losses = attempt.select_steps(rank, start.epoch).losses
    first_losses, expected_losses = (
        reference.select_steps(rank, epoch).losses[: len(run_losses)] for epoch in (0, start.epoch)
    )
    return (
        bool(run_losses)
        and all(run_losses)
        and run_losses == first_losses
        and run_losses != expected_losses
    )
