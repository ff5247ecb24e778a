"""Was everything that counted as saved really saved?"""

from collections.abc import Iterator, Mapping

from chaos.check.attempt import Attempt
from chaos.check.result import conclude, nothing_due, plural
from chaos.check.stored import kept_at_the_end
from chaos.check.trial import Trial
from chaos.model.event import ReportReturned, TrainFnEnded
from chaos.model.verdict import Anomaly, CheckResult

NAME = "ack"


def check(trial: Trial) -> CheckResult:
    """Require that what a job went away on, or was given in the end, had been committed.

    The promise of acknowledgement after durability. Every report that
    returned on all ranks of an attempt which ended by itself (its train
    functions returned, no fault hit it) was committed; and the checkpoint
    that `fit()` returns is one of the commits, and is there. In Ray 2.60 the
    return of `report()` alone says nothing: a fault before the controller's
    next poll loses what it reported, and that is not held against the job.
    """
    returned = trial.run.ending.returned
    settled = [a for a in trial.run.attempts if _ended_by_itself(trial, a)]
    reports = {a.index: _reported(trial, a) for a in settled}
    anomalies = [a for attempt in settled for a in _lost(attempt, reports[attempt.index])]
    anomalies += _result(trial)
    doubts = [
        f"reports of attempt {attempt.index} returned, and no commit at all was seen"
        for attempt in settled
        if reports[attempt.index] and not attempt.commits
    ]
    evidence = sum(len(of) for of in reports.values()) + (returned is not None)
    if not evidence and not anomalies and (trial.error_was_expected or not settled):
        return nothing_due(NAME, "no attempt ended by itself, so nobody relied on what was saved")
    return conclude(
        NAME,
        anomalies=anomalies,
        doubts=doubts,
        evidence=evidence,
        summary=f"{plural(sum(len(of) for of in reports.values()), 'report')} of the attempt that "
        "ended by itself, each committed",
    )


def _ended_by_itself(trial: Trial, attempt: Attempt) -> bool:
    if attempt.index in trial.hits or attempt.decisions:
        return False
    if attempt is trial.run.attempts[-1] and trial.run.ending.is_finished:
        return True
    ended = {
        e.rank
        for _, e in trial.history.of(TrainFnEnded)
        if e.attempt == attempt.index and e.error is None
    }
    return bool(attempt.places) and ended == {place.rank for place in attempt.places}


def _reported(trial: Trial, attempt: Attempt) -> Mapping[int, tuple[int, ...]]:
    """Give the epochs whose report returned on every rank, with the events."""
    found: dict[int, dict[int, int]] = {}
    for number, e in trial.history.of(ReportReturned):
        if e.attempt == attempt.index and e.error is None:
            found.setdefault(e.epoch, {})[e.rank] = number
    everybody = set(attempt.starts)
    return {epoch: tuple(by.values()) for epoch, by in found.items() if set(by) == everybody}


def _lost(attempt: Attempt, reports: Mapping[int, tuple[int, ...]]) -> Iterator[Anomaly]:
    committed = {commit.epoch for commit in attempt.commits}
    # Where none at all was seen, the controller's word is missing, not the commits.
    for epoch, events in sorted(reports.items()) if committed else ():
        if epoch not in committed:
            yield Anomaly(
                message=f"the report of epoch {epoch} returned on every rank of attempt "
                f"{attempt.index}, which ended by itself, and was never committed",
                events=events,
            )


def _result(trial: Trial) -> Iterator[Anomaly]:
    if trial.run.ending.returned is None or trial.run.ending.returned[1].checkpoint is None:
        return
    number, returned = trial.run.ending.returned
    names = {c.checkpoint for a in trial.run.attempts for c in (*a.early, *a.commits)}
    kept = kept_at_the_end(trial.run)
    if names and returned.checkpoint not in names:
        yield Anomaly(
            message=f"fit() returned {returned.checkpoint}, which was never committed",
            events=(number,),
        )
    elif kept is not None and returned.checkpoint not in kept[1]:
        yield Anomaly(
            message=f"fit() returned {returned.checkpoint}, and storage does not hold it",
            events=(number, kept[0]),
        )
