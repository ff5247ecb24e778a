"""Did every optimizer step see as much as the baseline's?"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from chaos.check.aligned import Aligned
from chaos.check.attempt import Step
from chaos.check.lineage import Lineage
from chaos.check.repeats import repeats
from chaos.check.result import (
    conclude,
    nothing_due,
    of_another_size,
    plural,
    ranks,
    unknown,
)
from chaos.check.shift import shifts
from chaos.check.trial import Course, Trial
from chaos.model.verdict import Anomaly, CheckResult

NAME = "batch"


def check(trial: Trial) -> CheckResult:
    """Require the baseline's samples, summed over ranks, and its micro-batches in each step.

    The promise of the effective batch: gradients that were being accumulated
    when the checkpoint was taken are lost (huggingface/transformers#22143), or
    ranks that are missing make the batch smaller (pytorch/torchtitan PR #4663).
    What differs before any fault already does not repeat and is not compared,
    and neither are the steps of an attempt that went on at another place, or
    with another number of workers. What one of the two runs does not tell of a
    rank is counted in neither. Unknown where the size of no batch of a resumed
    attempt was seen, though the baseline's were.
    """
    if not trial.plan.ops:
        return nothing_due(NAME, "no fault was planned, so there is nothing to compare")
    if trial.reference is None:
        return unknown(NAME, f"{trial.no_reference} to compare with")
    idle = _why_nothing_is_due(trial, trial.reference)
    if idle is not None:
        return nothing_due(NAME, idle)
    seen = _looked_at(trial)
    varies = any(step.number < trial.began for step in seen.apart)
    ours, theirs = trial.run.lineage, trial.reference.lineage
    summary = (
        f"{plural(seen.compared, 'step')} over batches as large as the baseline's"
        f"{of_another_size(trial)}"
    )
    if varies:
        summary = "batches vary from run to run, before any fault as well"
    return conclude(
        NAME,
        anomalies=[] if varies else list(_anomalies(seen.apart, ours, theirs)),
        doubts=[
            f"how large the batches of attempt {index} were was not seen"
            for index in sorted(seen.due - seen.known)
            if index > 0
        ],
        evidence=seen.compared,
        summary=summary,
    )


def _why_nothing_is_due(trial: Trial, reference: Course) -> str | None:
    if not reference.lineage.steps:
        return "the job makes no optimizer step that could be watched"
    if not any(map(_is_told, reference.lineage.all_steps())):
        return "the baseline tells no samples and no losses of a step"
    if trial.error_was_expected and not trial.run.lineage.steps:
        return "the job ended with the expected error before its first step"
    if not trial.aligned and trial.resized:
        return "every step that survived was made with another number of workers"
    return None


@dataclass
class _Seen:
    """Steps beside the baseline's, but for those from attempt `since` on.

    `apart` have another size, `compared` counts those whose size both runs
    tell; `due` are the attempts of which the baseline tells some, `known`
    those of which the run does as well.
    """

    since: float
    apart: list[Step] = field(default_factory=list)
    compared: int = 0
    due: set[int] = field(default_factory=set)
    known: set[int] = field(default_factory=set)

    def add(self, group: Aligned, *, survived: bool) -> None:
        for step, theirs in group.pairs():
            if theirs is None or step.attempt >= self.since:
                continue
            if _sizes_differ(step, theirs):
                self.apart.append(step)
            count = _samples if theirs.inputs is not None else _micro_batches
            if survived and count(theirs) is not None:
                self.due.add(step.attempt)
                if count(step) is not None:
                    self.known.add(step.attempt)
                    self.compared += 1

    def add_equal(self, group: Aligned) -> None:
        attempts = {group.ours[0].attempt, group.ours[-1].attempt}
        if group.ours[-1].attempt < self.since:
            self.compared += len(group.ours)
            self.due |= attempts
            self.known |= attempts


def _looked_at(trial: Trial) -> _Seen:
    seen = _Seen(min(shifts(trial), default=math.inf))
    for group in trial.aligned_before:
        if not (group.has_equal_losses and group.has_equal_inputs):
            seen.add(group, survived=False)
    again = {(made.rank, made.epoch) for made in repeats(trial)}
    for group in trial.aligned:
        if group.key in again:
            continue
        if group.has_equal_losses and group.has_equal_inputs:
            seen.add_equal(group)
        else:
            seen.add(group, survived=True)
    return seen


def _sizes_differ(ours: Step, due: Step) -> bool:
    return any(
        (mine := count(ours)) is not None and (theirs := count(due)) is not None and mine != theirs
        for count in (_samples, _micro_batches)
    )


def _is_told(step: Step) -> bool:
    return any(count(step) is not None for count in (_samples, _micro_batches))


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
