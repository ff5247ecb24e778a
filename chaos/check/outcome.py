"""The check of the end of a run."""

import re
from collections.abc import Iterator, Mapping

from chaos.check.analysis import RunAnalysis, RunTables
from chaos.check.attempt import Commit
from chaos.check.result import conclude, own_check
from chaos.check.resumes import in_words, nothing_was_left
from chaos.model.causes import PEER_WAS_LOST, PROCESS_ENDED
from chaos.model.event import Committed, FailureDecided, FitRaised, StepDone
from chaos.model.verdict import Anomaly, CheckResult
from chaos.words import gist, shortened

# -- outcome ---------------------------------------------------------------------------------------


OUTCOME = "outcome"


_Found = tuple[list[Anomaly], list[str]]


@own_check(OUTCOME, asks="Did the run end the way it should?")
def check_outcome(analysis: RunAnalysis) -> CheckResult:
    """Require that `fit()` returns, or that it raises as expected.

    The promise of honest completion of the training. Whether the script succeeds in what it does
    with the result is a note only. A run that finished without a step or a commit fails in a way of
    its own: a run name that was used before resumes a finished run (ray-project/ray#35812). A
    driver that is started again when all was trained is an outcome of its own. `fit()` returns the
    last report's metrics and the newest checkpoint, where it does so in the baseline. An expected
    error is that of a rank that a fault hit, or one that the loss of a rank causes in the others.
    It is inconclusive whether any other error came of the fault, and so is a run that chaos ended,
    at its limit or by an interruption. A figure counts how often Ray names the rank that was hit,
    and not a survivor.
    """
    anomalies, doubts = _judged_ending(analysis)
    ending, said = analysis.run.ending, "the job finished"
    words = (ending.returned, ending.raised, ending.script_raised, ending.exited, ending.deadline)
    if ending.raised is not None:
        said = f"{_raised(analysis)}, as expected"
    if nothing_was_left(analysis):
        said = f"restarted after the end: {in_words(analysis)}"
    return conclude(
        OUTCOME,
        anomalies=anomalies,
        doubts=doubts,
        evidence=sum(word is not None for word in words),
        summary=said,
        measures={"root_cause_named": _root_causes(analysis)},
    )


def _judged_ending(analysis: RunAnalysis) -> _Found:
    ending, call = analysis.run.ending, analysis.terms.call
    if ending.deadline is not None:
        return [], ["the run was ended by us, at its limit"]
    if ending.ended is not None and ending.ended[1].interrupted:
        return [], ["the run was interrupted"]
    if ending.script_raised is not None:
        number, raised = ending.script_raised
        message = f"the script failed outside {call}: {raised.error}: {gist(raised.message)}"
        return [Anomaly(message=message, events=(number,))], []
    if analysis.plan.expect.outcome == "error":
        return _failed(analysis)
    return _finished(analysis)


def _finished(analysis: RunAnalysis) -> _Found:
    ending, call, driver = analysis.run.ending, analysis.terms.call, analysis.terms.driver
    if ending.raised is not None:
        number, raised = ending.raised
        message = f"{_raised(analysis)}: {gist(raised.message)}"
        found = [] if analysis.unmet else [Anomaly(message=message, events=(number,))]
        return found, [analysis.unmet] if analysis.unmet else []
    if ending.exited is not None and ending.returned is None:
        number, exited = ending.exited
        message = f"{driver} ended with code {exited.code} before {call} returned"
        return [Anomaly(message=message, events=(number,))], []
    # Boosted trees have commits without a step.
    if ending.returned is not None and not analysis.history.numbers_of(StepDone, Committed):
        message = f"{call} returned, and not one step was trained"
        return [Anomaly(message=message, events=(ending.returned[0],))], []
    if ending.exited is None:
        return [], ["the end of the script was not seen"]
    last = analysis.run.attempts[-1:]
    if last and last[0].early and not last[0].commits:
        return [], []  # nothing was left to train: what it returned is of a report before training
    return [*_foreign_result(analysis), *_foreign_checkpoint(analysis)], []


def _foreign_result(analysis: RunAnalysis) -> Iterator[Anomaly]:
    """Yield a result that is not of the last report, though the baseline's is."""
    if analysis.reference is None or not _is_of_last_report(analysis.reference):
        return
    is_other = not _is_of_last_report(analysis.run) and not analysis.unsaved
    if is_other and analysis.run.ending.returned is not None:
        number, returned = analysis.run.ending.returned
        last = analysis.run.lineage.commits[-1] if analysis.run.lineage.commits else None
        due = f"the last report, of epoch {last.epoch}" if last else "no report was committed"
        yield Anomaly(
            message=f"fit() returned metrics that are not those of {due}: {returned.metrics}",
            events=(number, *(() if last is None else (last.number,))),
        )


