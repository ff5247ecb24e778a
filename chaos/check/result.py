"""From findings to a judgement, the same way for every check."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from chaos.check.analysis import RunAnalysis
from chaos.check.inputs import InputComparison
from chaos.model.expect import VerdictStatus
from chaos.model.verdict import Anomaly, CheckDoubt, CheckResult
from chaos.wording import plural

Measures = Mapping[str, float | int | str | None]


@dataclass
class BuiltinCheck:
    """One of chaos's own checks; `NAME` and `check` as in a check module of another package."""

    NAME: str
    asks: str
    check: Callable[[RunAnalysis], CheckResult]

    def __post_init__(self) -> None:
        self.__doc__ = self.asks


def builtin_check(
    name: str, *, asks: str
) -> Callable[[Callable[[RunAnalysis], CheckResult]], BuiltinCheck]:
    """Return a decorator that makes a check of a function; `asks`: the question it answers."""
    return lambda check: BuiltinCheck(name, asks, check)


def conclude(
    check: str,
    *,
    anomalies: Sequence[Anomaly] = (),
    doubts: Sequence[str | CheckDoubt] = (),
    evidence: int,
    summary: str,
    measures: Measures | None = None,
) -> CheckResult:
    """Return the judgement: an anomaly fails, a doubt or no evidence is inconclusive."""
    status: VerdictStatus = "pass"
    known_doubts = [CheckDoubt(message=d) if isinstance(d, str) else d for d in doubts]
    if anomalies:
        remainder = f" (and {len(anomalies) - 1} more)" if len(anomalies) > 1 else ""
        status, summary, evidence = "fail", anomalies[0].message + remainder, max(1, evidence)
    elif doubts or evidence == 0:
        messages = [doubt.message for doubt in known_doubts]
        status, summary = "inconclusive", "; ".join(messages) or "nothing was seen to judge by"
    return CheckResult(
        check=check,
        status=status,
        summary=summary,
        evidence=evidence,
        anomalies=tuple(anomalies),
        doubts=tuple(known_doubts) if status == "inconclusive" else (),
        measures=dict(measures or {}),
    )


def not_applicable(check: str, summary: str) -> CheckResult:
    """Return the pass of a check that rightly has nothing to judge."""
    return CheckResult(check=check, status="pass", summary=summary, evidence=0)


def inconclusive(check: str, reason: str) -> CheckResult:
    """Return the judgement of a check without enough evidence."""
    return CheckResult(check=check, status="inconclusive", summary=reason, evidence=0)


def judge_no_restart(check: str, analysis: RunAnalysis) -> CheckResult:
    """Return the judgement of a check of restarts where there was none."""
    if analysis.no_restart_reason is not None:
        return not_applicable(check, analysis.no_restart_reason)
    return inconclusive(check, "no restart was seen")


def judge_missing_evidence(
    check: str,
    analysis: RunAnalysis,
    subject: str,
    *,
    has_run_evidence: bool,
    has_baseline_evidence: bool,
) -> CheckResult | None:
    """Return the judgement of a check without evidence; None if both runs recorded some.

    Evidence that the job has not, or that was not to be watched, is missing in the baseline too,
    and nothing is due. Evidence that only the run lacks was not seen.
    """
    if analysis.reference is None:
        if analysis.plan.ops:
            return inconclusive(check, f"{analysis.no_baseline_reason} to compare with")
        return not_applicable(check, "no fault was planned, so there is nothing to compare")
    # In the baseline nothing was lost, so what is missing there as well is not due. Without that
    # distinction a run that recorded nothing would be green.
    if not has_run_evidence and not has_baseline_evidence:
        return not_applicable(check, f"the job has no {subject}, or it was not watched")
    if not has_baseline_evidence:
        return inconclusive(check, f"the baseline tells nothing of the job's {subject}")
    if not has_run_evidence:
        return inconclusive(check, f"nothing was seen of the job's {subject}")
    return None


def require_inputs(check: str, analysis: RunAnalysis) -> InputComparison | CheckResult:
    """Return the inputs to judge by, or the judgement of a check where there are none."""
    inputs = analysis.inputs
    has_run_inputs, has_baseline_inputs = (
        inputs is not None and inputs.has_run_inputs,
        inputs is not None and inputs.has_baseline_inputs,
    )
    if not analysis.plan.ops:
        return not_applicable(check, "no fault was planned, so there is nothing to compare")
    missing_evidence = judge_missing_evidence(
        check,
        analysis,
        "inputs",
        has_run_evidence=has_run_inputs,
        has_baseline_evidence=has_baseline_inputs,
    )
    if missing_evidence is not None:
        return missing_evidence
    assert inputs is not None
    return inputs


def describe_resized_steps(analysis: RunAnalysis) -> str:
    """Return the number of steps without a counterpart in the baseline, to end a summary."""
    comparison = analysis.comparison
    if comparison is None or not comparison.resized_steps:
        return ""
    description = f"; {plural(comparison.resized_steps, 'step')} with another number of workers"
    if not comparison.mean_losses.compared_count:
        return f"{description} have no counterpart there"
    place_count = plural(comparison.mean_losses.compared_count, "place")
    return (
        f"{description}: at {place_count} all ranks together saw the samples that the "
        f"baseline's saw, with a "
        f"mean loss within {comparison.mean_loss_difference:.2g} of its"
    )


def describe_missing_inputs(attempts: Sequence[int]) -> list[str]:
    """Return doubts about attempts without any inputs seen, though they were due."""
    return [f"nothing was seen of the inputs of attempt {index}" for index in attempts]
