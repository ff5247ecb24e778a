"""The verdict on a run, from all checks."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Protocol

from chaos.check import (
    accounts,
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
from chaos.check.code_lines import code_lines
from chaos.check.data_warnings import data_warnings
from chaos.check.diagnosis import diagnosis
from chaos.check.evidence import nothing_happened
from chaos.check.grade import accepted, graded
from chaos.check.headline import headline
from chaos.check.others import Others
from chaos.check.regrid import BY_REPORTS, WHY_NOT
from chaos.check.result import nothing_due
from chaos.check.results import WITHOUT_CONSEQUENCE, compare_results, judge_by_results
from chaos.check.resumes import count_restarts
from chaos.check.state_snapshots import is_rng
from chaos.faults.world import Part
from chaos.model.arguments import command_line
from chaos.model.diagnosis import Resume
from chaos.model.event import JournalCut, StartedAgain
from chaos.model.history import History
from chaos.model.masked import masked_words
from chaos.model.plan import Plan
from chaos.model.scenario import VerdictStatus
from chaos.model.verdict import CheckResult, Verdict


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
_NEED_PLACES = _NEED_EQUAL_STEPS | {
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
NEEDS: Mapping[str, Part] = {
    budgets.RETRY_BUDGET: "budget",
    metrics.SELECTION: "reports",
    metrics.METRICS: "reports",
    checkpoints.RETENTION: "reports",
    checkpoints.ACK: "reports",
    processes.BYSTANDERS: "cluster",
    processes.DRAIN: "cluster",
}
_NEEDED = {budgets.RETRY_BUDGET: "it needs a launcher that counts restarts"}
NO_OTHERS = Others()


def judge(
    plan: Plan, history: History, baseline: History | None = None, others: Others = NO_OTHERS
) -> Verdict:
    """Return the verdict on one run; `others`: the checks of other packages."""
    return judge_analysis(RunAnalysis(plan, history, baseline), others)


def judge_analysis(analysis: RunAnalysis, others: Others = NO_OTHERS) -> Verdict:
    """Return the verdict on one run by its tables, which its pages can use again."""
    return build_verdict(analysis, judge_by_results(analysis, run_checks(analysis, others)))


def run_checks(analysis: RunAnalysis, others: Others = NO_OTHERS) -> tuple[CheckResult, ...]:
    """Return what each check says by itself, before the results of the run decide."""
    return graded(analysis, _by_cause(analysis, tuple(_results(analysis, others))))


def build_verdict(analysis: RunAnalysis, judged: tuple[CheckResult, ...]) -> Verdict:
    """Return the verdict that follows from the results of all checks."""
    results, accepting = accepted(analysis.plan.expect, judged)
    status, resumes = _overall(analysis, results), _diagnosed(analysis, results)
    broken = next((result for result in results if result.status == "fail"), None)
    return Verdict(
        status=status,
        headline=headline(analysis, results, status, accepted=len(accepting)),
        as_expected=_is_expected(analysis, status, results),
        is_news=_is_news(analysis, status, results),
        expectation=_expectation(analysis, status, results),
        results=results,
        compared=compare_results(judged),
        diagnosis=resumes,
        lines=code_lines(analysis, broken, resumes),
        notes=(*accepting, *_latent_notes(results), *_notes(analysis)),
        restarts=count_restarts(analysis),
    )


def _latent_notes(results: tuple[CheckResult, ...]) -> Iterator[str]:
    for result in results:
        for anomaly in result.latent:
            yield f"latent: {result.check}: {anomaly.message}; {WITHOUT_CONSEQUENCE}"


def _notes(analysis: RunAnalysis) -> Iterator[str]:
    """Yield notes on parts of the state without consequence, on data, on files, and on the end."""
    rows = () if analysis.reference is None else state.rows_without_consequence(analysis)
    # Generators are left out: most jobs have some that they never draw from.
    named = sorted({row.component for row in rows if not is_rng(row.component)})
    if named:
        yield (
            f"{', '.join(named)} did not come back at a resume; no later loss or metric and no "
            "part of the model shows it"
        )
    tables = analysis.reference
    if tables is None and not analysis.plan.ops and analysis.run.ending.is_finished:
        tables = analysis.run
    yield from () if tables is None else data_warnings(tables.lineage)
    yield from artifacts.notes(analysis)
    yield from _first_args(analysis)
    yield from accounts.notes(analysis)
    yield from filter(None, [analysis.run.ending.after_fit])


def _first_args(analysis: RunAnalysis) -> Iterator[str]:
    """Yield a note on starts without the arguments of a restart, which had nothing to read yet."""
    starts = [str(e.start) for _, e in analysis.history.of(StartedAgain) if e.has_first_args]
    if starts:
        words = shlex.join(map(str, masked_words(command_line(analysis.plan.job.restart_args))))
        yield (
            f"tried without `{words}`: start {' and '.join(starts)} of the command; the job's "
            "first save was not there yet"
        )


def _diagnosed(analysis: RunAnalysis, results: tuple[CheckResult, ...]) -> tuple[Resume, ...]:
    try:
        return diagnosis(analysis, results)
    except Exception as error:  # noqa: BLE001 (a table that fails must not hide the verdict)
        why = f"the diagnosis itself failed: {type(error).__name__}: {error}"
        blank = Resume(
            attempt=0, epoch=0, step=0, checkpoint=None, sound=False, sentence=why, parts=()
        )
        return (blank,)


def _results(analysis: RunAnalysis, others: Others) -> Iterator[CheckResult]:
    """Yield each check's result; others' come before the one that almost every defect breaks."""
    *specific, last = CHECKS
    yield from (_judged(check, analysis) for check in specific)
    for other in others.installed:
        result = _judged(other.what, analysis)
        yield result.model_copy(update={"package": other.package})
    yield from others.not_told()
    yield _judged(last, analysis)


def _by_cause(analysis: RunAnalysis, results: tuple[CheckResult, ...]) -> tuple[CheckResult, ...]:
    """Return the results in the order of cause and effect.

    `single-writer` is first where two drivers wrote side by side, and `batch` behind the samples
    where it follows from them.
    """
    if analysis.drivers is not None:
        writer = next(r for r in results if r.check == processes.SINGLE_WRITER)
        if writer.status == "fail":
            results = (writer, *(result for result in results if result is not writer))
    data = (samples.SAMPLE_ORDER, samples.SAMPLES)
    sizes = next(result for result in results if result.check == batch.BATCH)
    is_told = any(result.check in data and result.status == "fail" for result in results)
    if sizes.status != "fail" or not is_told or not batch.follows_other_inputs(analysis, sizes):
        return results
    rest = [result for result in results if result is not sizes]
    behind = [result.check for result in rest].index(samples.SAMPLES) + 1
    return (*rest[:behind], sizes, *rest[behind:])


def _judged(check: Check, analysis: RunAnalysis) -> CheckResult:
    facts = analysis.plan.job.facts
    if facts.lacks_part(NEEDS.get(check.NAME)):
        why = _NEEDED.get(check.NAME, "it needs Ray Train")
        return nothing_due(check.NAME, f"{why}, and {facts.words.name} started the job")
    if analysis.is_by_steps and check.NAME in BY_REPORTS:
        return nothing_due(check.NAME, WHY_NOT)
    try:
        return _beyond_doubt(_well_formed(check.check(analysis), check, analysis), analysis)
    except Exception as error:  # noqa: BLE001 (a check that fails has shown nothing)
        why = f"the check itself failed: {type(error).__name__}: {error}"
        return CheckResult(check=check.NAME, status="inconclusive", summary=why, evidence=0)


def _well_formed(result: object, check: Check, analysis: RunAnalysis) -> CheckResult:
    """Return a result that reports can show, or raise: a check may be another package's."""
    if not isinstance(result, CheckResult) or result.check != check.NAME:
        raise TypeError(f"it gave no CheckResult of its own, but {result!r}")
    if (result.status == "fail") != bool(result.anomalies):
        raise ValueError(f"{result.status} with {len(result.anomalies)} anomalies")
    if any(not 0 <= n < len(analysis.history) for a in result.anomalies for n in a.events):
        raise ValueError("an anomaly names an event that the history has not")
    return result


