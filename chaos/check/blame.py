"""The causes among the parts that did not come back at a resume, and those without effect.

A state snapshot is taken before a rank's first optimizer step, after its first forward call. For
each part it is known which loss it can change first:

    first loss        model, buffers, scaler, generators, inputs, what is declared
    second loss       an optimizer's state, gradients, a learning rate
    third loss        a schedule alone: the learning rate of the first step was right

So the place of the first difference shows which parts may be its cause. A part that did not come
back is noted, and is no finding, where nothing that lasts differs: no loss, no metric, no part of
what is shipped.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

from chaos.check.analysis import RunAnalysis
from chaos.check.divergence import find_divergence, find_divergence_place, has_diverged
from chaos.check.file_contents import build_file_contents
from chaos.check.inputs import DifferingInputs
from chaos.check.restarts import Restart
from chaos.model.event import CensusTaken, GeneratorsSeen
from chaos.model.events.state import GROUPS, find_group
from chaos.model.places import AttemptRank, RankName
from chaos.resume.state_at_resume import SHIPPED, ResumeRow
from chaos.resume.state_snapshots import (
    holds_nothing,
    index_parts,
    is_rng,
    locate_snapshot,
    pair_parts,
)

_FIRST_LOSS, _SECOND_LOSS, _THIRD_LOSS = 1, 2, 3


@dataclass(frozen=True)
class EarliestDifference:
    """The first difference from the baseline in the work of one attempt."""

    #: the attempt's steps to the first loss that differs: 1 is the loss of its first forward call;
    #: infinite stands for a later epoch's loss or a metric; None for no difference
    steps_to_loss: float | None
    #: those of its first epoch with other inputs, if no loss differs before them
    differing_inputs: Sequence[DifferingInputs] = ()


@dataclass(frozen=True)
class Cause:
    """Rows with one reason, the nearest to it first."""

    rows: tuple[ResumeRow, ...]
    #: it can cause the first difference
    can_explain: bool


@dataclass(frozen=True)
class Blame:
    """The findings of one resume."""

    earliest_difference: EarliestDifference
    #: in order, the first one first
    causes: tuple[Cause, ...] = ()
    #: the rows without consequence
    without_consequence: tuple[ResumeRow, ...] = ()
    #: generators that began anew, and may have drawn the inputs of an earlier epoch again; so may a
    #: place in the data that was not restored
    suspects: tuple[ResumeRow, ...] = ()
    #: generators that numbers are seen to depend on
    random_rows: tuple[ResumeRow, ...] = ()
    #: buffers that differ only by the inputs or random numbers of the first forward call
    moved_buffers: tuple[ResumeRow, ...] = ()

    @property
    def is_immediate(self) -> bool:
        """Whether the loss of the first forward call differs, or inputs before any loss."""
        return self.earliest_difference.steps_to_loss == _FIRST_LOSS or bool(
            self.earliest_difference.differing_inputs
        )

    @property
    def rows(self) -> tuple[ResumeRow, ...]:
        return tuple(row for cause in self.causes for row in cause.rows)

    @property
    def is_explained(self) -> bool:
        """Whether a cause explains the first difference; true where there is no cause."""
        return not self.causes or any(cause.can_explain for cause in self.causes)


def find_blame(analysis: RunAnalysis, restart: Restart) -> Blame:
    """Return the causes of one resume."""
    return _find_all_blame(analysis)[restart.attempt.index]


@lru_cache(maxsize=2)  # many checks of the run that is being judged use it
def _find_all_blame(analysis: RunAnalysis) -> Mapping[int, Blame]:
    # All resumes together: an attempt that a further fault cut short is too short to show that a
    # part has no effect, where a longer one shows it of the same part of the same rank (the scratch
    # of L-BFGS). Without it, a chain of faults would blame a right job.
    all_effects = [ResumeEffects(analysis, restart) for restart in analysis.restarts]
    ineffective_parts = {
        RankName(row.rank, row.component)
        for effects in all_effects
        for row in effects.find_ineffective_rows()
    }
    return {
        effects.restart.attempt.index: _build_blame(effects, frozenset(ineffective_parts))
        for effects in all_effects
    }


def _build_blame(effects: "ResumeEffects", ineffective_parts: frozenset[RankName]) -> Blame:
    """Return the causes of one resume; `ineffective_parts`: those that some resume shows."""
    # A part that did not come back is one of four things, decided in this order, each time of what
    # the decision before has left:
    #
    #   a consequence    it is only other, in a run that had left its baseline before this resume
    #   idle             later work is the baseline's at a place that the part could have changed
    #   moved on         buffers that the first forward call moved by other inputs or random numbers
    #   a cause          all else; a generator only if nothing else explains the numbers
    #
    # Buffers and generators depend on each other: other dropout masks move running statistics, so
    # buffers must not explain what the generators did, and generators decide whether the buffers
    # are findings. Hence the generators are judged first, without those buffers.
    analysis, training_place = effects.analysis, effects.restart.attempt.training_place
    broken_rows, earliest_difference = effects.broken_rows, effects.earliest_difference
    if not broken_rows:
        return Blame(earliest_difference)
    is_diverged = training_place is not None and has_diverged(analysis, *training_place)
    candidate_rows = [r for r in broken_rows if not is_rng(r.component)]
    # A part that is missing, or has its first value, was lost here whatever came before.
    if is_diverged:
        candidate_rows = _drop_consequences(candidate_rows)
    harmless_rows = [
        r
        for r in candidate_rows
        if effects.is_ineffective(r)
        # An attempt that was cut short is too short to show it.
        or ((r.rank, r.component) in ineffective_parts and not effects.can_have_effect(r))
    ]
    candidate_rows = [r for r in candidate_rows if r not in harmless_rows]
    shifted_buffers = [r for r in broken_rows if _is_slightly_moved(analysis, r)]
    generator_rows = _select_random_causes(
        effects, [r for r in candidate_rows if r not in shifted_buffers]
    )
    moved_buffers = [
        r for r in shifted_buffers if _has_moved_buffers(r, earliest_difference, generator_rows)
    ]
    candidate_rows = [r for r in candidate_rows if r not in moved_buffers]
    # Another rank's generator is a finding of `rank-randomness`.
    causes = [
        *_group_causes(candidate_rows, earliest_difference),
        *_group_causes([r for r in generator_rows if r.copied_from is None], earliest_difference),
    ]
    # The sort is stable: those that explain the first difference come first, each kind in order.
    causes.sort(key=lambda cause: not cause.can_explain)
    cause_ids = {id(r) for r in (*candidate_rows, *generator_rows)}
    harmless_generators = [r for r in broken_rows if is_rng(r.component) and id(r) not in cause_ids]
    suspects = [
        r for r in harmless_generators if _can_have_replayed(analysis, r, earliest_difference)
    ]
    harmless_generators = [r for r in harmless_generators if r not in suspects]
    return Blame(
        earliest_difference,
        tuple(causes),
        (*harmless_rows, *harmless_generators),
        tuple(suspects),
        tuple(generator_rows),
        tuple(moved_buffers),
    )


def _drop_consequences(rows: Sequence[ResumeRow]) -> list[ResumeRow]:
    """Return the rows without those that are only other, and rates that such a schedule sets."""
    schedule_ranks = {
        row.rank for row in rows if row.group == "schedule" and row.standing == "different"
    }
    return [
        row
        for row in rows
        if row.standing != "different"
        and not (row.group == "optimizer settings" and row.rank in schedule_ranks)
    ]


# -- what followed ---------------------------------------------------------------------------------


EFFECT_STEPS = 3  # steps, after which any part of the state can have moved a loss


def find_earliest_difference(analysis: RunAnalysis, restart: Restart) -> EarliestDifference:
    """Return the first difference in the work of one attempt."""
    differing_number, index = find_divergence(analysis), restart.attempt.index
    steps_to_loss, loss_place = (
        None,
        (math.inf, math.inf) if differing_number is None else differing_number.training_place,
    )
    if differing_number is not None and differing_number.attempt == index:
        start = restart.attempt.starts.get(differing_number.rank)
        training_place = restart.attempt.training_place if start is None else start.training_place
        steps_to_loss = math.inf
        # Within a tolerance, the first loss that differs by too much does not show the cause.
        if (
            differing_number.step is not None
            and training_place is not None
            and analysis.allowance.is_exact
        ):
            steps_to_loss = (
                differing_number.step - training_place.step
                if training_place.epoch == differing_number.epoch
                else math.inf
            )
    input_comparison = analysis.inputs
    input_differences = (
        input_comparison.differing_epochs
        if input_comparison is not None and input_comparison.is_repeatable
        else ()
    )
    input_differences = tuple(
        difference for difference in input_differences if difference.first_step.attempt == index
    )
    # Inputs count only if this attempt has other ones before the first number that differs.
    input_place = min(
        ((difference.epoch, difference.first_step.step) for difference in input_differences),
        default=None,
    )
    if (
        input_place is None
        or input_place > loss_place
        or (steps_to_loss is None and differing_number is not None)
    ):
        return EarliestDifference(steps_to_loss)
    return EarliestDifference(
        steps_to_loss,
        [difference for difference in input_differences if difference.epoch == input_place[0]],
    )


@dataclass(frozen=True)
class ResumeEffects:
    """The state and the losses of an attempt after its entry."""

    analysis: RunAnalysis
    restart: Restart

    @cached_property
    def broken_rows(self) -> Sequence[ResumeRow]:
        """The parts that did not come back as the attempt entered."""
        index = self.restart.attempt.index
        return [r for r in self.analysis.state_rows if r.attempt == index and r.is_broken]

    @cached_property
    def earliest_difference(self) -> EarliestDifference:
        """The first difference in the work of the attempt."""
        return find_earliest_difference(self.analysis, self.restart)

    def find_ineffective_rows(self) -> Iterator[ResumeRow]:
        """Yield the parts that serve what is shipped, and are shown to have no effect on it."""
        candidate_rows = (
            r for r in self.broken_rows if not is_rng(r.component) and r.group not in SHIPPED
        )
        return (row for row in candidate_rows if self.is_ineffective(row))

    def can_have_effect(self, row: ResumeRow) -> bool:
        """Return whether anything that the attempt did may follow from a part."""
        if (
            self.earliest_difference.steps_to_loss is not None
            or self.earliest_difference.differing_inputs
        ):
            return True
        if _has_differing_save(self.analysis, self.restart, row):
            return True
        return not all(is_equal for _, _, is_equal in self._find_shipped_states(row.rank))

    def is_ineffective(self, row: ResumeRow) -> bool:
        """Return whether a part that is not the baseline's is shown to have no effect.

        It is not enough that no effect was seen: what is shipped must have been seen to be the
        baseline's, at a place that the part could have changed.
        """
        if self.can_have_effect(row):
            return False
        if row.is_restructured:  # what is trained is compared by its numbers alone
            return True
        shipped_states = list(self._find_shipped_states(row.rank))
        if row.group == "model":
            # The losses are right, so the weights are there, as another part of the state.
            return holds_nothing(row.actual) and self._has_equal_losses(row)
        if row.group in SHIPPED:
            return any(name == row.component for name, _, _ in shipped_states)
        return any(group == "model" for _, group, _ in shipped_states) or self._has_equal_losses(
            row
        )

    def _find_shipped_states(self, rank: int) -> Iterator[tuple[str, str, bool]]:
        """Yield the later states of what is shipped: name, group, and whether it is the baseline's.

        Differences count on all ranks, equality on the rank itself only.
        """
        assert self.analysis.reference is not None
        baseline_snapshots = self.analysis.reference.snapshots.latest_snapshots
        entries = self.analysis.run.snapshots.entries
        index = self.restart.attempt.index
        for number, snapshot in self.analysis.run.snapshots.numbered_snapshots:
            first_entry = entries.get(AttemptRank(index, snapshot.rank))
            if snapshot.attempt != index or first_entry is None or number <= first_entry[0]:
                continue
            for run_part, baseline_part in pair_parts(
                snapshot, baseline_snapshots.get(locate_snapshot(snapshot))
            ):
                name, group = baseline_part.name, find_group(baseline_part.name)
                if (
                    group not in SHIPPED
                    or name in self.analysis.unstable_components
                    or run_part is None
                ):
                    continue
                is_equal = run_part.digest == baseline_part.digest
                if not is_equal or snapshot.rank == rank:
                    yield name, group, is_equal

    def _has_equal_losses(self, row: ResumeRow) -> bool:
        """Return whether a loss that any part can have changed is the baseline's."""
        for group in self.analysis.aligned_steps:
            for step, baseline_step in group.pairs():
                is_late = step.epoch > row.epoch or step.step - row.step >= EFFECT_STEPS
                is_relevant = step.attempt == row.attempt and step.rank == row.rank and is_late
                if (
                    is_relevant
                    and baseline_step is not None
                    and step.losses
                    and step.losses == baseline_step.losses
                ):
                    return True
        return False