def _foreign_checkpoint(analysis: RunAnalysis) -> Iterator[Anomaly]:
    """Yield a checkpoint that is not the newest, though the baseline's is; or none at all."""
    reference, returned = analysis.reference, analysis.run.ending.returned
    if reference is None or reference.ending.returned is None or returned is None:
        return
    number, result = returned
    newest = _newest(analysis.run)
    if result.checkpoint is None and reference.ending.returned[1].checkpoint is not None:
        message = "fit() returned no checkpoint, and the baseline's did"
        yield Anomaly(message=message, events=(number,))
    elif (
        newest is not None
        and result.checkpoint not in (None, newest.checkpoint)
        and _returned_newest(reference)
    ):
        yield Anomaly(
            message=f"fit() returned {result.checkpoint}, and the newest checkpoint is "
            f"{newest.checkpoint}, of epoch {newest.epoch}",
            events=(number, newest.number),
        )


def _newest(tables: RunTables) -> Commit | None:
    """Return the checkpoint that was committed last, by any attempt.

    A later report may carry none, and does not replace it: neither for Ray nor for its files.
    """
    saved = (c for attempt in tables.attempts for c in attempt.commits if c.checkpoint is not None)
    return max(saved, key=lambda commit: commit.number, default=None)


def _returned_newest(tables: RunTables) -> bool:
    returned, newest = tables.ending.returned, _newest(tables)
    return bool(returned and newest and returned[1].checkpoint == newest.checkpoint)


def _is_of_last_report(tables: RunTables) -> bool:
    returned, commits = tables.ending.returned, tables.lineage.commits
    if returned is None or not returned[1].metrics or not commits or not commits[-1].metrics:
        return False
    ours, last = returned[1].metrics, commits[-1].metrics[0]
    shared = set(ours) & set(last)
    return bool(shared) and all(ours[key] == last[key] for key in shared)


def _root_causes(analysis: RunAnalysis) -> str | None:
    """Count the faults for which Ray names the rank that was hit."""
    decided = {a.index: a.decisions[0].event.errors for a in analysis.run.attempts if a.decisions}
    struck = [(a, s.rank) for a, hits in analysis.hits.items() for s in hits if a in decided]
    named = sum(rank in decided[attempt] for attempt, rank in struck)
    return f"{named} of {len(struck)}" if struck else None


def _raised(analysis: RunAnalysis) -> str:
    raised = analysis.run.ending.raised
    assert raised is not None
    return analysis.terms.raised(raised[1].error)


def _failed(analysis: RunAnalysis) -> _Found:
    ending, call, driver = analysis.run.ending, analysis.terms.call, analysis.terms.driver
    if ending.returned is not None:
        message = f"{call} returned, and was expected to raise"
        if analysis.excuse is not None:
            return [], [f"{message}, but {analysis.excuse}"]
        return [Anomaly(message=message, events=(ending.returned[0],))], []
    if ending.raised is not None:
        foreign = foreign_cause(analysis)
        return [], [] if foreign is None else [foreign]
    if ending.exited is not None:
        message = f"{driver} ended with code {ending.exited[1].code} before {call} raised"
        return [Anomaly(message=message, events=(ending.exited[0],))], []
    return [], ["the end of the script was not seen"]


# -- foreign causes --------------------------------------------------------------------------------


# With those of a lost peer, Ray's own words for a loss, and ours.
_CONSEQUENCES = re.compile(
    rf"{PEER_WAS_LOST}"
    rf"|{PROCESS_ENDED}|WorkerGroupStartup|OutOfMemory|out of memory|preempt|InjectedError",
    re.IGNORECASE,
)


def foreign_cause(analysis: RunAnalysis) -> str | None:
    """Return a doubt where the error that ended the run fits none of its faults.

    It fits where it is the error of a rank that was hit, or one that its loss causes in the others.
    In Ray 2.60 the map often holds the survivor's error alone, so the rank proves nothing.
    Inconclusive and not wrong: a job may put its peers' loss into words of its own, and an error of
    its own may come in between. A storage fault may cause any error.
    """
    raised, injections = analysis.run.ending.raised, [s for s in analysis.injections if s.invoked]
    if raised is None or not injections or any(injection.is_in_storage for injection in injections):
        return None
    decided = [e for _, e in analysis.history.of(FailureDecided) if e.decision == "RAISE"]
    causes = _errors_by_rank(raised[1], decided[-1] if decided else None)
    attempt = decided[-1].attempt if decided else None
    struck = {s.rank for s in injections if attempt in s.hits}
    if any(rank in struck or _CONSEQUENCES.search(text) for rank, text in causes.items()):
        return None
    rank, text = next(iter(causes.items()))
    who = "" if rank is None else f"rank {rank} had "
    faults = " and ".join(dict.fromkeys(str(injection.op) for injection in injections))
    said = f"{_raised(analysis)}: {who}{shortened(text.strip(), 200)}"
    return f"{said}; whether that came of {faults} is not known"


def _errors_by_rank(raised: FitRaised, decided: FailureDecided | None) -> Mapping[int | None, str]:
    """Return the errors by rank; where Ray names no rank, its own error."""
    if decided is not None and decided.errors:
        return dict(sorted(decided.errors.items()))
    error = "" if decided is None else decided.error
    return {None: f"{error} {raised.error} {raised.message}"}