def _beyond_doubt(result: CheckResult, analysis: RunAnalysis) -> CheckResult:
    """Return a failure as a doubt, where something unknown or allowed may explain it."""
    if result.status != "fail":
        return result
    cut = next((event for _, event in analysis.history.of(JournalCut)), None)
    made_again = _no_longer_comparable(analysis) if result.check in _NEED_EQUAL_STEPS else None
    absent = next((op for op in analysis.plan.ops if op.absent is not None), None)
    if cut is not None:
        why = f"what {cut.source} wrote last was lost with its node"
    elif absent is not None:
        why = f"what was done to the job is not known here: {absent}"
    elif result.check in _NEED_PLACES and (unplaced := _without_place(analysis, result)):
        why = unplaced
    elif made_again is not None and min(_events(result), default=-1) >= made_again[0]:
        why = made_again[1]
    else:
        return result
    summary = f"{result.summary}; but {why}"
    return result.model_copy(update={"status": "inconclusive", "summary": summary})


def _without_place(analysis: RunAnalysis, result: CheckResult) -> str | None:
    """Return why it is not known where an attempt resumed that a failure may follow from."""
    first = min(_events(result), default=-1)
    for restart in analysis.restarts:
        attempt = restart.attempt
        since = min((start.number for start in attempt.starts.values()), default=0)
        if attempt.index in analysis.unplaced and (first < 0 or since <= first):
            return analysis.unplaced[attempt.index]
    return None


