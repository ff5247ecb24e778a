"""The check of the size of each batch."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from chaos.check.analysis import RunAnalysis, RunTables
from chaos.check.anomaly import build_anomaly
from chaos.check.compare import AlignedSteps, has_cut_inputs
from chaos.check.kinds.batch import BatchSizeDiffers, RankTotal
from chaos.check.result import (
    builtin_check,
    conclude,
    describe_resized_steps,
    inconclusive,
    not_applicable,
)
from chaos.model.event import StepDone
from chaos.model.places import RankEpoch, TrainingPlace
from chaos.model.verdict import Anomaly, CheckResult
from chaos.resume.lineage import Lineage
from chaos.resume.steps import Step
from chaos.wording import plural

T = TypeVar("T")

BATCH = "batch"


@builtin_check(BATCH, asks="Did every optimizer step see as much as the baseline's?")
def check_batch(analysis: RunAnalysis) -> CheckResult:
    """Require the baseline's samples, summed over ranks, and its micro-batches in each step.

    Gradients that were being accumulated at the checkpoint may be lost
    (huggingface/transformers#22143), or missing ranks make the batch smaller (pytorch/torchtitan PR
    #4663). If pending gradients came back with the save, the micro-batches before it count as made.
    Sizes that differ before any fault are not compared. Neither are the steps of an attempt that
    went on at another place, or with another number of workers.
    """
    if not analysis.plan.ops:
        return not_applicable(BATCH, "no fault was planned, so there is nothing to compare")
    if analysis.reference is None:
        return inconclusive(BATCH, f"{analysis.no_baseline_reason} to compare with")
    no_batch_reason = _find_no_batch_reason(analysis, analysis.reference)
    if no_batch_reason is not None:
        return not_applicable(BATCH, no_batch_reason)
    sizes = _compare_batch_sizes(analysis)
    has_varying_sizes = any(step.number < analysis.fault_start for step in sizes.differing_steps)
    summary = (
        f"{plural(sizes.compared_count, 'step')} over batches as large as the baseline's"
        f"{describe_resized_steps(analysis)}"
    )
    if has_varying_sizes:
        summary = "batches vary from run to run, before any fault as well"
    return conclude(
        BATCH,
        anomalies=[]
        if has_varying_sizes
        else list(_find_batch_anomalies(analysis, analysis.reference, sizes.differing_steps)),
        doubts=[
            f"how large the batches of attempt {index} were was not seen"
            for index in sorted(sizes.baseline_attempts - sizes.sized_attempts)
            if index > 0
        ],
        evidence=sizes.compared_count,
        summary=summary,
    )


def _find_no_batch_reason(analysis: RunAnalysis, reference: RunTables) -> str | None:
    if not reference.lineage.steps:
        return "the job makes no optimizer step that could be watched"
    if not any(map(_has_known_size, reference.lineage.all_steps())):
        return "the baseline tells no samples and no losses of a step"
    if analysis.has_expected_error and not analysis.run.lineage.steps:
        return "the job ended with the expected error before its first step"
    if not analysis.aligned_steps and analysis.resized_attempts:
        return "every step that survived was made with another number of workers"
    return None


@dataclass
class _BatchSizes:
    """Steps and the baseline's, but for those from attempt `attempt_limit` on.

    `differing_steps` have another size. `compared_count` counts those whose size is known in both
    runs. `baseline_attempts` are the attempts for which the baseline has some, `sized_attempts`
    those for which the run has some as well.
    """

    attempt_limit: float
    differing_steps: list[Step] = field(default_factory=list)
    compared_count: int = 0
    baseline_attempts: set[int] = field(default_factory=set)
    sized_attempts: set[int] = field(default_factory=set)

    def add(self, group: AlignedSteps, *, has_survived: bool) -> None:
        for step, baseline_step in group.pairs():
            if baseline_step is None or step.attempt >= self.attempt_limit:
                continue
            if _has_other_size(step, baseline_step):
                self.differing_steps.append(step)
            count_size = (
                _count_samples if baseline_step.inputs is not None else _count_micro_batches
            )
            if has_survived and count_size(baseline_step) is not None:
                self.baseline_attempts.add(step.attempt)
                if count_size(step) is not None:
                    self.sized_attempts.add(step.attempt)
                    self.compared_count += 1

    def add_equal(self, group: AlignedSteps) -> None:
        attempts = {group.run_steps[0].attempt, group.run_steps[-1].attempt}
        if group.run_steps[-1].attempt < self.attempt_limit:
            self.compared_count += len(group.run_steps)
            self.baseline_attempts |= attempts
            self.sized_attempts |= attempts


def _compare_batch_sizes(analysis: RunAnalysis) -> _BatchSizes:
    sizes = _BatchSizes(min(analysis.input_offsets, default=math.inf))
    for group in analysis.control_steps:
        if not (group.has_equal_losses and group.has_equal_inputs):
            sizes.add(group, has_survived=False)
    repeated_epochs = {RankEpoch(repeat.rank, repeat.epoch) for repeat in analysis.repeated_steps}
    for group in analysis.aligned_steps:
        if group.key in repeated_epochs:
            continue
        if group.has_equal_losses and group.has_equal_inputs:
            sizes.add_equal(group)
        else:
            sizes.add(group, has_survived=True)
    return sizes


def _has_other_size(run_step: Step, baseline_step: Step) -> bool:
    return not has_cut_inputs(run_step, baseline_step) and any(
        (run_size := count_size(run_step)) is not None
        and (baseline_size := count_size(baseline_step)) is not None
        and run_size != baseline_size
        for count_size in (_count_samples, _count_micro_batches)
    )


def _has_known_size(step: Step) -> bool:
    return any(
        count_size(step) is not None for count_size in (_count_samples, _count_micro_batches)
    )


def _count_samples(step: Step) -> int | None:
    return None if step.inputs is None else step.inputs.count


def _count_micro_batches(step: Step) -> int | None:
    """Return the number of losses; None without any: not watched, or never resolved."""
    return len(step.losses) if step.losses else None


def _sum_ranks(
    run_lineage: Lineage,
    baseline_lineage: Lineage,
    training_place: TrainingPlace,
    count_size: Callable[[Step], int | None],
) -> RankTotal:
    run_total = baseline_total = known_ranks = 0
    unknown_ranks = []
    for rank in sorted({*run_lineage.ranks, *baseline_lineage.ranks}):
        steps = (
            run_lineage.find_step(rank, *training_place),
            baseline_lineage.find_step(rank, *training_place),
        )
        run_size, baseline_size = (0 if step is None else count_size(step) for step in steps)
        if run_size is None or baseline_size is None:
            unknown_ranks.append(rank)
        elif any(steps):
            run_total, baseline_total, known_ranks = (
                run_total + run_size,
                baseline_total + baseline_size,
                known_ranks + 1,
            )
    return RankTotal(run_total, baseline_total, known_ranks, tuple(unknown_ranks))


def _find_batch_anomalies(
    analysis: RunAnalysis, reference: RunTables, differing_steps: Sequence[Step]
) -> Iterator[Anomaly]:
    lineages = analysis.run.lineage, reference.lineage
    for training_place in sorted(
        {TrainingPlace(step.epoch, step.step) for step in differing_steps}
    ):
        samples = _sum_ranks(*lineages, training_place, _count_samples)
        micro_batches = _sum_ranks(*lineages, training_place, _count_micro_batches)
        if (
            samples.run_total != samples.baseline_total
            or micro_batches.run_total != micro_batches.baseline_total
        ):
            yield build_anomaly(
                BatchSizeDiffers(training_place, samples, micro_batches),
                analysis.launcher_words,
                events=(s.number for s in differing_steps if (s.epoch, s.step) == training_place),
            )
            return


def has_input_cause(analysis: RunAnalysis, batch: CheckResult) -> bool:
    """Return whether the attempt had other inputs before the first batch of another size.

    Then the size follows from the place in the data, and does not lead to it: a loader that lost
    its place runs out of samples sooner. A window of gradients that was lost is the first step that
    differs.
    """
    inputs = analysis.inputs
    if inputs is None or not inputs.is_repeatable or not batch.anomalies:
        return False
    steps = [analysis.history[number].event for number in batch.anomalies[0].events]
    size_places = {(s.attempt, s.epoch, s.step) for s in steps if isinstance(s, StepDone)}
    return bool(size_places) and all(
        any(
            difference.first_step.attempt == attempt
            and (difference.epoch, difference.first_step.step) < (epoch, step)
            for difference in inputs.differing_epochs
        )
        for attempt, epoch, step in size_places
    )
