"""The verdict on a run, from all checks."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Protocol

from chaos.check import (
    artifacts,
    batch,
    budgets,
    checkpoints,
    epochs,
    evidence,
    metrics,
    outcome,
    processes,
    progress,
    resume,
    samples,
    state,
    trajectory,
)
from chaos.check.analysis import RunAnalysis
from chaos.check.code_lines import find_code_lines
from chaos.check.data_warnings import find_data_warnings
from chaos.check.diagnosis import diagnose_resumes
from chaos.check.evidence import has_no_effect
from chaos.check.external_checks import ExternalChecks
from chaos.check.grade import accept_failures, grade_results
from chaos.check.headline import build_headline
from chaos.check.result import not_applicable
from chaos.check.results import WITHOUT_CONSEQUENCE, compare_results, judge_by_results
from chaos.check.resumes import count_restarts
from chaos.faults.world import LauncherFeature
from chaos.model.arguments import build_command_line
from chaos.model.diagnosis import Resume
from chaos.model.event import JournalCut, StartedAgain
from chaos.model.expect import VerdictStatus
from chaos.model.history import History
from chaos.model.masking import mask_words
from chaos.model.plan import Plan
from chaos.model.verdict import CheckResult, Verdict
from chaos.resume.regrid import BY_REPORTS, WHY_NOT
from chaos.resume.state_snapshots import is_rng


class Check(Protocol):
    """One promise: a function of chaos's own, or a module of another package."""

    NAME: str

    def check(self, analysis: RunAnalysis) -> CheckResult:
        """Judge one run."""


# The first two judge the evidence, and never fail.
# The others follow from the most specific promise to the one that almost every defect breaks.
CHECKS: tuple[Check, ...] = (
    evidence.check_faults_happened,
    evidence.check_watched,
    resume.check_start_decision,
    resume.check_committed_only,
    resume.check_agreement,
    resume.check_resume_point,
    epochs.check_cursor,
    state.check_state,
    state.check_rank_randomness,
    state.check_replicas,
    metrics.check_selection,
    batch.check_batch,
    samples.check_sample_order,
    samples.check_samples,
    epochs.check_epochs,
    metrics.check_metrics,
    checkpoints.check_retention,
    checkpoints.check_checkpoints,
    artifacts.check_artifacts,
    processes.check_single_writer,
    processes.check_bystanders,
    processes.check_leftovers,
    budgets.check_retry_budget,
    budgets.check_attempts,
    processes.check_drain,
    checkpoints.check_ack,
    outcome.check_outcome,
    progress.check_recovery,
    progress.check_lost_work,
    progress.check_progress,
    progress.check_terminates,
    trajectory.check_trajectory,
)

# They compare with the baseline, and a step made twice makes another model.
_NEED_EQUAL_STEPS = frozenset({state.STATE, metrics.SELECTION, trajectory.TRAJECTORY})
# They compare what follows a resume with the baseline at the same place.
_NEED_TRAINING_PLACES = _NEED_EQUAL_STEPS | {
    resume.AGREEMENT,
    resume.RESUME_POINT,
    epochs.CURSOR,
    epochs.EPOCHS,
    state.REPLICAS,
    batch.BATCH,
    samples.SAMPLE_ORDER,
    samples.SAMPLES,
    metrics.METRICS,
    artifacts.ARTIFACTS,
    progress.LOST_WORK,
}
# The source of each check's evidence, if it is not the workers: reports and commits, or a
# cluster's notices and the trials of Ray Tune, or a count of restarts. Under a launcher without it,
# none is due.
NEEDS: Mapping[str, LauncherFeature] = {
    budgets.RETRY_BUDGET: "budget",
    metrics.SELECTION: "reports",
    metrics.METRICS: "reports",
    checkpoints.RETENTION: "reports",
    checkpoints.ACK: "reports",
    processes.BYSTANDERS: "cluster",
    processes.DRAIN: "cluster",
}
NO_OTHERS = ExternalChecks()


def judge(
    plan: Plan,
    history: History,
    baseline: History | None = None,
    external_checks: ExternalChecks = NO_OTHERS,
) -> Verdict:
    """Return the verdict on one run; `external_checks`: the checks of other packages."""
    return judge_analysis(RunAnalysis(plan, history, baseline), external_checks)


def judge_analysis(analysis: RunAnalysis, external_checks: ExternalChecks = NO_OTHERS) -> Verdict:
    """Return the verdict on one run by its tables, which its pages can use again."""
    return build_verdict(
        analysis, judge_by_results(analysis, run_checks(analysis, external_checks))
    )