def _no_longer_comparable(analysis: RunAnalysis) -> tuple[int, str] | None:
    """Return the event from which on nothing need equal the baseline's, and the reason."""
    made = analysis.repeated_steps if analysis.plan.expect.is_exact else ()
    if not made:
        return None
    first = min(made, key=lambda repeat: repeat.since)
    return first.since, (
        f"attempt {first.attempt} trained {first.steps} of its steps a second time, as "
        "`sampling: at_least_once` allows, and what follows need not equal the baseline's; "
        "`expect.loss_tolerance` or `expect.band` says how near it must be"
    )


def _events(result: CheckResult) -> list[int]:
    return [number for anomaly in result.anomalies for number in anomaly.events]


def _overall(analysis: RunAnalysis, results: tuple[CheckResult, ...]) -> VerdictStatus:
    found = {result.status for result in results}
    if any(evidence.own_failures(analysis)) or nothing_happened(analysis):
        return "inconclusive"
    if "fail" in found:
        return "fail"
    return "inconclusive" if "inconclusive" in found else "pass"


def _first_broken(results: tuple[CheckResult, ...], besides: tuple[str, ...] = ()) -> str | None:
    broken = (result.check for result in results if result.status == "fail")
    return next((check for check in broken if check not in besides), None)


def _is_expected(
    analysis: RunAnalysis, status: VerdictStatus, results: tuple[CheckResult, ...]
) -> bool:
    expect = analysis.plan.expect
    if _shows_no_defect(analysis, status, results):
        return True
    named = expect.check is None or expect.check == _first_broken(results, expect.besides)
    if expect.verdict == "inconclusive":
        named = any(r.check == expect.check and r.status == "inconclusive" for r in results)
    # A defect that shows although the fault did not happen is not the one that it was to show.
    shown = expect.verdict != "fail" or _without_grounds(results) is None
    return status == expect.verdict and named and shown


def _shows_no_defect(
    analysis: RunAnalysis, status: VerdictStatus, results: tuple[CheckResult, ...]
) -> bool:
    """Return whether a defect of Ray's own did not show.

    All is well, or all but other known defects; or `fit()` returned, where the defect was to make
    it raise.
    """
    expect = analysis.plan.expect
    if expect.until != "fixed" or status == "inconclusive":
        return False
    if expect.outcome == "error" and analysis.run.ending.returned is not None:
        return True
    return _first_broken(results, expect.besides) is None


def _is_news(
    analysis: RunAnalysis, status: VerdictStatus, results: tuple[CheckResult, ...]
) -> bool:
    """Return whether a defect of Ray's own did not show, although all was done to show it.

    On the embedded backend it is no news: most of Ray is not there.
    """
    return analysis.plan.backend != "fork" and _shows_no_defect(analysis, status, results)


def _without_grounds(results: tuple[CheckResult, ...]) -> CheckResult | None:
    grounds = {evidence.FAULTS_HAPPENED, evidence.WATCHED}
    return next((r for r in results if r.check in grounds and r.status != "pass"), None)


def _expectation(
    analysis: RunAnalysis, status: VerdictStatus, results: tuple[CheckResult, ...]
) -> str:
    expect = analysis.plan.expect
    how = "first named" if expect.verdict == "fail" else "told"
    due = expect.verdict + (f", {how} by {expect.check}" if expect.check else "")
    if _shows_no_defect(analysis, status, results):
        where = f"{analysis.terms.name} {', '.join(expect.seen_in)}"
        seen = f" (seen in {where})" if expect.seen_in else ""
        is_news = _is_news(analysis, status, results)
        news = "fixed?" if is_news else "only a cluster can show the defect"
        found = "it passes" if status == "pass" else "it did not show"
        return f"expected {due}{seen}; {found}: {news}"
    if _is_expected(analysis, status, results):
        return f"{due}, as expected"
    first = _first_broken(results)
    sentence = f"expected {due}; got {status}" + (f", first named by {first}" if first else "")
    lack = _without_grounds(results) if expect.verdict == "fail" else None
    return sentence if lack is None else f"{sentence}, but {lack.check} is {lack.status}"