# -- random numbers ---------------------------------------------------------------------------


def _select_random_causes(
    effects: ResumeEffects, candidate_rows: Sequence[ResumeRow]
) -> list[ResumeRow]:
    """Return the generators that are causes: numbers differ, and nothing else explains it.

    A generator that never moves in the baseline is not drawn from. Inputs in another order come
    from the sampler. Inputs that the baseline never saw were drawn by generators, if every rank
    with such a generator has them.
    """
    analysis, earliest_difference = effects.analysis, effects.earliest_difference
    rows = [r for r in effects.broken_rows if is_rng(r.component) and _is_drawn(analysis, r)]
    if not rows:
        return []
    if earliest_difference.differing_inputs:
        input_comparison = analysis.inputs
        assert input_comparison is not None
        redrawn_ranks = {
            difference.rank
            for difference in earliest_difference.differing_inputs
            if input_comparison.has_new_samples(difference)
        }
        is_generator_effect = (
            len(redrawn_ranks) == len(earliest_difference.differing_inputs)
            and {r.rank for r in rows} <= redrawn_ranks
        )
        return rows if is_generator_effect else []
    if any(_can_explain(row, candidate_rows, earliest_difference) for row in candidate_rows):
        return []
    if earliest_difference.steps_to_loss is not None:
        return [row for row in rows if _can_move_loss(analysis, row, earliest_difference)]
    # No number differs in this attempt. If none differs in the run and the model does, the last
    # resume before that place is the one to look at.
    restart, differing_place = effects.restart, find_divergence_place(analysis)
    training_place = restart.attempt.training_place
    if (
        differing_place is None
        or training_place is None
        or differing_place < training_place
        or find_divergence(analysis) is not None
    ):
        return []
    later_attempts = (
        r.attempt for r in analysis.restarts if r.attempt.index > restart.attempt.index
    )
    return (
        []
        if any(
            a.training_place is not None and a.training_place <= differing_place
            for a in later_attempts
        )
        else rows
    )