def run_checks(
    analysis: RunAnalysis, external_checks: ExternalChecks = NO_OTHERS
) -> tuple[CheckResult, ...]:
    """Return what each check says by itself, before the results of the run decide."""
    return grade_results(
        analysis, _sort_by_cause(analysis, tuple(_run_checks(analysis, external_checks)))
    )


def build_verdict(analysis: RunAnalysis, check_results: tuple[CheckResult, ...]) -> Verdict:
    """Return the verdict that follows from the results of all checks."""
    results, acceptance_notes = accept_failures(analysis.plan.expect, check_results)
    status, resumes = _decide_status(analysis, results), _diagnose_resumes(analysis, results)
    first_failure = next((result for result in results if result.status == "fail"), None)
    return Verdict(
        status=status,
        headline=build_headline(analysis, results, status, accepted_count=len(acceptance_notes)),
        as_expected=_is_expected(analysis, status, results),
        is_news=_is_news(analysis, status, results),
        expectation=_describe_expectation(analysis, status, results),
        results=results,
        compared=compare_results(check_results),
        diagnosis=resumes,
        lines=find_code_lines(analysis, first_failure, resumes),
        notes=(*acceptance_notes, *_find_latent_notes(results), *_find_notes(analysis)),
        restarts=count_restarts(analysis),
    )


def _find_latent_notes(results: tuple[CheckResult, ...]) -> Iterator[str]:
    for result in results:
        for anomaly in result.latent:
            yield f"latent: {result.check}: {anomaly.message}; {WITHOUT_CONSEQUENCE}"


def _find_notes(analysis: RunAnalysis) -> Iterator[str]:
    """Yield notes on parts of the state without consequence, on data, on files, and on the end."""
    rows = () if analysis.reference is None else state.find_harmless_rows(analysis)
    # Generators are left out: most jobs have some that they never draw from.
    components = sorted({row.component for row in rows if not is_rng(row.component)})
    if components:
        yield (
            f"{', '.join(components)} did not come back at a resume; no later loss or metric "
            f"and no "
            "part of the model shows it"
        )
    tables = analysis.reference
    if tables is None and not analysis.plan.ops and analysis.run.ending.is_finished:
        tables = analysis.run
    yield from () if tables is None else find_data_warnings(tables.lineage)
    yield from artifacts.describe_harmless_differences(analysis)
    yield from _find_argument_notes(analysis)
    yield from analysis.plan.job.launcher_facts.describe_starts(analysis)
    yield from filter(None, [analysis.run.ending.late_failure])


def _find_argument_notes(analysis: RunAnalysis) -> Iterator[str]:
    """Yield a note on starts without the arguments of a restart, which had nothing to read yet."""
    starts = [
        str(event.start)
        for _, event in analysis.history.select_events(StartedAgain)
        if event.has_first_args
    ]
    if starts:
        arguments = shlex.join(
            map(str, mask_words(build_command_line(analysis.plan.job.restart_args)))
        )
        yield (
            f"tried without `{arguments}`: start {' and '.join(starts)} of the command; the job's "
            "first save was not there yet"
        )


def _diagnose_resumes(
    analysis: RunAnalysis, results: tuple[CheckResult, ...]
) -> tuple[Resume, ...]:
    try:
        return diagnose_resumes(analysis, results)
    except Exception as error:  # noqa: BLE001 (a table that fails must not hide the verdict)
        reason = f"the diagnosis itself failed: {type(error).__name__}: {error}"
        blank = Resume(
            attempt=0, epoch=0, step=0, checkpoint=None, sound=False, sentence=reason, parts=()
        )
        return (blank,)


def _run_checks(analysis: RunAnalysis, external_checks: ExternalChecks) -> Iterator[CheckResult]:
    """Yield each check's result; others' come before the one that almost every defect breaks."""
    *specific_checks, last_check = CHECKS
    yield from (_run_check(check, analysis) for check in specific_checks)
    for external_check in external_checks.installed:
        result = _run_check(external_check.extension, analysis)
        yield result.replace(package=external_check.package)
    yield from external_checks.report_missing()
    yield _run_check(last_check, analysis)


