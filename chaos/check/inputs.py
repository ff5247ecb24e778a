"""The inputs of the model, compared with the baseline's at the same place.

The inputs before the first fault are the control: inputs that differ there already (a shuffle
without a seed) do not repeat here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from chaos.check.compare import AlignedSteps, has_cut_inputs
from chaos.check.restarts import Restart
from chaos.model.places import RankEpoch
from chaos.resume.lineage import Lineage
from chaos.resume.steps import Step, count_samples

# Of stretches without a repeated sample: how many show how data are drawn, and how long they are of
# all samples where each is a pass. One that fills up its last batch begins two stretches a pass.
PASSES_MIN = 3
FULL_PASS_SHARE_MIN = 1 / 3


@dataclass(frozen=True, slots=True)
class DifferingInputs:
    """One rank's epoch whose inputs leave the baseline's."""

    rank: int
    epoch: int
    #: the first step with other inputs
    first_step: Step
    #: the last one
    last_step: Step
    steps: Sequence[Step]

    @property
    def stretch(self) -> Sequence[Step]:
        """The steps from the first to the last whose inputs differ."""
        return [
            step for step in self.steps if self.first_step.step <= step.step <= self.last_step.step
        ]


@dataclass
class InputTally:
    """Inputs beside the baseline's."""

    #: the steps that were compared
    compared_count: int = 0
    #: those of them that differ
    differing_count: int = 0
    #: these by rank and epoch
    differing_epochs: list[DifferingInputs] = field(default_factory=list)
    #: the attempts that owe some
    expected_attempts: set[int] = field(default_factory=set)
    #: those that have some
    watched_attempts: set[int] = field(default_factory=set)
    #: the ranks and attempts of which a step was compared
    _begun_attempts: set[tuple[int, int]] = field(default_factory=set)

    @classmethod
    def from_groups(cls, groups: Iterable[AlignedSteps]) -> Self:
        """Compare the steps of ranks and epochs."""
        tally = cls()
        for group in groups:
            tally._add_group(group)
        return tally

    def _add_group(self, group: AlignedSteps) -> None:
        if group.has_equal_inputs:
            self.compared_count += len(group.run_steps)
            self.watched_attempts |= {group.run_steps[0].attempt, group.run_steps[-1].attempt}
            self._begun_attempts |= {(step.rank, step.attempt) for step in group.run_steps}
            return
        differing_steps: list[Step] = []
        for step, baseline_step in group.pairs():
            if baseline_step is None or baseline_step.inputs is None:
                continue
            self.expected_attempts.add(step.attempt)
            if step.inputs is None:
                continue
            self.watched_attempts.add(step.attempt)
            is_first = (step.rank, step.attempt) not in self._begun_attempts
            self._begun_attempts.add((step.rank, step.attempt))
            if is_first and has_cut_inputs(step, baseline_step):
                continue
            self.compared_count += 1
            if step.inputs.digest != baseline_step.inputs.digest:
                differing_steps.append(step)
        self.differing_count += len(differing_steps)
        if differing_steps:
            self.differing_epochs.append(
                DifferingInputs(
                    *group.key, differing_steps[0], differing_steps[-1], group.run_steps
                )
            )


