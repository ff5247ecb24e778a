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
from chaos.model.event import StateSeen
from chaos.model.events.state import find_group
from chaos.model.plan import Plan
from chaos.model.verdict import Anomaly, CheckResult, ComparedResult, ResultName
from chaos.resume.state_snapshots import StateSnapshots, holds_nothing, pair_parts
from chaos.resume.steps import count_samples
from chaos.wording import plural

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
_COMPARING_CHECKS = frozenset(name for checks in RESULT_CHECKS.values() for name in checks)
# What is seen early of a result: the state with which a resume goes on, and the number of steps
# that it makes. Results that are shown to be equal to the end outvote them. Where these could not
# be compared, they stand for them.
_EARLY_SIGNS = frozenset({state.STATE, epochs.CURSOR})
_CHECKS_BY_FIELD = {
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
_UNSTABLE_FIGURES: Mapping[ResultName, tuple[str, str]] = {
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
    failures = [result for result in results if result.status == "fail"]
    if not failures or any(_has_different_result(result) for result in failures):
        return tuple(results)
    inequality = find_inequality(analysis, results)
    has_equal_end = inequality is None and _has_equal_end(analysis)

    def judge_failure(result: CheckResult) -> CheckResult:
        if result.status != "fail" or is_required(analysis.plan, result):
            return result
        if _is_early_sign(result):
            is_outvoted = has_equal_end and (
                result.check == state.STATE or _has_equal_samples(analysis)
            )
            return _mark_latent(result) if is_outvoted else result
        return (
            _mark_latent(result) if inequality is None else _mark_inconclusive(result, inequality)
        )

    return tuple(judge_failure(result) for result in results)


def is_required(plan: Plan, result: CheckResult) -> bool:
    """Return whether a promise is required in itself: by the scenario, or by another package.

    What an audit expects of its runs is its own forecast, and not a user's wish.
    """
    if result.package is not None:
        return True
    if plan.confined is not None:
        return False
    expect = plan.expect
    fields = [field for field, check in _CHECKS_BY_FIELD.items() if check == result.check]
    is_stated = any(getattr(expect, field) not in (None, False) for field in fields)
    is_named = expect.finding is not None and any(
        anomaly.kind == expect.finding for anomaly in result.anomalies
    )
    return is_stated or is_named or expect.check == result.check


def find_inequality(analysis: RunAnalysis, results: Sequence[CheckResult]) -> str | None:
    """Return why the results are not all shown to be the baseline's; None if they are."""
    comparing_results = [result for result in results if result.check in _COMPARING_CHECKS]
    unequal_result = next(
        (r for r in comparing_results if r.status != "pass" and not _is_early_sign(r)), None
    )
    if unequal_result is not None:
        return unequal_result.summary
    trajectory_result = next(result for result in results if result.check == trajectory.TRAJECTORY)
    if not trajectory_result.evidence:
        return trajectory_result.summary
    if not analysis.allowance.is_exact:
        return "the job does not repeat to the last bit, so equal results were not shown"
    is_over = analysis.run.ending.is_finished or analysis.has_expected_error
    return None if is_over else "the run did not come to its end"


def compare_results(results: Sequence[CheckResult]) -> tuple[ComparedResult, ...]:
    """Return for each result whether it is the baseline's, with what was compared."""
    by_check = {result.check: result for result in results}
    # What storage holds at the end is a result; what was damaged on the way there is none.
    checkpoints_result = by_check[checkpoints.CHECKPOINTS]
    extra_checks = (
        {"files": (checkpoints_result.check,)} if _has_different_result(checkpoints_result) else {}
    )
    compared_results = (
        _compare_result(name, [by_check[check] for check in (*checks, *extra_checks.get(name, ()))])
        for name, checks in RESULT_CHECKS.items()
    )
    return tuple(
        result.replace(left_out=_find_unstable_names(result.name, by_check))
        for result in compared_results
    )


def _find_unstable_names(name: ResultName, by_check: Mapping[str, CheckResult]) -> tuple[str, ...]:
    """Return what differs between clean runs, by name; a figure lists the names in one text."""
    if name not in _UNSTABLE_FIGURES:
        return ()
    check, figure = _UNSTABLE_FIGURES[name]
    names = by_check[check].measures.get(figure) if check in by_check else None
    return tuple(str(names).split(", ")) if names else ()


def _compare_result(name: ResultName, checks: Sequence[CheckResult]) -> ComparedResult:
    failed_result = next((result for result in checks if result.status == "fail"), None)
    if failed_result is not None:
        return ComparedResult(name=name, status="different", detail=failed_result.summary)
    doubtful_result = next((result for result in checks if result.status == "inconclusive"), None)
    if doubtful_result is not None:
        return ComparedResult(name=name, status="not compared", detail=doubtful_result.summary)
    evident_results = [result for result in checks if result.evidence]
    if name in _FIGURES:
        # One check compares all numbers: whether any was of this result, its own count says.
        figure, noun, nouns = _FIGURES[name]
        trajectory_result = next(
            (r for r in evident_results if r.check == trajectory.TRAJECTORY), None
        )
        count = 0 if trajectory_result is None else trajectory_result.measures.get(figure)
        if isinstance(count, int) and count:
            return ComparedResult(name=name, status="equal", detail=plural(count, noun, nouns))
        evident_results = [
            result for result in evident_results if result.check != trajectory.TRAJECTORY
        ]
    if not evident_results:
        reason = checks[0].summary if checks else "no check compared it"
        return ComparedResult(name=name, status="not compared", detail=reason)
    return ComparedResult(name=name, status="equal", detail=evident_results[0].summary)


def _has_different_result(result: CheckResult) -> bool:
    return any(_is_of_result(anomaly, result.check) for anomaly in result.anomalies)


def _is_of_result(anomaly: Anomaly, check: str) -> bool:
    return check in _COMPARING_CHECKS if anomaly.is_result is None else anomaly.is_result


def _is_early_sign(result: CheckResult) -> bool:
    """Return whether a failure is of a state that was entered, or of a number of steps alone."""
    is_counted = result.check == epochs.EPOCHS and not _has_different_result(result)
    return result.status == "fail" and (result.check in _EARLY_SIGNS or is_counted)


def _mark_latent(result: CheckResult) -> CheckResult:
    anomalies = tuple(anomaly.replace(severity="latent") for anomaly in result.anomalies)
    summary = f"latent: {result.summary}; {WITHOUT_CONSEQUENCE}"
    return result.replace(status="pass", anomalies=(), latent=anomalies, summary=summary)


def _mark_inconclusive(result: CheckResult, reason: str) -> CheckResult:
    summary = f"{result.summary}; whether a result differs is not known: {reason}"
    return result.replace(status="inconclusive", summary=summary)


def _has_equal_samples(analysis: RunAnalysis) -> bool:
    """Return whether the whole run trained each sample as often as the baseline, all known."""
    if analysis.reference is None:
        return False
    actual = count_samples(analysis.run.lineage.all_steps())
    return actual is not None and actual == count_samples(analysis.reference.lineage.all_steps())


def _has_equal_end(analysis: RunAnalysis) -> bool:
    """Return whether each rank's last model of the baseline was seen, and is the run's last."""
    if analysis.reference is None:
        return False
    baseline_models, run_models = (
        _find_last_models(analysis.reference.snapshots),
        _find_last_models(analysis.run.snapshots),
    )
    return baseline_models.keys() == run_models.keys() != set() and all(
        _has_equal_models(run_models[rank], state) for rank, state in baseline_models.items()
    )


def _find_last_models(snapshots: StateSnapshots) -> dict[int, StateSeen]:
    return {
        state.rank: state
        for _, state in snapshots.numbered_snapshots
        if any(find_group(part.name) == "model" for part in state.components)
    }


def _has_equal_models(actual: StateSeen, expected: StateSeen) -> bool:
    # Only their digests count: a wrong number of steps gives the last state another place.
    models = [pair for pair in pair_parts(actual, expected) if find_group(pair[1].name) == "model"]
    return bool(models) and all(
        actual_part is not None
        and not holds_nothing(expected_part)
        and actual_part.digest == expected_part.digest
        for actual_part, expected_part in models
    )