def _sort_by_cause(
    analysis: RunAnalysis, results: tuple[CheckResult, ...]
) -> tuple[CheckResult, ...]:
    """Return the results in the order of cause and effect.

    `single-writer` is first where two drivers wrote side by side, and `batch` behind the samples
    where it follows from them.
    """
    if analysis.drivers is not None:
        writer_result = next(r for r in results if r.check == processes.SINGLE_WRITER)
        if writer_result.status == "fail":
            results = (
                writer_result,
                *(result for result in results if result is not writer_result),
            )
    sample_checks = (samples.SAMPLE_ORDER, samples.SAMPLES)
    batch_result = next(result for result in results if result.check == batch.BATCH)
    has_sample_failure = any(
        result.check in sample_checks and result.status == "fail" for result in results
    )
    if (
        batch_result.status != "fail"
        or not has_sample_failure
        or not batch.has_input_cause(analysis, batch_result)
    ):
        return results
    other_results = [result for result in results if result is not batch_result]
    position = [result.check for result in other_results].index(samples.SAMPLES) + 1
    return (*other_results[:position], batch_result, *other_results[position:])


def _run_check(check: Check, analysis: RunAnalysis) -> CheckResult:
    facts = analysis.plan.job.launcher_facts
    if (need := facts.explain_missing(NEEDS.get(check.NAME))) is not None:
        return not_applicable(check.NAME, f"it {need}, and {facts.words.name} started the job")
    if analysis.is_step_aligned and check.NAME in BY_REPORTS:
        return not_applicable(check.NAME, WHY_NOT)
    try:
        return _weaken_doubtful_failure(
            _validate_result(check.check(analysis), check, analysis), analysis
        )
    except Exception as error:  # noqa: BLE001 (a check that fails has shown nothing)
        reason = f"the check itself failed: {type(error).__name__}: {error}"
        return CheckResult(check=check.NAME, status="inconclusive", summary=reason, evidence=0)


def _validate_result(result: object, check: Check, analysis: RunAnalysis) -> CheckResult:
    """Return a result that reports can show, or raise: a check may be another package's."""
    if not isinstance(result, CheckResult) or result.check != check.NAME:
        raise TypeError(f"it gave no CheckResult of its own, but {result!r}")
    if (result.status == "fail") != bool(result.anomalies):
        raise ValueError(f"{result.status} with {len(result.anomalies)} anomalies")
    if any(
        not 0 <= number < len(analysis.history)
        for anomaly in result.anomalies
        for number in anomaly.events
    ):
        raise ValueError("an anomaly names an event that the history has not")
    return result


def _weaken_doubtful_failure(result: CheckResult, analysis: RunAnalysis) -> CheckResult:
    """Return a failure as a doubt, where something unknown or allowed may explain it."""
    if result.status != "fail":
        return result
    cut_journal = next((event for _, event in analysis.history.select_events(JournalCut)), None)
    repetition = _find_repetition(analysis) if result.check in _NEED_EQUAL_STEPS else None
    absent_op = next((op for op in analysis.plan.ops if op.absent is not None), None)
    if cut_journal is not None:
        reason = f"what {cut_journal.source} wrote last was lost with its node"
    elif absent_op is not None:
        reason = f"what was done to the job is not known here: {absent_op}"
    elif result.check in _NEED_TRAINING_PLACES and (
        place_doubt := _find_place_doubt(analysis, result)
    ):
        reason = place_doubt
    elif repetition is not None and min(_event_numbers(result), default=-1) >= repetition[0]:
        reason = repetition[1]
    else:
        return result
    summary = f"{result.summary}; but {reason}"
    return result.replace(status="inconclusive", summary=summary)


def _find_place_doubt(analysis: RunAnalysis, result: CheckResult) -> str | None:
    """Return why it is not known where an attempt resumed that a failure may follow from."""
    first_number = min(_event_numbers(result), default=-1)
    for restart in analysis.restarts:
        attempt = restart.attempt
        start_number = min((start.number for start in attempt.starts.values()), default=0)
        if attempt.index in analysis.unknown_places and (
            first_number < 0 or start_number <= first_number
        ):
            return analysis.unknown_places[attempt.index]
    return None


def _find_repetition(analysis: RunAnalysis) -> tuple[int, str] | None:
    """Return the event from which on nothing need equal the baseline's, and the reason."""
    repeats = analysis.repeated_steps if analysis.plan.expect.is_exact else ()
    if not repeats:
        return None
    first_repeat = min(repeats, key=lambda repeat: repeat.start_number)
    return first_repeat.start_number, (
        f"attempt {first_repeat.attempt} trained {first_repeat.steps} of its steps a second "
        f"time, as "
        "`sampling: at_least_once` allows, and what follows need not equal the baseline's; "
        "`expect.loss_tolerance` or `expect.band` says how near it must be"
    )


