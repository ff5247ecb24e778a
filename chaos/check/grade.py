"""The severity of a broken promise by what came of it, and those that a scenario accepts.

wrong result       as long as nothing else is shown
work lost          a resume threw away saved work, no other promise is broken, and
                   losses, metrics, state and files are the baseline's in the end
not reproducible   every part of the state came back at every resume but
                   generators, every step and sample is there, and the first
                   number that differs follows from what was drawn anew: the
                   generators moved in that step, as far as that was seen
cosmetic           no loss and no part of the state differs, and of metrics
                   only counters, which are written to logs
"""

from collections.abc import Sequence

from chaos.check.analysis import RunAnalysis
from chaos.check.blame import find_blame
from chaos.check.divergence import find_divergence, has_diverged
from chaos.check.metrics import find_counters
from chaos.check.progress import LOST_WORK, RECOVERY
from chaos.check.restarts import Restart
from chaos.check.resume import RESUME_POINT, START_DECISION
from chaos.check.samples import SAMPLE_ORDER, SAMPLES
from chaos.check.saved_model import is_model_in_file
from chaos.check.state_comparison import compare_states
from chaos.check.trajectory import TRAJECTORY
from chaos.model.expect import Acceptable, Expect
from chaos.model.places import RankEpoch
from chaos.model.severity import Severity
from chaos.model.verdict import CheckResult
from chaos.resume.state_at_resume import ResumeRow
from chaos.resume.state_snapshots import index_parts, is_rng

# The checks that show that training continued at its place, over as many steps.
_POSITION_CHECKS = ("agreement", "resume-point", "cursor", "epochs", "batch")
ACCEPTED = "accepted as "  # begins a note on a broken promise that is accepted
_ACCEPTABLE_SEVERITIES: dict[Acceptable, Severity] = {
    "rng": "not reproducible",
    "lost-work": "work lost",
    "cosmetic": "cosmetic",
}
# The checks that are broken where saved work is trained again; that takes its time, too.
_WORK_CHECKS = (START_DECISION, RESUME_POINT, LOST_WORK)
_SAMPLE_CHECKS = (SAMPLE_ORDER, SAMPLES)


def grade_results(analysis: RunAnalysis, results: Sequence[CheckResult]) -> tuple[CheckResult, ...]:
    """Return the results with the severity of lost work, and of a trajectory that differs."""
    failed_checks = {result.check for result in results if result.status == "fail"}
    is_trajectory_equal = any(
        r.check == TRAJECTORY and r.status == "pass" and r.evidence for r in results
    )
    severities: dict[str, Severity] = {}
    if TRAJECTORY in failed_checks:
        severities[TRAJECTORY] = _grade_trajectory(analysis, results)
    if is_trajectory_equal and failed_checks <= {
        *_WORK_CHECKS,
        RECOVERY,
    }:  # all that is broken is the cost of a resume
        severities |= dict.fromkeys(_WORK_CHECKS, "work lost")
    return tuple(
        _set_severity(result, severities[result.check]) if result.check in severities else result
        for result in results
    )


def accept_failures(
    expect: Expect, results: Sequence[CheckResult]
) -> tuple[tuple[CheckResult, ...], tuple[str, ...]]:
    """Return the results, passed if nothing is worse than what is accepted, with notes of it.

    Where inputs may be drawn anew, so may be what is shown to follow from them alone.
    """
    failures = [result for result in results if result.status == "fail"]
    allowed_severities = {_ACCEPTABLE_SEVERITIES[word] for word in expect.accept}
    reasons_by_check = {
        result.check: reasons
        for result in failures
        if (reasons := _find_reasons(expect, result)) is not None
    }
    is_resampled = expect.sampling == "resampled" and any(
        r.check in _SAMPLE_CHECKS for r in failures
    )
    drawn_checks = (*_SAMPLE_CHECKS, TRAJECTORY) if is_resampled else ()
    if not failures or not all(
        result.severity in allowed_severities
        or result.check in reasons_by_check
        or (result.check in drawn_checks and result.severity == _ACCEPTABLE_SEVERITIES["rng"])
        for result in failures
    ):
        return tuple(results), ()
    notes = tuple(
        f"{ACCEPTED}{r.severity}: {r.check}: {r.summary}"
        + "".join(f" ({reason})" for reason in reasons_by_check.get(r.check, ()))
        for r in failures
    )
    accepted_results = tuple(
        _accept_failure(r, reasons_by_check.get(r.check, ())) if r in failures else r
        for r in results
    )
    return accepted_results, notes