def _can_have_replayed(
    analysis: RunAnalysis, row: ResumeRow, earliest_difference: EarliestDifference
) -> bool:
    """Return whether a generator began anew on a rank that has an earlier epoch's inputs again."""
    input_comparison = analysis.inputs
    rank_differences = [
        difference
        for difference in earliest_difference.differing_inputs
        if difference.rank == row.rank
    ]
    if input_comparison is None or row.standing != "reset" or not _is_drawn(analysis, row):
        return False
    return any(map(input_comparison.is_replay, rank_differences))


def _is_drawn(analysis: RunAnalysis, row: ResumeRow, *, within_an_epoch: bool = False) -> bool:
    """Return whether the baseline draws from a generator; true where that was not seen."""
    assert analysis.reference is not None
    snapshots = [
        s for _, s in analysis.reference.snapshots.numbered_snapshots if s.rank == row.rank
    ]
    digests_by_epoch: dict[int, list[str]] = {}
    for snapshot in snapshots:
        part = index_parts(snapshot).get(row.component)
        if part is not None:
            digests_by_epoch.setdefault(snapshot.epoch if within_an_epoch else 0, []).append(
                part.digest
            )
    for _, event in (
        ()
        if analysis.aligned_baseline is None
        else analysis.aligned_baseline.select_events(GeneratorsSeen)
    ):
        if event.rank == row.rank and row.component in event.digests:
            digest = event.digests[row.component]
            digests_by_epoch.setdefault(event.epoch if within_an_epoch else 0, []).append(digest)
    digest_series = [
        epoch_digests for epoch_digests in digests_by_epoch.values() if len(epoch_digests) > 1
    ]
    return not digest_series or any(len(set(epoch_digests)) > 1 for epoch_digests in digest_series)


