"""Did every optimizer step see as much as the baseline's?"""

from collections.abc import Iterator

from chaos.check.attempt import Step
from chaos.check.lineage import Lineage
from chaos.check.result import conclude, nothing_due, plural, unknown
from chaos.check.shift import shifts
from chaos.check.trial import Trial
from chaos.model.verdict import Anomaly, CheckResult

NAME = "batch"


def check(trial: Trial) -> CheckResult:
    """Require the baseline's samples, summed over ranks, and its micro-batches in each step.

    The promise of the effective batch: gradients that were being accumulated
    when the checkpoint was taken are lost (huggingface/transformers#22143), or
    ranks that are missing make the batch smaller (pytorch/torchtitan PR #4663).
    What differs before any fault already does not repeat and is not compared,
    and neither are the steps of an attempt that went on at another place.
    """
    if not trial.plan.ops:
        return nothing_due(NAME, "no fault was planned, so there is nothing to compare")
    if trial.reference is None:
        return unknown(NAME, f"{trial.no_reference} to compare with")
    if not any(trial.reference.lineage.steps):
        return nothing_due(NAME, "the job makes no optimizer step that could be watched")
    apart = list(_apart(trial))
    varies = any(step.number < trial.began for step in apart)
    anomalies = (
        [] if varies else list(_anomalies(apart, trial.run.lineage, trial.reference.lineage))
    )
    steps = sum(len(steps) for steps in trial.run.lineage.steps.values())
    if not steps and trial.error_was_expected:
        return nothing_due(NAME, "the job ended with the expected error before its first step")
    summary = f"{plural(steps, 'step')} over batches as large as the baseline's"
    if varies:
        summary = "batches vary from run to run, before any fault as well"
    return conclude(NAME, anomalies=anomalies, evidence=steps, summary=summary)


def _apart(trial: Trial) -> Iterator[Step]:
    """Give the steps whose size is not the baseline's, rank by rank."""
    shifted = shifts(trial)
    since = min(shifted, default=None)
    for group in (*trial.aligned_before, *trial.aligned):
        if group.has_equal_losses and group.has_equal_inputs:
            continue
        for step, theirs in group.pairs():
            is_elsewhere = since is not None and step.attempt >= since
            if theirs is not None and not is_elsewhere and _sizes_differ(step, theirs):
                yield step


def _sizes_differ(ours: Step, due: Step) -> bool:
    if ours.inputs is not None and due.inputs is not None and ours.inputs.count != due.inputs.count:
        return True
    return bool(ours.losses and due.losses) and len(ours.losses or ()) != len(due.losses or ())


def _anomalies(apart: list[Step], ours: Lineage, due: Lineage) -> Iterator[Anomaly]:
    for epoch, number in sorted({(step.epoch, step.step) for step in apart}):
        mine, theirs = _size(ours, epoch, number), _size(due, epoch, number)
        if mine != theirs:
            there = [s.number for s in apart if (s.epoch, s.step) == (epoch, number)]
            yield Anomaly(
                message=f"step {number} of epoch {epoch} saw {_say(mine)}, in the baseline "
                f"{_say(theirs)}",
                events=tuple(there),
            )
            return


def _size(course: Lineage, epoch: int, number: int) -> tuple[int, int]:
    """Give a step's samples and micro-batches, over all ranks."""
    steps = [step for rank in course.ranks if (step := course.at(rank, epoch, number))]
    samples = sum(step.inputs.count for step in steps if step.inputs is not None)
    return samples, sum(len(step.losses or ()) for step in steps)


def _say(size: tuple[int, int]) -> str:
    samples, parts = size
    return f"{plural(samples, 'sample')} in {plural(parts, 'micro-batch', 'micro-batches')}"