@dataclass(frozen=True)
class InputComparison:
    """The inputs of a lineage and the baseline's."""

    run_lineage: Lineage
    baseline_lineage: Lineage
    steps: Sequence[AlignedSteps]
    #: the steps from before the first fault
    control_steps: Sequence[AlignedSteps]
    #: the steps between two reports use the same part of the data in both
    has_epochs: bool = True

    @cached_property
    def has_run_inputs(self) -> bool:
        """Whether the run's inputs were recorded."""
        return any(steps.digests for steps in self.run_lineage.steps.values())

    @cached_property
    def has_baseline_inputs(self) -> bool:
        """Whether the baseline's inputs were recorded."""
        return any(steps.digests for steps in self.baseline_lineage.steps.values())

    @cached_property
    def control(self) -> InputTally:
        """The inputs before the first fault, compared with the baseline's."""
        return InputTally.from_groups(self.control_steps)

    @property
    def is_repeatable(self) -> bool:
        """Whether inputs were seen to repeat before the first fault."""
        return self.control.compared_count > 0 and self.control.differing_count == 0

    @cached_property
    def _tally(self) -> InputTally:
        return InputTally.from_groups(self.steps)

    @property
    def compared_count(self) -> int:
        """The number of surviving steps whose inputs could be compared."""
        return self._tally.compared_count

    @cached_property
    def differing_epochs(self) -> tuple[DifferingInputs, ...]:
        """The epochs, rank by rank, whose inputs leave the baseline's, earliest first."""
        return tuple(
            sorted(self._tally.differing_epochs, key=lambda inputs: (inputs.epoch, inputs.rank))
        )

    @cached_property
    def differences_by_epoch(self) -> Mapping[int, Sequence[DifferingInputs]]:
        """The same, the ranks of each epoch together."""
        epochs: dict[int, list[DifferingInputs]] = {}
        for inputs in self.differing_epochs:
            epochs.setdefault(inputs.epoch, []).append(inputs)
        return epochs

    @cached_property
    def silent_attempts(self) -> tuple[int, ...]:
        """The resumed attempts without any inputs seen, though the baseline's were."""
        missing_attempts = self._tally.expected_attempts - self._tally.watched_attempts
        return tuple(sorted(index for index in missing_attempts if index > 0))

    # -- order ---------------------------------------------------------------------------------

    @cached_property
    def _positions(self) -> Mapping[int, tuple[list[Step], dict[str, list[int]]]]:
        """The baseline's steps in order for each rank, and the positions of each batch in them."""
        ranks: dict[int, tuple[list[Step], dict[str, list[int]]]] = {}
        for (rank, _), steps in sorted(self.baseline_lineage.steps.items()):
            ordered_steps, positions = ranks.setdefault(rank, ([], {}))
            for step in steps:
                if step.inputs is not None:
                    positions.setdefault(step.inputs.digest, []).append(len(ordered_steps))
                ordered_steps.append(step)
        return ranks

    def find_position(self, steps: Sequence[Step]) -> int | None:
        """Return the number of the baseline's steps before these inputs; None if it has them not.

        Where it has them twice, the position nearest to their own place counts.
        """
        digests = [step.inputs.digest for step in steps if step.inputs is not None]
        if not digests or len(digests) < len(steps):
            return None
        ordered_steps, positions = self._positions.get(steps[0].rank, ([], {}))
        expected_position = self.find_expected_position(steps[0])
        candidates = sorted(
            positions.get(digests[0], ()), key=lambda position: abs(position - expected_position)
        )
        return next(
            (
                position
                for position in candidates
                if _digests(ordered_steps, position, len(digests)) == digests
            ),
            None,
        )

    def find_expected_position(self, step: Step) -> int:
        """Return the number of the baseline's steps before a step's own place."""
        return self._offsets.get(RankEpoch(step.rank, step.epoch), 0) + step.step - 1

    @cached_property
    def _offsets(self) -> Mapping[RankEpoch, int]:
        offsets: dict[RankEpoch, int] = {}
        ends: dict[int, int] = {}
        epochs = sorted(
            {epoch for _, epoch in {**self.run_lineage.steps, **self.baseline_lineage.steps}}
        )
        for epoch in epochs:
            for rank in self.baseline_lineage.ranks:
                offset = offsets[RankEpoch(rank, epoch)] = ends.get(rank, 0)
                ends[rank] = offset + self.baseline_lineage.count_steps(rank, epoch)
        return offsets

    def find_baseline_step(self, steps: Sequence[Step]) -> Step | None:
        """Return the step of the baseline at which these inputs begin, in their order."""
        ordered_steps, _ = self._positions.get(steps[0].rank, ([], {}))
        position = self.find_position(steps)
        return None if position is None else ordered_steps[position]

    def find_source_epoch(self, steps: Sequence[Step]) -> int | None:
        """Return the epoch of the baseline whose inputs these are, step for step."""
        baseline_step = self.find_baseline_step(steps)
        return (
            baseline_step.epoch if baseline_step and baseline_step.step == steps[0].step else None
        )

    def is_replay(self, inputs: DifferingInputs) -> bool:
        """Return whether these are another epoch's inputs, of samples that are not this epoch's."""
        source_epoch = self.find_source_epoch(inputs.steps)
        if source_epoch is None or source_epoch == inputs.epoch:
            return False
        epoch_samples, source_samples = (
            self.baseline_lineage.count_epoch_samples(epoch)
            for epoch in (inputs.epoch, source_epoch)
        )
        return (
            epoch_samples is not None
            and source_samples is not None
            and epoch_samples != source_samples
        )

    # -- samples -------------------------------------------------------------------------------

    @cached_property
    def baseline_samples(self) -> frozenset[str]:
        """Every sample of the baseline."""
        return frozenset(
            sample for step in self.baseline_lineage.all_steps() for sample in step.samples or ()
        )

    @cached_property
    def largest_batch(self) -> int:
        """The largest number of samples that one rank had in one step."""
        counts = (
            step.inputs.count
            for step in self.baseline_lineage.all_steps()
            if step.inputs is not None
        )
        return max(counts, default=0)

    def has_new_samples(self, inputs: DifferingInputs) -> bool:
        """Return whether the baseline never saw these samples: augmented ones, or other ones."""
        samples = inputs.first_step.samples
        return samples is not None and not self.baseline_samples.issuperset(samples)

    @cached_property
    def has_replacement(self) -> bool:
        """Whether the baseline draws samples that it has trained shortly before.

        In a pass over the data no sample repeats before all others have come. Drawn with
        replacement, one does after a small part of them.
        """
        pass_count, current_pass = 1, set[str]()
        ordered_steps = sorted(
            self.baseline_lineage.all_steps(), key=lambda step: (step.epoch, step.step)
        )
        for sample in (digest for step in ordered_steps for digest in step.samples or ()):
            if sample in current_pass:
                pass_count, current_pass = pass_count + 1, set()
            current_pass.add(sample)
        total = sum(len(step.samples or ()) for step in ordered_steps)
        return pass_count > PASSES_MIN and total / pass_count < FULL_PASS_SHARE_MIN * len(
            self.baseline_samples
        )

    @cached_property
    def _is_in_first_pass(self) -> bool:
        sample_counts = count_samples(self.baseline_lineage.all_steps())
        return sample_counts is not None and sample_counts.total() == len(sample_counts)

    def is_redrawn(self, inputs: DifferingInputs) -> bool:
        """Return whether most batches mix known samples with others, of data not yet passed."""
        if not self._is_in_first_pass:
            return False
        batches = [step.samples for step in inputs.stretch]
        sample_sets = [set(batch) for batch in batches if batch is not None]
        mixed_batches = [
            batch for batch in sample_sets if 0 < len(batch & self.baseline_samples) < len(batch)
        ]
        return len(sample_sets) == len(batches) and 2 * len(mixed_batches) >= len(batches)