def _can_move_loss(
    analysis: RunAnalysis, row: ResumeRow, earliest_difference: EarliestDifference
) -> bool:
    """Return whether a generator can be why losses differ, from inputs that do not."""
    assert earliest_difference.steps_to_loss is not None
    if _FIRST_LOSS < earliest_difference.steps_to_loss < math.inf:
        # Where the first loss is right and a later one of the epoch is not, only a generator that
        # is drawn from within epochs can be the cause.
        return _is_drawn(analysis, row, within_an_epoch=True)
    # Where inputs are the baseline's, what was drawn for the first loss was drawn after them.
    has_equal_inputs = analysis.inputs is not None and analysis.inputs.is_repeatable
    return (
        earliest_difference.steps_to_loss != _FIRST_LOSS
        or not has_equal_inputs
        or not _is_unused_initially(analysis, row)
    )


def _is_unused_initially(analysis: RunAnalysis, row: ResumeRow) -> bool:
    """Return whether a generator is seen not to move in the first step of an attempt.

    That is, from its first forward call to its optimizer's step, or a later one. A loader that
    draws a seed for its workers as an epoch begins, whether it has any or not, has drawn it by
    then.
    """
    history, attempt_rank = analysis.history, (row.attempt, row.rank)
    censuses = (
        (entry_number, event.generators.get(row.component))
        for entry_number, event in history.select_events(CensusTaken)
        if (event.attempt, event.rank) == attempt_rank and event.loop is None
    )
    census_number, initial_digest = next(censuses, (0, None))
    if initial_digest is None:
        return False
    entry_number, _ = analysis.run.snapshots.entries.get(AttemptRank(*attempt_rank), (0, None))
    # A step with a closure is seen before its first forward call.
    if (
        entry_number > census_number
        and row.actual is not None
        and row.actual.digest == initial_digest
    ):
        return True
    later_digests = (
        e.digests
        for n, e in history.select_events(GeneratorsSeen)
        if n > census_number and attempt_rank == (e.attempt, e.rank)
    )
    return any(digests.get(row.component) == initial_digest for digests in later_digests)


