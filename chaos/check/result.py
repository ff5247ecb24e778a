"""From findings to a judgement, the same way for every check."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from chaos.check.analysis import RunAnalysis
from chaos.check.inputs import InputComparison
from chaos.model.scenario import VerdictStatus
from chaos.model.verdict import Anomaly, CheckResult
from chaos.words import plural

Measures = Mapping[str, float | int | str | None]


@dataclass
class OwnCheck:
    """One of chaos's own checks; `NAME` and `check` as in a check module of another package."""

    NAME: str
    asks: str
    check: Callable[[RunAnalysis], CheckResult]

    def __post_init__(self) -> None:
        self.__doc__ = self.asks


def own_check(
    name: str, *, asks: str
) -> Callable[[Callable[[RunAnalysis], CheckResult]], OwnCheck]:
    """Return a decorator that makes a check of a function; `asks`: the question it answers."""
    return lambda check: OwnCheck(name, asks, check)


def conclude(
    check: str,
    *,
    anomalies: Sequence[Anomaly] = (),
    doubts: Sequence[str] = (),
    evidence: int,
    summary: str,
    measures: Measures | None = None,
) -> CheckResult:
    """Return the judgement: an anomaly fails, a doubt or no evidence is inconclusive."""
    status: VerdictStatus = "pass"
    if anomalies:
        more = f" (and {len(anomalies) - 1} more)" if len(anomalies) > 1 else ""
        status, summary, evidence = "fail", anomalies[0].message + more, max(1, evidence)
    elif doubts or evidence == 0:
        status, summary = "inconclusive", "; ".join(doubts) or "nothing was seen to judge by"
    return CheckResult(
        check=check,
        status=status,
        summary=summary,
        evidence=evidence,
        anomalies=tuple(anomalies),
        measures=dict(measures or {}),
    )


def nothing_due(check: str, summary: str) -> CheckResult:
    """Return the pass of a check that rightly has nothing to judge."""
    return CheckResult(check=check, status="pass", summary=summary, evidence=0)


def inconclusive(check: str, why: str) -> CheckResult:
    """Return the judgement of a check without enough evidence."""
    return CheckResult(check=check, status="inconclusive", summary=why, evidence=0)


def without_restart(check: str, analysis: RunAnalysis) -> CheckResult:
    """Return the judgement of a check of restarts where there was none."""
    if analysis.why_nothing_restarted is not None:
        return nothing_due(check, analysis.why_nothing_restarted)
    return inconclusive(check, "no restart was seen")


def blind(
    check: str, analysis: RunAnalysis, what: str, *, ours: bool, theirs: bool
) -> CheckResult | None:
    """Return the judgement of a check without evidence; None if both runs recorded some.

    Evidence that the job has not, or that was not to be watched, is missing in the baseline too,
    and nothing is due. Evidence that only the run lacks was not seen.
    """
    if analysis.reference is None:
        if analysis.plan.ops:
            return inconclusive(check, f"{analysis.no_reference} to compare with")
        return nothing_due(check, "no fault was planned, so there is nothing to compare")
    # In the baseline nothing was lost, so what is missing there as well is not due. Without that
    # distinction a run that recorded nothing would be green.
    if not ours and not theirs:
        return nothing_due(check, f"the job has no {what}, or it was not watched")
    if not theirs:
        return inconclusive(check, f"the baseline tells nothing of the job's {what}")
    if not ours:
        return inconclusive(check, f"nothing was seen of the job's {what}")
    return None


def watched_feeds(check: str, analysis: RunAnalysis) -> InputComparison | CheckResult:
    """Return the inputs to judge by, or the judgement of a check where there are none."""
    feeds = analysis.inputs
    ours, theirs = feeds is not None and feeds.are_watched, feeds is not None and feeds.were_watched
    if not analysis.plan.ops:
        return nothing_due(check, "no fault was planned, so there is nothing to compare")
    unseen = blind(check, analysis, "inputs", ours=ours, theirs=theirs)
    if unseen is not None:
        return unseen
    assert feeds is not None
    return feeds


def of_another_size(analysis: RunAnalysis) -> str:
    """Return the number of steps without a counterpart in the baseline, to end a summary."""
    found = analysis.comparison
    if found is None or not found.resized:
        return ""
    steps = f"; {plural(found.resized, 'step')} with another number of workers"
    if not found.together.compared:
        return f"{steps} have no counterpart there"
    places = plural(found.together.compared, "place")
    return (
        f"{steps}: at {places} all ranks together saw the samples that the baseline's saw, with a "
        f"mean loss within {found.nearness:.2g} of its"
    )


def unseen_inputs(attempts: Sequence[int]) -> list[str]:
    """Return doubts about attempts without any inputs seen, though they were due."""
    return [f"nothing was seen of the inputs of attempt {index}" for index in attempts]
