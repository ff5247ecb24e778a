"""The check of the size of each batch."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from chaos.check.analysis import RunAnalysis, RunTables
from chaos.check.compare import Aligned
from chaos.check.lineage import Lineage
from chaos.check.result import (
    conclude,
    inconclusive,
    nothing_due,
    of_another_size,
    own_check,
)
from chaos.check.steps import Step
from chaos.model.event import StepDone
from chaos.model.places import Place, RankEpoch
from chaos.model.verdict import Anomaly, CheckResult
from chaos.words import plural, ranks

T = TypeVar("T")

BATCH = "batch"


@own_check(BATCH, asks="Did every optimizer step see as much as the baseline's?")
def check_batch(analysis: RunAnalysis) -> CheckResult:
    """Require the baseline's samples, summed over ranks, and its micro-batches in each step.

    The promise of the effective batch. Gradients that were being accumulated when the checkpoint
    was taken are lost (huggingface/transformers#22143), or ranks that are missing make the batch
    smaller (pytorch/torchtitan PR #4663). Of a step whose pending gradients came back with the
    save, the micro-batches before it count as made. Sizes that differ already before any fault do
    not repeat and are not compared. Neither are the steps of an attempt that continued at another
    place, or with another number of workers. Where one of the two runs lacks a rank's numbers, the
    rank is counted in neither. Inconclusive where the size of no batch of a resumed attempt was
    seen, though the baseline's were.
    """
    if not analysis.plan.ops:
        return nothing_due(BATCH, "no fault was planned, so there is nothing to compare")
    if analysis.reference is None:
        return inconclusive(BATCH, f"{analysis.no_reference} to compare with")
    idle = _why_no_batch_is_due(analysis, analysis.reference)
    if idle is not None:
        return nothing_due(BATCH, idle)
    seen = _batch_sizes(analysis)
    varies = any(step.number < analysis.began for step in seen.apart)
    ours, theirs = analysis.run.lineage, analysis.reference.lineage
    summary = (
        f"{plural(seen.compared, 'step')} over batches as large as the baseline's"
        f"{of_another_size(analysis)}"
    )
    if varies:
        summary = "batches vary from run to run, before any fault as well"
    return conclude(
        BATCH,
        anomalies=[] if varies else list(_batch_anomalies(seen.apart, ours, theirs)),
        doubts=[
            f"how large the batches of attempt {index} were was not seen"
            for index in sorted(seen.due - seen.known)
            if index > 0
        ],
        evidence=seen.compared,
        summary=summary,
    )


def _why_no_batch_is_due(analysis: RunAnalysis, reference: RunTables) -> str | None:
    if not reference.lineage.steps:
        return "the job makes no optimizer step that could be watched"
    if not any(map(_is_told, reference.lineage.all_steps())):
        return "the baseline tells no samples and no losses of a step"
    if analysis.error_was_expected and not analysis.run.lineage.steps:
        return "the job ended with the expected error before its first step"
    if not analysis.aligned and analysis.resized:
        return "every step that survived was made with another number of workers"
    return None


@dataclass
class _BatchSizes:
    """Steps and the baseline's, but for those from attempt `since` on.

    `apart` have another size. `compared` counts those whose size is known in both runs. `due` are
    the attempts for which the baseline has some, `known` those for which the run has some as well.
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
            count = _sample_count if theirs.inputs is not None else _micro_batches
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


def _batch_sizes(analysis: RunAnalysis) -> _BatchSizes:
    seen = _BatchSizes(min(analysis.input_offsets, default=math.inf))
    for group in analysis.aligned_before:
        if not (group.has_equal_losses and group.has_equal_inputs):
            seen.add(group, survived=False)
    again = {RankEpoch(made.rank, made.epoch) for made in analysis.repeated_steps}
    for group in analysis.aligned:
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
        for count in (_sample_count, _micro_batches)
    )


def _is_told(step: Step) -> bool:
    return any(count(step) is not None for count in (_sample_count, _micro_batches))


def _sample_count(step: Step) -> int | None:
    return None if step.inputs is None else step.inputs.count


def _micro_batches(step: Step) -> int | None:
    """Return the number of losses; None without any: not watched, or never resolved."""
    return len(step.losses) if step.losses else None


@dataclass(frozen=True, slots=True)
class _Total:
    """A number over all ranks for which both runs have it; `unknown` are the others."""

    ours: int
    due: int
    ranks: int
    unknown: tuple[int, ...]


def _total(
    ours: Lineage, due: Lineage, place: Place, count: Callable[[Step], int | None]
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


def _batch_anomalies(apart: list[Step], ours: Lineage, due: Lineage) -> Iterator[Anomaly]:
    for place in sorted({Place(step.epoch, step.step) for step in apart}):
        samples = _total(ours, due, place, _sample_count)
        parts = _total(ours, due, place, _micro_batches)
        if samples.ours != samples.due or parts.ours != parts.due:
            there = [s.number for s in apart if (s.epoch, s.step) == place]
            yield Anomaly(
                message=f"step {place.step} of epoch {place.epoch} saw "
                f"{_batch_words(samples, samples.ours, parts, parts.ours)}, in the baseline "
                f"{_batch_words(samples, samples.due, parts, parts.due)}"
                f"{_unknown_words(samples, parts)}",
                events=tuple(there),
            )
            return


def follows_other_inputs(analysis: RunAnalysis, batch: CheckResult) -> bool:
    """Return whether the attempt had other inputs before the first batch of another size.

    Then the size follows from the place in the data, and does not lead to it: a loader that lost
    its place runs out of samples sooner. A window of gradients that was lost is the first step that
    differs.
    """
    feeds = analysis.inputs
    if feeds is None or not feeds.repeat or not batch.anomalies:
        return False
    steps = [analysis.history[number].what for number in batch.anomalies[0].events]
    sizes = {(s.attempt, s.epoch, s.step) for s in steps if isinstance(s, StepDone)}
    return bool(sizes) and all(
        any(
            a.first.attempt == attempt and (a.epoch, a.first.step) < (epoch, step)
            for a in feeds.apart
        )
        for attempt, epoch, step in sizes
    )


def _batch_words(samples: _Total, of_samples: int, parts: _Total, of_parts: int) -> str:
    many = plural(of_samples, "sample") if samples.ranks else "an unknown number of samples"
    few = plural(of_parts, "micro-batch", "micro-batches")
    return f"{many} in {few if parts.ranks else 'an unknown number of micro-batches'}"


def _unknown_words(samples: _Total, parts: _Total) -> str:
    """Return in words the ranks that are not counted, where others are."""
    some = [
        f"; the {name} of {ranks(total.unknown)} are not known and not counted"
        for name, total in (("samples", samples), ("micro-batches", parts))
        if total.ranks and total.unknown
    ]
    return "".join(some)