def _has_moved_buffers(
    row: ResumeRow, earliest_difference: EarliestDifference, generator_rows: Sequence[ResumeRow]
) -> bool:
    """Return whether other inputs or random numbers had already moved a rank's buffers."""
    has_other_inputs = any(
        difference.epoch == row.epoch and difference.first_step.step == row.step + 1
        for difference in earliest_difference.differing_inputs
    )
    return has_other_inputs or (
        bool(generator_rows) and earliest_difference.steps_to_loss == _FIRST_LOSS
    )


def _is_slightly_moved(analysis: RunAnalysis, row: ResumeRow) -> bool:
    """Return whether buffers may differ only by the inputs of one forward call.

    The snapshot comes after the first forward call, which moves running statistics: with other
    inputs or dropout masks, a little. A lost buffer is nearer to its first value than to the
    baseline's.
    """
    if row.group != "buffers" or row.standing != "different":
        return False
    initial_part = analysis.run.snapshots.find_initial_parts(row.rank).get(row.component)
    run_size, baseline_size, initial_size = (
        None if part is None else part.size for part in (row.actual, row.expected, initial_part)
    )
    if (
        not isinstance(run_size, float)
        or not isinstance(baseline_size, float)
        or not isinstance(initial_size, float)
    ):
        return False
    return abs(run_size - baseline_size) < abs(run_size - initial_size)