def _find_reasons(expect: Expect, result: CheckResult) -> tuple[str, ...] | None:
    """Return why each finding of a check is accepted by its kind; None if any of them is not."""
    reasons = []
    for anomaly in result.anomalies:
        matching_entries = (
            entry for entry in expect.accept_findings if entry.matches(anomaly.kind, anomaly.parts)
        )
        accepted_finding = next(matching_entries, None)
        if accepted_finding is None:
            return None
        reasons.append(accepted_finding.reason)
    return tuple(dict.fromkeys(reasons)) if reasons else None


def _accept_failure(result: CheckResult, reasons: tuple[str, ...]) -> CheckResult:
    return result.replace(
        status="pass",
        anomalies=(),
        accepted=result.anomalies,
        accepted_reasons=reasons,
        summary=f"{ACCEPTED}{result.severity}: {result.summary}",
    )


def _set_severity(result: CheckResult, severity: Severity) -> CheckResult:
    anomalies = tuple(anomaly.replace(severity=severity) for anomaly in result.anomalies)
    return result.replace(anomalies=anomalies)


def _grade_trajectory(analysis: RunAnalysis, results: Sequence[CheckResult]) -> Severity:
    comparison = analysis.comparison
    if comparison is None:
        return "wrong result"
    states = compare_states(analysis)
    has_equal_numbers = comparison.losses.earliest_pair is None and (
        states is None or not states.differing
    )
    if has_equal_numbers and comparison.metrics.differing_names <= find_counters(analysis):
        return "cosmetic"
    return "not reproducible" if is_only_random(analysis, results) else "wrong result"


def is_only_random(analysis: RunAnalysis, results: Sequence[CheckResult]) -> bool:
    """Return whether only random streams are shown to differ from the baseline's."""
    results_by_check = {result.check: result for result in results}
    first_difference = find_divergence(analysis)
    if first_difference is None or not analysis.allowance.is_exact:
        return False
    if any(
        results_by_check[check].status != "pass"
        for check in _POSITION_CHECKS
        if check in results_by_check
    ):
        return False
    order_result = results_by_check[SAMPLE_ORDER]
    is_drawn = bool(order_result.anomalies) and order_result.severity == "not reproducible"
    samples_result = results_by_check[SAMPLES]
    if samples_result.severity == "wrong result" or not (
        is_drawn or (samples_result.status == "pass" and samples_result.evidence)
    ):
        return False
    started_restarts = [
        restart for restart in analysis.restarts if restart.attempt.first_step_event_numbers
    ]
    return all(_is_restored(analysis, restart) for restart in started_restarts) and any(
        _is_random_divergence(analysis, restart, order_result)
        for restart in started_restarts
        if restart.attempt.index == first_difference.attempt
    )


def _is_random_divergence(
    analysis: RunAnalysis, restart: Restart, order_result: CheckResult
) -> bool:
    """Return whether the first difference after a resume was drawn: numbers at once, or inputs."""
    blame = find_blame(analysis, restart)
    is_drawn = blame.causes and all(is_rng(row.component) for row in blame.rows)
    if order_result.anomalies:
        return (
            bool(blame.earliest_difference.differing_inputs)
            and order_result.severity == "not reproducible"
        )
    return bool(is_drawn) and blame.is_immediate


def _is_restored(analysis: RunAnalysis, restart: Restart) -> bool:
    """Return whether every part of each rank but its generators was seen to be right."""
    rows = [row for row in analysis.state_rows if row.attempt == restart.attempt.index]
    checked_rows = [row for row in rows if not is_rng(row.component)]
    model_ranks = {row.rank for row in checked_rows if row.group == "model"}
    return model_ranks >= set(restart.attempt.first_step_event_numbers) and all(
        _is_right_row(analysis, restart, row) for row in checked_rows
    )


def _is_right_row(analysis: RunAnalysis, restart: Restart, row: ResumeRow) -> bool:
    blame = find_blame(analysis, restart)
    if row.standing == "restored" or row in (*blame.without_consequence, *blame.moved_buffers):
        return True
    # Once numbers differ, the state to restore is the run's own at the end of the last epoch. Where
    # that was not seen, the file that was read shows whether the model is the one that was saved.
    is_after_divergence = restart.attempt.training_place is not None and has_diverged(
        analysis, *restart.attempt.training_place
    )
    if (
        row.standing != "different"
        or not is_after_divergence
        or row.expects_own_state
        or row.actual is None
    ):
        return False
    epoch_state = (
        None
        if row.step
        else analysis.run.snapshots.exit_snapshots.get(RankEpoch(row.rank, row.epoch - 1))
    )
    saved_part = index_parts(epoch_state).get(row.component)
    if saved_part is not None:
        return saved_part.digest == row.actual.digest
    return row.group != "model" or is_model_in_file(analysis, row, row.actual)
