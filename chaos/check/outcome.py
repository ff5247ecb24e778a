"""The check of the end of a run."""

import re
from collections.abc import Iterator, Mapping

from chaos.check.analysis import RunAnalysis, RunTables
from chaos.check.anomaly import build_anomaly
from chaos.check.kinds.outcome import (
    EndedEarly,
    ExpectedErrorMissing,
    FailedOutsideTraining,
    NoCheckpointReturned,
    NothingTrained,
    OlderCheckpointReturned,
    TrainingFailed,
    WrongMetricsReturned,
)
from chaos.check.result import builtin_check, conclude
from chaos.check.resumes import describe_no_work, has_no_work_left
from chaos.model.causes import PEER_WAS_LOST, PROCESS_ENDED
from chaos.model.event import Committed, FailureDecided, FitRaised, StepDone
from chaos.model.verdict import Anomaly, CheckResult
from chaos.resume.attempt import Commit
from chaos.wording import shorten_text

# -- outcome ---------------------------------------------------------------------------------------


OUTCOME = "outcome"


_Findings = tuple[list[Anomaly], list[str]]


@builtin_check(OUTCOME, asks="Did the run end the way it should?")
def check_outcome(analysis: RunAnalysis) -> CheckResult:
    """Require that `fit()` returns, or that it raises as expected.

    Whether the script succeeds in what it does with the result is a note only. A run that finished
    without a step or a commit fails in a way of its own: a run name that was used before resumes a
    finished run (ray-project/ray#35812).

    `fit()` returns the last report's metrics and the newest checkpoint, where it does so in the
    baseline. An expected error is that of a rank that a fault hit, or one that the loss of a rank
    causes in the others. Any other error is inconclusive, and so is a run that chaos ended.
    """
    anomalies, doubts = _judge_ending(analysis)
    ending, summary = analysis.run.ending, "the job finished"
    ending_events = (
        ending.fit_return,
        ending.fit_error,
        ending.script_error,
        ending.driver_exit,
        ending.deadline,
    )
    if ending.fit_error is not None:
        summary = f"{_describe_error(analysis)}, as expected"
    if has_no_work_left(analysis):
        summary = f"restarted after the end: {describe_no_work(analysis)}"
    return conclude(
        OUTCOME,
        anomalies=anomalies,
        doubts=doubts,
        evidence=sum(event is not None for event in ending_events),
        summary=summary,
        measures={"root_cause_named": _count_root_causes(analysis)},
    )


def _judge_ending(analysis: RunAnalysis) -> _Findings:
    ending = analysis.run.ending
    if ending.deadline is not None:
        return [], ["the run was ended by us, at its limit"]
    if ending.run_end is not None and ending.run_end[1].interrupted:
        return [], ["the run was interrupted"]
    if ending.script_error is not None:
        number, raised = ending.script_error
        facts = FailedOutsideTraining(raised.error, raised.message)
        return [build_anomaly(facts, analysis.launcher_words, events=(number,))], []
    if analysis.plan.expect.outcome == "error":
        return _judge_expected_error(analysis)
    return _judge_finish(analysis)


def _judge_finish(analysis: RunAnalysis) -> _Findings:
    ending, terms = analysis.run.ending, analysis.launcher_words
    if ending.fit_error is not None:
        number, raised = ending.fit_error
        facts, doubt = TrainingFailed(raised.error, raised.message), analysis.rendezvous_failure
        return ([], [doubt]) if doubt else ([build_anomaly(facts, terms, events=(number,))], [])
    if ending.driver_exit is not None and ending.fit_return is None:
        number, exited = ending.driver_exit
        return [build_anomaly(EndedEarly(exited.code, "return"), terms, events=(number,))], []
    # Boosted trees have commits without a step.
    if ending.fit_return is not None and not analysis.history.select_numbers(StepDone, Committed):
        return [build_anomaly(NothingTrained(), terms, events=(ending.fit_return[0],))], []
    if ending.driver_exit is None:
        return [], ["the end of the script was not seen"]
    last_attempts = analysis.run.attempts[-1:]
    if last_attempts and last_attempts[0].early_commits and not last_attempts[0].commits:
        return [], []  # nothing was left to train: what it returned is of a report before training
    return [*_find_other_result(analysis), *_find_other_checkpoint(analysis)], []


def _find_other_result(analysis: RunAnalysis) -> Iterator[Anomaly]:
    """Yield a result that is not of the last report, though the baseline's is."""
    if analysis.reference is None or not _has_last_metrics(analysis.reference):
        return
    is_other = not _has_last_metrics(analysis.run) and not analysis.unsaved_epochs
    if is_other and analysis.run.ending.fit_return is not None:
        number, returned = analysis.run.ending.fit_return
        last_commit = analysis.run.lineage.commits[-1] if analysis.run.lineage.commits else None
        yield build_anomaly(
            WrongMetricsReturned(
                returned.metrics, epoch=None if last_commit is None else last_commit.epoch
            ),
            analysis.launcher_words,
            events=(number, *(() if last_commit is None else (last_commit.number,))),
        )


