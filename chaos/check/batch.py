"""Did every optimizer step see as much as the baseline's?"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from chaos.check.attempt import Step
from chaos.check.lineage import Lineage
from chaos.check.result import conclude, nothing_due, plural, ranks, unknown
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
    and neither are the steps of an attempt that went on at another place. What
    one of the two runs does not tell of a rank is counted in neither.
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
    return any(
        (mine := count(ours)) is not None and (theirs := count(due)) is not None and mine != theirs
        for count in (_samples, _micro_batches)
    )


def _samples(step: Step) -> int | None:
    return None if step.inputs is None else step.inputs.count


def _micro_batches(step: Step) -> int | None:
    """Count the losses, None where there are none: they were not watched, or never resolved."""
    return len(step.losses) if step.losses else None


@dataclass(frozen=True, slots=True)
class _Total:
    """A number over all ranks of which both runs tell it; `unknown` are the others."""

    ours: int
    due: int
    ranks: int
    unknown: tuple[int, ...]


def _total(
    ours: Lineage, due: Lineage, place: tuple[int, int], count: Callable[[Step], int | None]
) -> _Total:
    mine = theirs = known = 0
    unknown = []
    for rank in sorted({*ours.ranks, *due.ranks}):
        steps = ours.at(rank, *place), due.at(rank, *place)
        one, other = (0 if step is None else count(step) for step in steps)
        if one is None or other is None:
            unknown.append(rank)
        elif any(steps):
            mine, theirs, known = mine + one, theirs + other, known + 1
    return _Total(mine, theirs, known, tuple(unknown))


def _anomalies(apart: list[Step], ours: Lineage, due: Lineage) -> Iterator[Anomaly]:
    for epoch, number in sorted({(step.epoch, step.step) for step in apart}):
        samples = _total(ours, due, (epoch, number), _samples)
        parts = _total(ours, due, (epoch, number), _micro_batches)
        if samples.ours != samples.due or parts.ours != parts.due:
            there = [s.number for s in apart if (s.epoch, s.step) == (epoch, number)]
            yield Anomaly(
                message=f"step {number} of epoch {epoch} saw "
                f"{_say(samples, samples.ours, parts, parts.ours)}, in the baseline "
                f"{_say(samples, samples.due, parts, parts.due)}{_but(samples, parts)}",
                events=tuple(there),
            )
            return


def _say(samples: _Total, of_samples: int, parts: _Total, of_parts: int) -> str:
    many = plural(of_samples, "sample") if samples.ranks else "an unknown number of samples"
    few = plural(of_parts, "micro-batch", "micro-batches")
    return f"{many} in {few if parts.ranks else 'an unknown number of micro-batches'}"


def _but(samples: _Total, parts: _Total) -> str:
    """Say what is not counted, where it is counted on other ranks."""
    some = [
        f"; the {name} of {ranks(total.unknown)} are not known and not counted"
        for name, total in (("samples", samples), ("micro-batches", parts))
        if total.ranks and total.unknown
    ]
    return "".join(some)
