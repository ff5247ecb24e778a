"""Checks of the place in training: no step twice, none left out, and every epoch once."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from chaos.check.analysis import RunAnalysis, RunTables
from chaos.check.anomaly import build_anomaly
from chaos.check.cadence import find_cadence_changes
from chaos.check.kinds.base import Facts
from chaos.check.kinds.epochs import (
    DependentBeganEarly,
    EpochFacts,
    EpochLengthDiffers,
    EpochMetricDiffers,
    EpochRepeated,
    EpochsLeftOut,
    InputsLeftOut,
    InputsTrainedAgain,
    OptimizerStepsShifted,
    ResumePlace,
    StepsRepeated,
    StepsSkipped,
    StepTotalDiffers,
    TooFewEpochs,
    TooManyEpochs,
)
from chaos.check.prose.registry import describe_finding
from chaos.check.restarts import RepeatedSteps, Restart
from chaos.check.result import (
    builtin_check,
    conclude,
    inconclusive,
    judge_no_restart,
    not_applicable,
)
from chaos.model.event import DependentSeen
from chaos.model.verdict import Anomaly, CheckResult
from chaos.resume.attempt import Commit, RankStart
from chaos.wording import plural

# -- cursor ----------------------------------------------------------------------------------------


CURSOR = "cursor"


@builtin_check(CURSOR, asks="Did every restart go on at the place that its checkpoint says?")
def check_cursor(analysis: RunAnalysis) -> CheckResult:
    """Require that training continues where the checkpoint left it: no step twice, none left out.

    The first epoch after a restart has the baseline's number of steps per rank. Another number
    shows a part that is done twice (Lightning-AI/pytorch-lightning#19815) or left out
    (Lightning-AI/pytorch-lightning#5325). Nor are its inputs those of another place
    (Lightning-AI/pytorch-lightning#850). With `expect.sampling: at_least_once` that epoch may be
    longer by the steps that the restart discarded on the rank, and never shorter. The work after
    them has no equal in the baseline. An attempt with another number of workers is left out.
    """
    if not analysis.restarts:
        return judge_no_restart(CURSOR, analysis)
    if analysis.reference is None:
        return inconclusive(CURSOR, f"{analysis.no_baseline_reason} to count an epoch's steps by")
    comparable_restarts = [
        r for r in analysis.restarts if r.attempt.index not in analysis.resized_attempts
    ]
    if not comparable_restarts:
        return not_applicable(
            CURSOR, "after the restart an epoch has another number of workers' steps"
        )
    anomalies = [
        anomaly
        for restart in comparable_restarts
        for anomaly in list(_find_wrong_starts(restart, analysis, analysis.reference))
        or _find_shifted_inputs(restart, analysis)
    ]
    whole_count = sum(_count_whole_starts(restart, analysis) for restart in comparable_restarts)
    doubts = [
        *analysis.unknown_places.values(),
        *_describe_unfinished_epoch(comparable_restarts, analysis),
    ]
    repeated_steps = analysis.repeated_steps
    if repeated_steps and (analysis.inputs is None or not analysis.inputs.has_run_inputs):
        doubts.append(
            f"{_describe_repeats(repeated_steps)}; of which samples they were is not known"
        )
    if not (whole_count or anomalies or doubts):
        is_stopped = analysis.has_expected_error
        reason = "the job stopped, as expected, before it had an epoch whole again"
        return not_applicable(
            CURSOR, reason if is_stopped else "the restart had no step left to make"
        )
    return conclude(
        CURSOR,
        anomalies=anomalies,
        doubts=doubts,
        evidence=whole_count,
        summary=(
            _describe_repeats(repeated_steps) if repeated_steps else "no step repeated or skipped"
        )
        + f" after {plural(len(comparable_restarts), 'restart')}"
        + (", as `sampling: at_least_once` allows; none was skipped" if repeated_steps else ""),
    )


def _count_whole_starts(restart: Restart, analysis: RunAnalysis) -> int:
    return sum(
        _is_epoch_whole(restart, start, analysis) for start in _select_settled_starts(restart)
    )


def _describe_unfinished_epoch(restarts: Sequence[Restart], analysis: RunAnalysis) -> Iterator[str]:
    latest_restart = restarts[-1]
    if latest_restart is not analysis.restarts[-1] or analysis.has_expected_error:
        return
    # One that made no step and ended well had nothing left to train: `epochs` counts them all.
    is_idle = not latest_restart.attempt.steps and analysis.run.ending.is_finished
    if not is_idle and not _count_whole_starts(latest_restart, analysis):
        yield f"no rank finished the first epoch of attempt {latest_restart.attempt.index}"


def _describe_repeats(repeats: Sequence[RepeatedSteps]) -> str:
    """Return in words how many steps were repeated: those of the rank that repeated most."""
    steps_by_attempt: dict[int, int] = {}
    for repeat in repeats:
        steps_by_attempt[repeat.attempt] = max(
            steps_by_attempt.get(repeat.attempt, 0), repeat.steps
        )
    return f"{plural(sum(steps_by_attempt.values()), 'step')} trained a second time"


def _find_shifted_inputs(restart: Restart, analysis: RunAnalysis) -> Iterator[Anomaly]:
    # Asked only where the number of steps is right (`check_cursor`): a job that went back by a
    # whole epoch has epochs of the right length, and only its inputs show it.
    attempt_index = restart.attempt.index
    step_offset = analysis.input_offsets.get(attempt_index)
    if step_offset is None or -step_offset in {
        repeat.steps for repeat in analysis.repeated_steps if repeat.attempt == attempt_index
    }:
        return
    facts_type = InputsTrainedAgain if step_offset < 0 else InputsLeftOut
    yield build_anomaly(
        facts_type(attempt_index, restart.epoch, abs(step_offset)),
        analysis.launcher_words,
        events=(start.number for start in _select_settled_starts(restart)),
    )


def _select_settled_starts(restart: Restart) -> list[RankStart]:
    """Return the ranks whose place is known, in order."""
    return [start for _, start in sorted(restart.attempt.starts.items()) if start.is_settled]


def _is_epoch_whole(restart: Restart, start: RankStart, analysis: RunAnalysis) -> bool:
    """Return whether the rank made all the steps of its first epoch that it was going to make."""
    is_last = restart is analysis.restarts[-1]
    is_finished = is_last and analysis.run.ending.is_finished
    # By steps, all that the run has not made is laid into the last epoch that it has.
    last_epoch = max(analysis.run.lineage.steps_by_epoch, default=-1)
    is_open = analysis.is_step_aligned and start.epoch == last_epoch
    is_ended = restart.attempt.has_finished_epoch(start.rank, start.epoch)
    return is_finished or (is_ended and not is_open)


def _find_wrong_starts(
    restart: Restart, analysis: RunAnalysis, reference: RunTables
) -> Iterator[Anomaly]:
    for start in _select_settled_starts(restart):
        rank, epoch = start.rank, start.epoch
        steps = restart.attempt.select_steps(rank, epoch)
        cadences = list(_find_cadence_anomalies(analysis, restart, start, reference))
        if cadences:
            yield from cadences
            continue
        expected_count = reference.lineage.count_steps(rank, epoch) - start.step
        surplus = len(steps) - expected_count
        if surplus == 0 or (surplus < 0 and not _is_epoch_whole(restart, start, analysis)):
            continue
        lost_count = restart.repeatable_steps_by_rank.get(rank, 0)
        is_repeat_allowed = analysis.plan.expect.sampling == "at_least_once"
        if is_repeat_allowed and 0 < surplus <= lost_count:
            continue
        resume = _find_resume_place(restart)
        facts: Facts = StepsSkipped(rank, epoch, len(steps), expected_count, resume)
        if surplus > 0:
            allowed_surplus = lost_count if is_repeat_allowed else None
            facts = StepsRepeated(rank, epoch, len(steps), expected_count, allowed_surplus, resume)
        yield build_anomaly(
            facts,
            analysis.launcher_words,
            events=(start.number, *(s.number for s in steps[expected_count:])),
        )


def _find_cadence_anomalies(
    analysis: RunAnalysis, restart: Restart, start: RankStart, reference: RunTables
) -> Iterator[Anomaly]:
    """Yield each optimizer that stepped after other batches than in the baseline."""
    lineage, rank = reference.lineage, start.rank
    optimizers = lineage.optimizer_steps.get(rank, {})
    if len(optimizers) == 1:
        return
    baseline_steps = [
        step
        for epoch in lineage.epochs_by_rank.get(rank, ())
        for step in lineage.select_steps(rank, epoch)
    ]
    split_index = sum((step.epoch, step.step) <= start.training_place for step in baseline_steps)
    run_steps = restart.attempt.steps.steps_by_rank.get(rank, ())
    for change in find_cadence_changes(
        run_steps, baseline_steps[split_index:], optimizers, baseline_steps[:split_index]
    ):
        yield build_anomaly(
            OptimizerStepsShifted(rank, change, start.training_place),
            analysis.launcher_words,
            events=(start.number,),
        )


def _find_resume_place(restart: Restart) -> ResumePlace | None:
    """Return where an attempt resumed, and the evidence; None where there is none."""
    attempt = restart.attempt
    if attempt.training_place is None or not attempt.grounds:
        return None
    return ResumePlace(attempt.training_place, attempt.grounds)


# -- epochs ----------------------------------------------------------------------------------------


EPOCHS = "epochs"


@builtin_check(EPOCHS, asks="Was every epoch trained once, and as long as it should be?")
def check_epochs(analysis: RunAnalysis) -> CheckResult:
    """Require that the lineage commits epochs 0, 1, 2, … once each, as many as the baseline.

    Every epoch but the first after a restart (`cursor` judges those) has the baseline's number of
    steps per rank. The metric that carries the epoch, if the scenario names one, has the baseline's
    values. Known defects: ray-project/ray#46814, Lightning-AI/pytorch-lightning#850.

    The number of epochs is not compared where clean runs differ in it. Of a job that reports by the
    clock only the number of all steps is due. Where epochs end with saves, and another number of
    workers trained some, another number of epochs is no proof. A job that depends on this one
    (`job.then`) begins when all this is done.
    """
    run_lineage = analysis.run.lineage
    findings = [*_find_epoch_gaps(_find_finished_epochs(analysis.run))]
    doubts = []
    if analysis.reference is not None and analysis.is_step_aligned:
        findings += _compare_step_totals(analysis, analysis.reference)
    elif analysis.reference is not None:
        count_findings = [*_compare_epoch_count(analysis, analysis.reference)]
        if count_findings and analysis.resized_attempts and analysis.run.has_no_reports:
            finding_text = describe_finding(count_findings[0].facts, analysis.launcher_words)
            doubts.append(
                f"{finding_text}; with another "
                "number of workers the job may make, and save after, another number of steps, by "
                "which its epochs end"
            )
        else:
            findings += count_findings
        findings += _find_wrong_lengths(analysis, analysis.reference)
        findings += _compare_epoch_metric(analysis, analysis.reference)
        findings += _find_early_dependents(analysis, analysis.reference)
    elif analysis.plan.ops:
        doubts.append(f"{analysis.no_baseline_reason} to count epochs by")
    if not analysis.run.ending.is_finished and not analysis.has_expected_error:
        doubts.append("the job did not finish")
    summary = _describe_epochs(analysis)
    if (
        not run_lineage.commits
        and not run_lineage.steps
        and not doubts
        and analysis.has_expected_error
    ):
        return not_applicable(EPOCHS, summary)
    evidence = len(run_lineage.commits) + len(run_lineage.steps)
    return conclude(
        EPOCHS,
        anomalies=[*_build_anomalies(analysis, findings)],
        doubts=doubts,
        evidence=evidence,
        summary=summary,
    )


class _EpochFinding(NamedTuple):
    """A finding about epochs, before it is known whether it is the first one."""

    facts: EpochFacts
    events: Sequence[int]
    parts: tuple[str, ...] = ()
    is_result: bool | None = None


def _build_anomalies(analysis: RunAnalysis, findings: Iterable[_EpochFinding]) -> Iterator[Anomaly]:
    attempt_without_read = _find_attempt_without_read(analysis)
    for finding in findings:
        facts = replace(finding.facts, attempt_without_read=attempt_without_read)
        attempt_without_read = None  # the first finding alone has it
        yield build_anomaly(
            facts,
            analysis.launcher_words,
            events=finding.events,
            parts=finding.parts,
            is_result=finding.is_result,
        )


def _describe_epochs(analysis: RunAnalysis) -> str:
    epoch_text = plural(analysis.run.epochs_done, "epoch")
    if analysis.reference is None:
        return f"{epoch_text}, each once; nothing to compare with"
    if analysis.has_expected_error:
        return f"{epoch_text}, each once, until the job ended with the expected error"
    if analysis.has_varying_epochs:
        return f"{epoch_text}, each once; clean runs differ in how many they train"
    if analysis.is_step_aligned:
        steps = plural(analysis.run.lineage.step_count, "step")
        return f"{epoch_text}, each once; {steps} in all, as in the baseline"
    return f"{epoch_text}, each once, as in the baseline"


class _FinishedEpoch(NamedTuple):
    """An epoch that was done, and an event that shows it."""

    epoch: int
    number: int


def _find_finished_epochs(tables: RunTables) -> list[_FinishedEpoch]:
    """Return the epochs that were done.

    A job that keeps its state itself continues after an epoch whose report a fault cut off, or
    prevented. Of such a job, and of one that reports nothing, every epoch counts that was trained.
    """
    lineage = tables.lineage
    # Ray's commits are the epochs of a job that goes on from them. One with files of its own may be
    # killed between its save and its report, and rightly never reports that epoch: there the steps
    # show that it was trained, and the next attempt's place that it was saved.
    finished_epochs = [_FinishedEpoch(commit.epoch, commit.number) for commit in lineage.commits]
    if tables.has_no_checkpoints or tables.has_no_reports:
        committed_epochs = {epoch for epoch, _ in finished_epochs}
        final_steps = {e: steps[-1].number for (_, e), steps in lineage.steps.items() if steps}
        reported_epochs = {epoch for a in tables.attempts for _, epoch in a.reported_epochs}
        starts = [start for a in tables.attempts for start in a.starts.values() if start.has_moved]
        reported_epochs |= {start.epoch - 1 for start in starts if start.step == 0}
        if _has_nothing_left(tables):
            reported_epochs |= final_steps.keys()
        finished_epochs += [
            _FinishedEpoch(e, n)
            for e, n in final_steps.items()
            if e in reported_epochs - committed_epochs
        ]
        finished_epochs.sort()
    return finished_epochs


def _has_nothing_left(tables: RunTables) -> bool:
    """Return whether the last attempt found, in a store of its own, that nothing was left to do."""
    latest_attempt = next(reversed(tables.attempts), None)
    is_idle = (
        latest_attempt is not None
        and latest_attempt.index > 0
        and not latest_attempt.steps
        and latest_attempt.training_place is None
    )
    return is_idle and tables.ending.is_finished


def _find_epoch_gaps(finished_epochs: list[_FinishedEpoch]) -> Iterator[_EpochFinding]:
    expected_epoch = 0
    for epoch, number in finished_epochs:
        if epoch < expected_epoch:
            yield _EpochFinding(EpochRepeated(epoch), (number,))
        elif epoch > expected_epoch:
            yield _EpochFinding(EpochsLeftOut(expected_epoch, epoch - 1, epoch), (number,))
        expected_epoch = max(expected_epoch, epoch + 1)


def _compare_epoch_count(analysis: RunAnalysis, reference: RunTables) -> Iterator[_EpochFinding]:
    run_epochs, expected_count = (
        _find_finished_epochs(analysis.run),
        _count_baseline_epochs(reference),
    )
    if analysis.has_varying_epochs:
        return
    numbers = [number for _, number in run_epochs]
    if len(run_epochs) > expected_count:
        facts = TooManyEpochs(len(run_epochs), expected_count)
        yield _EpochFinding(facts, numbers[expected_count:])
    elif len(run_epochs) < expected_count and analysis.run.ending.is_finished:
        yield _EpochFinding(TooFewEpochs(len(run_epochs), expected_count), numbers[-1:])


def _count_baseline_epochs(reference: RunTables) -> int:
    """Return the number of epochs of the baseline."""
    return len(
        _find_finished_epochs(reference) if reference.has_no_reports else reference.lineage.commits
    )


def _find_early_dependents(analysis: RunAnalysis, reference: RunTables) -> Iterator[_EpochFinding]:
    """Yield each dependent job that began before the last epoch was done, or the last step made.

    Epochs are not counted where their number is no proof: see `check_epochs`.
    """
    finished_epochs, expected_count = (
        _find_finished_epochs(analysis.run),
        _count_baseline_epochs(reference),
    )
    is_counted = not (
        analysis.has_varying_epochs or analysis.resized_attempts or analysis.is_step_aligned
    )
    for number, dependent in analysis.history.select_events(DependentSeen):
        finished_count = sum(epoch.number < number for epoch in finished_epochs)
        later_steps = [
            step.number for step in analysis.run.lineage.all_steps() if step.number > number
        ]
        if dependent.began and (later_steps or (is_counted and finished_count < expected_count)):
            facts = DependentBeganEarly(
                dependent.script, dependent.dependency_kind, finished_count, expected_count
            )
            yield _EpochFinding(facts, (number, *later_steps[:1]))


def _compare_step_totals(analysis: RunAnalysis, reference: RunTables) -> Iterator[_EpochFinding]:
    run_lineage, baseline_lineage = analysis.run.lineage, reference.lineage
    for rank in (
        baseline_lineage.ranks
        if analysis.run.ending.is_finished and not analysis.resized_attempts
        else ()
    ):
        run_total, baseline_total = (
            sum(lineage.count_steps(rank, epoch) for epoch in lineage.epochs_by_rank.get(rank, ()))
            for lineage in (run_lineage, baseline_lineage)
        )
        if run_total != baseline_total:
            numbers = [step.number for step in run_lineage.all_steps() if step.rank == rank]
            facts = StepTotalDiffers(rank, run_total, baseline_total)
            yield _EpochFinding(facts, numbers[-1:], is_result=False)


def _find_wrong_lengths(analysis: RunAnalysis, reference: RunTables) -> Iterator[_EpochFinding]:
    run_lineage, baseline_lineage = analysis.run.lineage, reference.lineage
    committed_epochs = {commit.epoch for commit in run_lineage.commits}
    baseline_epochs = {c.epoch for c in baseline_lineage.commits}
    if reference.has_no_reports:
        committed_epochs, baseline_epochs = (
            {e for e, _ in _find_finished_epochs(c)} for c in (analysis.run, reference)
        )
        if not analysis.run.ending.is_finished:
            # A save as the job is ended, within a notice, looks like the end of its last epoch.
            final_epochs = {max(committed_epochs, default=-1)}
            committed_epochs, baseline_epochs = (
                committed_epochs - final_epochs,
                baseline_epochs - final_epochs,
            )
    for rank, epoch in sorted(
        set(run_lineage.steps) | set(baseline_lineage.steps), key=lambda key: key[::-1]
    ):
        surplus = run_lineage.count_steps(rank, epoch) - baseline_lineage.count_steps(rank, epoch)
        # Each length is judged once: a surplus or missing epoch by its number, one that was resumed
        # in by `cursor`, and the others here.
        if (
            surplus == 0
            or (rank, epoch) in run_lineage.resumed_epochs
            or epoch in baseline_epochs ^ committed_epochs
        ):
            continue
        if analysis.has_varying_epochs and epoch > max(baseline_epochs, default=-1):
            continue  # the baseline never came there
        if any(
            step.attempt in analysis.resized_attempts for step in run_lineage.select_steps(0, epoch)
        ):
            continue  # with another number of workers, an epoch has another number of steps
        is_whole = epoch in committed_epochs or analysis.run.ending.is_finished
        if surplus > 0 or is_whole:
            steps = run_lineage.select_steps(rank, epoch)
            yield _EpochFinding(
                EpochLengthDiffers(
                    rank, epoch, len(steps), baseline_lineage.count_steps(rank, epoch)
                ),
                [step.number for step in steps[-1:]],
                is_result=False,  # a count: what was trained in these steps is the result
            )


def _compare_epoch_metric(analysis: RunAnalysis, reference: RunTables) -> Iterator[_EpochFinding]:
    key = analysis.plan.job.epoch_metric
    if key is None:
        return
    baseline_commits = {commit.epoch: commit for commit in reference.lineage.commits}
    for run_commit in analysis.run.lineage.commits:
        baseline_values = (
            _select_metric_values(baseline_commits[run_commit.epoch], key)
            if run_commit.epoch in baseline_commits
            else None
        )
        run_values = _select_metric_values(run_commit, key)
        is_resized = run_commit.attempt in analysis.resized_attempts
        if baseline_values is not None and (run_commit.has_only_rank_0 or is_resized):
            shared_count = min(len(run_values), len(baseline_values))
            run_values, baseline_values = run_values[:shared_count], baseline_values[:shared_count]
        if baseline_values is not None and run_values != baseline_values:
            facts = EpochMetricDiffers(
                run_commit.epoch, key, tuple(run_values), tuple(baseline_values)
            )
            yield _EpochFinding(facts, (run_commit.number,), parts=(key,))
            return


def _select_metric_values(commit: Commit, key: str) -> list[object]:
    return [metrics.get(key) for metrics in commit.metrics]


def _find_attempt_without_read(analysis: RunAnalysis) -> int | None:
    """Return an attempt that trained, and none of whose ranks read the checkpoint it was handed."""
    for restart in analysis.restarts:
        checkpoints = [
            checkpoint for checkpoint in restart.checkpoints.values() if checkpoint is not None
        ]
        if checkpoints and restart.attempt.steps and not restart.attempt.reading_ranks:
            return restart.attempt.index
    return None