def _find_other_checkpoint(analysis: RunAnalysis) -> Iterator[Anomaly]:
    """Yield a checkpoint that is not the newest, though the baseline's is; or none at all."""
    reference, returned = analysis.reference, analysis.run.ending.fit_return
    if reference is None or reference.ending.fit_return is None or returned is None:
        return
    number, result = returned
    newest = _find_newest_commit(analysis.run)
    if result.checkpoint is None and reference.ending.fit_return[1].checkpoint is not None:
        yield build_anomaly(NoCheckpointReturned(), analysis.launcher_words, events=(number,))
    elif (
        newest is not None
        and newest.checkpoint is not None
        and result.checkpoint not in (None, newest.checkpoint)
        and _is_newest_returned(reference)
    ):
        yield build_anomaly(
            OlderCheckpointReturned(result.checkpoint or "", newest.checkpoint, newest.epoch),
            analysis.launcher_words,
            events=(number, newest.number),
        )


def _find_newest_commit(tables: RunTables) -> Commit | None:
    """Return the checkpoint that was committed last, by any attempt.

    A later report may carry none, and does not replace it: neither for Ray nor for its files.
    """
    saved_commits = (
        c for attempt in tables.attempts for c in attempt.commits if c.checkpoint is not None
    )
    return max(saved_commits, key=lambda commit: commit.number, default=None)


def _is_newest_returned(tables: RunTables) -> bool:
    returned, newest = tables.ending.fit_return, _find_newest_commit(tables)
    return bool(returned and newest and returned[1].checkpoint == newest.checkpoint)


def _has_last_metrics(tables: RunTables) -> bool:
    returned, commits = tables.ending.fit_return, tables.lineage.commits
    if returned is None or not returned[1].metrics or not commits or not commits[-1].metrics:
        return False
    returned_metrics, last_metrics = returned[1].metrics, commits[-1].metrics[0]
    shared_names = set(returned_metrics) & set(last_metrics)
    return bool(shared_names) and all(
        returned_metrics[key] == last_metrics[key] for key in shared_names
    )


def _count_root_causes(analysis: RunAnalysis) -> str | None:
    """Count the faults for which Ray names the rank that was hit."""
    errors_by_attempt = {
        a.index: a.decisions[0].event.errors for a in analysis.run.attempts if a.decisions
    }
    hit_ranks = [
        (a, injection.rank)
        for a, hits in analysis.hits.items()
        for injection in hits
        if a in errors_by_attempt
    ]
    named_count = sum(rank in errors_by_attempt[attempt] for attempt, rank in hit_ranks)
    return f"{named_count} of {len(hit_ranks)}" if hit_ranks else None


def _describe_error(analysis: RunAnalysis) -> str:
    raised = analysis.run.ending.fit_error
    assert raised is not None
    return analysis.launcher_words.describe_failure(raised[1].error)


def _judge_expected_error(analysis: RunAnalysis) -> _Findings:
    ending, terms = analysis.run.ending, analysis.launcher_words
    if ending.fit_return is not None:
        anomaly = build_anomaly(ExpectedErrorMissing(), terms, events=(ending.fit_return[0],))
        if analysis.fault_failure is not None:
            return [], [f"{anomaly.message}, but {analysis.fault_failure}"]
        return [anomaly], []
    if ending.fit_error is not None:
        foreign = find_foreign_error(analysis)
        return [], [] if foreign is None else [foreign]
    if ending.driver_exit is not None:
        number, exited = ending.driver_exit
        return [build_anomaly(EndedEarly(exited.code, "raise"), terms, events=(number,))], []
    return [], ["the end of the script was not seen"]


# -- foreign causes --------------------------------------------------------------------------------


# With those of a lost peer, Ray's own words for a loss, and ours.
_CONSEQUENCES = re.compile(
    rf"{PEER_WAS_LOST}"
    rf"|{PROCESS_ENDED}|WorkerGroupStartup|OutOfMemory|out of memory|preempt|InjectedError",
    re.IGNORECASE,
)


def find_foreign_error(analysis: RunAnalysis) -> str | None:
    """Return a doubt where the error that ended the run fits none of its faults.

    It fits where it is the error of a rank that was hit, or one that its loss causes in the others.
    In Ray 2.60 the map often holds the survivor's error alone, so the rank proves nothing.
    Inconclusive and not wrong: a job may put its peers' loss into words of its own, and an error of
    its own may come in between. A storage fault may cause any error.
    """
    raised, injections = (
        analysis.run.ending.fit_error,
        [s for s in analysis.injections if s.invocations],
    )
    if raised is None or not injections or any(injection.is_in_storage for injection in injections):
        return None
    decisions = [
        event
        for _, event in analysis.history.select_events(FailureDecided)
        if event.decision == "RAISE"
    ]
    errors = _group_errors(raised[1], decisions[-1] if decisions else None)
    attempt = decisions[-1].attempt if decisions else None
    hit_ranks = {s.rank for s in injections if attempt in s.hit_times_by_attempt}
    if any(rank in hit_ranks or _CONSEQUENCES.search(text) for rank, text in errors.items()):
        return None
    rank, text = next(iter(errors.items()))
    rank_text = "" if rank is None else f"rank {rank} had "
    faults = " and ".join(dict.fromkeys(str(injection.op) for injection in injections))
    message = f"{_describe_error(analysis)}: {rank_text}{shorten_text(text.strip(), 200)}"
    return f"{message}; whether that came of {faults} is not known"


def _group_errors(raised: FitRaised, decision: FailureDecided | None) -> Mapping[int | None, str]:
    """Return the errors by rank; where Ray names no rank, its own error."""
    if decision is not None and decision.errors:
        return dict(sorted(decision.errors.items()))
    error = "" if decision is None else decision.error
    return {None: f"{error} {raised.error} {raised.message}"}