# -- what is one cause ------------------------------------------------------------------------


def _can_explain(
    row: ResumeRow, candidate_rows: Sequence[ResumeRow], earliest_difference: EarliestDifference
) -> bool:
    """Return whether a part can have changed the first number that differs."""
    # The place of the first difference tells parts apart. The loss of the first forward call after
    # a resume is computed before any optimizer step: weights, buffers and generators can change
    # it, momenta and rates cannot. A rate shows one step later, and a schedule that was lost while
    # the rate itself came back shows one later still, when it sets the next rate.
    if earliest_difference.differing_inputs and not is_rng(row.component):
        return row.group == "declared"  # a model does not choose its inputs
    if earliest_difference.steps_to_loss is None or earliest_difference.steps_to_loss == math.inf:
        return True
    if row.group in ("optimizer", "optimizer settings", "gradients"):
        return earliest_difference.steps_to_loss >= _SECOND_LOSS
    if row.group == "schedule":
        has_settings = any(
            r.group == "optimizer settings" and r.rank == row.rank for r in candidate_rows
        )
        return earliest_difference.steps_to_loss >= (_SECOND_LOSS if has_settings else _THIRD_LOSS)
    return True


def _group_causes(
    rows: Sequence[ResumeRow], earliest_difference: EarliestDifference
) -> list[Cause]:
    """Group rows by reason, the likely cause first."""
    has_schedule = any(row.group == "schedule" for row in rows)
    sorted_rows = sorted(rows, key=partial(_sort_key, scheduled=has_schedule))
    rows_by_reason: dict[str, list[ResumeRow]] = {}
    for row in sorted_rows:
        rows_by_reason.setdefault(_find_reason(row, rows), []).append(row)
    return [
        Cause(
            tuple(cause_rows),
            can_explain=any(_can_explain(row, rows, earliest_difference) for row in cause_rows),
        )
        for cause_rows in rows_by_reason.values()
    ]


def _find_reason(row: ResumeRow, rows: Sequence[ResumeRow]) -> str:
    """Return a name for the one mistake by which a row and others are lost."""
    owner = row.component.partition(".")[0]
    broken_groups = {broken_row.group for broken_row in rows}
    if row.group == "optimizer settings":
        # A learning rate follows its schedule; an optimizer that was not loaded has its first one.
        is_missing = any(
            r.group == "optimizer" and r.component.startswith(f"{owner}.") for r in rows
        )
        if "schedule" in broken_groups:
            return "schedule"
        return owner if is_missing else row.component
    if row.group in ("rng", "schedule"):
        return row.group
    is_of_model = row.group == "buffers" and "model" in broken_groups
    return owner if row.group == "optimizer" or is_of_model else row.component


def _sort_key(row: ResumeRow, *, scheduled: bool) -> tuple[int, int, str, int]:
    """Order rows by how near they are to the cause; settings follow a schedule that is wrong."""
    is_consequence = scheduled and row.group == "optimizer settings"
    distance = 2 if is_consequence or row.standing == "different" else row.standing == "reset"
    group_index = GROUPS.index(row.group) + (2 if is_consequence else 0)
    return int(distance), group_index, row.component, row.rank


# -- files --------------------------------------------------------------------------------------


def _has_differing_save(analysis: RunAnalysis, restart: Restart, row: ResumeRow) -> bool:
    """Return whether a schedule that was lost is in a file that a restart may continue from."""
    if row.group != "schedule" or analysis.reference is None:
        return False
    return any(
        difference.run_file.event.attempt == restart.attempt.index
        and difference.entry[1].rpartition(".")[2] in ("last_epoch", "_step_count")
        for difference in build_file_contents(analysis).find_count_differences()
    )