def find_input_offsets(restarts: Sequence[Restart], inputs: InputComparison) -> Mapping[int, int]:
    """Return the attempts that continued at another place of the inputs, with the offset in steps.

    A negative offset leads back. An offset counts only where the whole run is as much too long, or
    too short: a job that draws one epoch in another's order is not longer.
    """
    offsets = {
        restart.attempt.index: offset
        for restart in restarts
        if (offset := _find_shared_offset(restart, inputs))
    }
    surplus = inputs.run_lineage.step_count - inputs.baseline_lineage.step_count
    # Each offset is measured at its own resume. Where a job stays at the shifted place, that of
    # the last resume is already the sum of all.
    totals = {-offset for offset in (sum(offsets.values()), *list(offsets.values())[-1:])}
    return offsets if surplus and surplus in totals else {}


def _find_shared_offset(restart: Restart, inputs: InputComparison) -> int | None:
    """Return the offset that all ranks share; None where they differ."""
    offsets: set[int | None] = set()
    differing_epochs = {(a.rank, a.epoch) for a in inputs.differing_epochs}
    for rank, start in restart.attempt.starts.items():
        if (rank, start.epoch) not in differing_epochs:
            offsets.add(0)
            continue
        steps = restart.attempt.select_steps(rank, start.epoch)
        position = inputs.find_position(steps)
        offsets.add(
            None if position is None else position - inputs.find_expected_position(steps[0])
        )
    return offsets.pop() if len(offsets) == 1 else None


def _digests(steps: Sequence[Step], position: int, count: int) -> list[str | None]:
    return [
        step.inputs.digest if step.inputs else None for step in steps[position : position + count]
    ]