def _event_numbers(result: CheckResult) -> list[int]:
    return [number for anomaly in result.anomalies for number in anomaly.events]


def _decide_status(analysis: RunAnalysis, results: tuple[CheckResult, ...]) -> VerdictStatus:
    statuses = {result.status for result in results}
    if any(evidence.find_chaos_failures(analysis)) or has_no_effect(analysis):
        return "inconclusive"
    if "fail" in statuses:
        return "fail"
    return "inconclusive" if "inconclusive" in statuses else "pass"


def _find_first_failure(
    results: tuple[CheckResult, ...], ignored_checks: tuple[str, ...] = ()
) -> CheckResult | None:
    failures = (result for result in results if result.status == "fail")
    return next((result for result in failures if result.check not in ignored_checks), None)


def _is_expected(
    analysis: RunAnalysis, status: VerdictStatus, results: tuple[CheckResult, ...]
) -> bool:
    expect = analysis.plan.expect
    if _is_defect_absent(analysis, status, results):
        return True
    first_failure = _find_first_failure(results, expect.besides)
    has_expected_check = expect.check is None or (
        first_failure is not None and first_failure.check == expect.check
    )
    has_expected_kind = expect.finding is None or (
        first_failure is not None
        and any(anomaly.kind == expect.finding for anomaly in first_failure.anomalies)
    )
    if expect.verdict == "inconclusive":
        has_expected_check = any(
            result.check == expect.check and result.status == "inconclusive" for result in results
        )
    # A defect that shows although the fault did not happen is not the one that it was to show.
    has_grounds = expect.verdict != "fail" or _find_missing_grounds(results) is None
    has_expected_finding = has_expected_check and has_expected_kind
    return status == expect.verdict and has_expected_finding and has_grounds


def _is_defect_absent(
    analysis: RunAnalysis, status: VerdictStatus, results: tuple[CheckResult, ...]
) -> bool:
    """Return whether a defect of Ray's own did not show.

    All is well, or all but other known defects; or `fit()` returned, where the defect was to make
    it raise.
    """
    expect = analysis.plan.expect
    if expect.until != "fixed" or status == "inconclusive":
        return False
    if expect.outcome == "error" and analysis.run.ending.fit_return is not None:
        return True
    return _find_first_failure(results, expect.besides) is None


def _is_news(
    analysis: RunAnalysis, status: VerdictStatus, results: tuple[CheckResult, ...]
) -> bool:
    """Return whether a defect of Ray's own did not show, although all was done to show it.

    On the embedded backend it is no news: most of Ray is not there.
    """
    return analysis.plan.backend != "fork" and _is_defect_absent(analysis, status, results)


def _find_missing_grounds(results: tuple[CheckResult, ...]) -> CheckResult | None:
    ground_checks = {evidence.FAULTS_HAPPENED, evidence.WATCHED}
    return next(
        (result for result in results if result.check in ground_checks and result.status != "pass"),
        None,
    )


def _describe_expectation(
    analysis: RunAnalysis, status: VerdictStatus, results: tuple[CheckResult, ...]
) -> str:
    expect = analysis.plan.expect
    manner = "first named" if expect.verdict == "fail" else "told"
    expectation = expect.verdict + (f", {manner} by {expect.check}" if expect.check else "")
    expectation += f", as {expect.finding}" if expect.finding else ""
    if _is_defect_absent(analysis, status, results):
        versions = f"{analysis.launcher_words.name} {', '.join(expect.seen_in)}"
        origin = f" (seen in {versions})" if expect.seen_in else ""
        is_news = _is_news(analysis, status, results)
        news = "fixed?" if is_news else "only a cluster can show the defect"
        observation = "it passes" if status == "pass" else "it did not show"
        return f"expected {expectation}{origin}; {observation}: {news}"
    if _is_expected(analysis, status, results):
        return f"{expectation}, as expected"
    first_failure = _find_first_failure(results)
    sentence = f"expected {expectation}; got {status}"
    if first_failure is not None:
        kinds = dict.fromkeys(a.kind for a in first_failure.anomalies if a.kind and expect.finding)
        kind_text = f", as {', '.join(kinds)}" if kinds else ""
        sentence += f", first named by {first_failure.check}{kind_text}"
    missing_grounds = _find_missing_grounds(results) if expect.verdict == "fail" else None
    return (
        sentence
        if missing_grounds is None
        else f"{sentence}, but {missing_grounds.check} is {missing_grounds.status}"
    )
