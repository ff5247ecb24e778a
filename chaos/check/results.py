"""The results of a run, which alone decide whether it came out right.

A job is right if it leaves what a fault-free run leaves: the inputs and losses of its steps, the
samples and epochs it trained, its state, its files, its metrics, no finished work thrown away, and
a clean end. Every other check explains a result. An explanation alone is `latent`: a note that
fails nothing where every result is the baseline's, and a doubt where results could not be compared.
"""

from collections.abc import Mapping, Sequence

from chaos.check import (
    artifacts,
    budgets,
    checkpoints,
    epochs,
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
from chaos.check.state_snapshots import StateSnapshots, counterparts, holds_nothing
from chaos.check.steps import count_samples
from chaos.model.event import StateSeen
from chaos.model.events.state import group_of
from chaos.model.plan import Plan
from chaos.model.verdict import Anomaly, CheckResult, ComparedResult, ResultName
from chaos.words import plural

#: Each result, and the checks that compare it.
RESULT_CHECKS: Mapping[ResultName, tuple[str, ...]] = {
    "steps": (samples.SAMPLE_ORDER, trajectory.TRAJECTORY),
    "samples": (samples.SAMPLES, epochs.EPOCHS),
    "state": (trajectory.TRAJECTORY,),
    "files": (artifacts.ARTIFACTS, checkpoints.RETENTION),
    "metrics": (trajectory.TRAJECTORY, metrics.METRICS, metrics.SELECTION),
    "work": (resume.START_DECISION, resume.RESUME_POINT, progress.LOST_WORK),
    "end": (
        outcome.OUTCOME,
        checkpoints.ACK,
        progress.PROGRESS,
        progress.TERMINATES,
        processes.LEFTOVERS,
        processes.BYSTANDERS,
    ),
}
WITHOUT_CONSEQUENCE = "every result that was compared is the baseline's"
_COMPARING = frozenset(name for checks in RESULT_CHECKS.values() for name in checks)
# What is seen early of a result: the state with which a resume goes on, and the number of steps
# that it makes. Results that are shown to be equal to the end outvote them. Where these could not
# be compared, they stand for them.
_EARLY_SIGNS = frozenset({state.STATE, epochs.CURSOR})
_ASKED_BY_FIELD = {
    "attempts": budgets.ATTEMPTS,
    "charges": budgets.RETRY_BUDGET,
    "recovery_s": progress.RECOVERY,
    "jit_checkpoint": processes.DRAIN,
}
_FIGURES: Mapping[ResultName, tuple[str, str, str]] = {
    "steps": ("losses_compared", "loss", "losses"),
    "state": ("parts_compared", "part of the state", "parts of the state"),
    "metrics": ("metrics_compared", "metric value", "metric values"),
}
_UNSTABLE: Mapping[ResultName, tuple[str, str]] = {
    "state": (state.STATE, "components_not_repeatable"),
    "metrics": (trajectory.TRAJECTORY, "metrics_not_compared"),
}


def judge_by_results(
    analysis: RunAnalysis, results: Sequence[CheckResult]
) -> tuple[CheckResult, ...]:
    """Return the results of all checks, with no failure that no result of the run bears out.

    A check fails if it compares a result, if the scenario asks for it, or if it explains a result
    that differs. Any other failure is latent where all results are equal, and else inconclusive.
    """
    broken = [result for result in results if result.status == "fail"]
    if not broken or any(_has_other_result(result) for result in broken):
        return tuple(results)
    unequal = why_not_equal(analysis, results)
    to_the_end = unequal is None and _ends_with_equal_model(analysis)

    def judged(result: CheckResult) -> CheckResult:
        if result.status != "fail" or is_asked(analysis.plan, result):
            return result
        if _is_early_sign(result):
            is_outvoted = to_the_end and (
                result.check == state.STATE or _trained_equal_samples(analysis)
            )
            return _latent(result) if is_outvoted else result
        return _latent(result) if unequal is None else _undecided(result, unequal)

    return tuple(judged(result) for result in results)


def is_asked(plan: Plan, result: CheckResult) -> bool:
    """Return whether a promise is required in itself: by the scenario, or by another package.

    What an audit expects of its runs is its own forecast, and not a user's wish.
    """
    if result.package is not None:
        return True
    if plan.confined is not None:
        return False
    expect = plan.expect
    fields = [field for field, check in _ASKED_BY_FIELD.items() if check == result.check]
    is_stated = any(getattr(expect, field) not in (None, False) for field in fields)
    return is_stated or expect.check == result.check


def why_not_equal(analysis: RunAnalysis, results: Sequence[CheckResult]) -> str | None:
    """Return why the results are not all shown to be the baseline's; None if they are."""
    comparing = [result for result in results if result.check in _COMPARING]
    unequal = next((r for r in comparing if r.status != "pass" and not _is_early_sign(r)), None)
    if unequal is not None:
        return unequal.summary
    course = next(result for result in results if result.check == trajectory.TRAJECTORY)
    if not course.evidence:
        return course.summary
    if not analysis.allowance.is_exact:
        return "the job does not repeat to the last bit, so equal results were not shown"
    is_over = analysis.run.ending.is_finished or analysis.error_was_expected
    return None if is_over else "the run did not come to its end"


def compare_results(results: Sequence[CheckResult]) -> tuple[ComparedResult, ...]:
    """Return for each result whether it is the baseline's, with what was compared."""
    by_check = {result.check: result for result in results}
    # What storage holds at the end is a result; what was damaged on the way there is none.
    stored = by_check[checkpoints.CHECKPOINTS]
    also = {"files": (stored.check,)} if _has_other_result(stored) else {}
    compared = (
        _compared(name, [by_check[check] for check in (*checks, *also.get(name, ()))])
        for name, checks in RESULT_CHECKS.items()
    )
    return tuple(
        result.model_copy(update={"left_out": _left_out(result.name, by_check)})
        for result in compared
    )


def _left_out(name: ResultName, by_check: Mapping[str, CheckResult]) -> tuple[str, ...]:
    """Return what differs between clean runs, by name; a figure lists the names in one text."""
    if name not in _UNSTABLE:
        return ()
    check, figure = _UNSTABLE[name]
    names = by_check[check].measures.get(figure) if check in by_check else None
    return tuple(str(names).split(", ")) if names else ()


def _compared(name: ResultName, checks: Sequence[CheckResult]) -> ComparedResult:
    different = next((result for result in checks if result.status == "fail"), None)
    if different is not None:
        return ComparedResult(name=name, status="different", detail=different.summary)
    doubtful = next((result for result in checks if result.status == "inconclusive"), None)
    if doubtful is not None:
        return ComparedResult(name=name, status="not compared", detail=doubtful.summary)
    evident = [result for result in checks if result.evidence]
    if name in _FIGURES:
        # One check compares all numbers: whether any was of this result, its own count says.
        figure, noun, nouns = _FIGURES[name]
        course = next((r for r in evident if r.check == trajectory.TRAJECTORY), None)
        count = 0 if course is None else course.measures.get(figure)
        if isinstance(count, int) and count:
            return ComparedResult(name=name, status="equal", detail=plural(count, noun, nouns))
        evident = [result for result in evident if result.check != trajectory.TRAJECTORY]
    if not evident:
        why = checks[0].summary if checks else "no check compared it"
        return ComparedResult(name=name, status="not compared", detail=why)
    return ComparedResult(name=name, status="equal", detail=evident[0].summary)


def _has_other_result(result: CheckResult) -> bool:
    return any(_is_of_result(anomaly, result.check) for anomaly in result.anomalies)


def _is_of_result(anomaly: Anomaly, check: str) -> bool:
    return check in _COMPARING if anomaly.is_result is None else anomaly.is_result


def _is_early_sign(result: CheckResult) -> bool:
    """Return whether a failure is of a state that was entered, or of a number of steps alone."""
    is_counted = result.check == epochs.EPOCHS and not _has_other_result(result)
    return result.status == "fail" and (result.check in _EARLY_SIGNS or is_counted)


def _latent(result: CheckResult) -> CheckResult:
    anomalies = tuple(a.model_copy(update={"severity": "latent"}) for a in result.anomalies)
    summary = f"latent: {result.summary}; {WITHOUT_CONSEQUENCE}"
    return result.model_copy(
        update={"status": "pass", "anomalies": (), "latent": anomalies, "summary": summary}
    )


def _undecided(result: CheckResult, why: str) -> CheckResult:
    summary = f"{result.summary}; whether a result differs is not known: {why}"
    return result.model_copy(update={"status": "inconclusive", "summary": summary})


def _trained_equal_samples(analysis: RunAnalysis) -> bool:
    """Return whether the whole run trained each sample as often as the baseline, all known."""
    if analysis.reference is None:
        return False
    actual = count_samples(analysis.run.lineage.all_steps())
    return actual is not None and actual == count_samples(analysis.reference.lineage.all_steps())


def _ends_with_equal_model(analysis: RunAnalysis) -> bool:
    """Return whether each rank's last model of the baseline was seen, and is the run's last."""
    if analysis.reference is None:
        return False
    due, run = _last_models(analysis.reference.snapshots), _last_models(analysis.run.snapshots)
    return due.keys() == run.keys() != set() and all(
        _has_equal_models(run[rank], seen) for rank, seen in due.items()
    )


def _last_models(snapshots: StateSnapshots) -> dict[int, StateSeen]:
    return {
        seen.rank: seen
        for _, seen in snapshots.all
        if any(group_of(part.name) == "model" for part in seen.components)
    }


def _has_equal_models(actual: StateSeen, expected: StateSeen) -> bool:
    # Only their digests count: a wrong number of steps gives the last state another place.
    models = [p for p in counterparts(actual, expected) if group_of(p[1].name) == "model"]
    return bool(models) and all(
        actual_part is not None
        and not holds_nothing(expected_part)
        and actual_part.digest == expected_part.digest
        for actual_part, expected_part in models
    )
