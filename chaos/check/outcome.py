"""Did the run end the way it should?"""

from collections.abc import Iterator

from chaos.check.already_over import in_words, nothing_was_left
from chaos.check.attempt import Commit
from chaos.check.cause import foreign_cause
from chaos.check.result import conclude, gist
from chaos.check.trial import Course, Trial
from chaos.model.event import Committed, StepDone
from chaos.model.verdict import Anomaly, CheckResult

NAME = "outcome"

_Found = tuple[list[Anomaly], list[str]]


def check(trial: Trial) -> CheckResult:
    """Require that `fit()` returns, or that it raises as expected.

    The promise of honest completion of the training; what the script does with
    its result, and whether that succeeds, is told as a note. A run that finished
    without a step or a commit is its own kind of failure: a run name that was
    used before resumes a finished run (ray-project/ray#35812). A driver that is started again
    when all was trained is an outcome of its own. What `fit()` returns are the
    last report's metrics and the newest checkpoint, where they are so in the
    baseline. An error that is expected is a struck rank's, or one that the
    loss of a rank leaves the others with; whether any other came of the fault
    is unknown. A run that was ended by us, at its limit or by an interruption,
    says nothing. How often Ray names the rank that was struck, and not a
    survivor, is told as a figure.
    """
    anomalies, doubts = _found(trial)
    ending = trial.run.ending
    words = (ending.returned, ending.raised, ending.script_raised, ending.exited, ending.deadline)
    raised = ending.raised
    said = f"fit() raised {raised[1].error}, as expected" if raised else "the job finished"
    if nothing_was_left(trial):
        said = f"restarted after the end: {in_words(trial)}"
    return conclude(
        NAME,
        anomalies=anomalies,
        doubts=doubts,
        evidence=sum(word is not None for word in words),
        summary=said,
        measures={"root_cause_named": _root_causes(trial)},
    )


def _found(trial: Trial) -> _Found:
    ending = trial.run.ending
    if ending.deadline is not None:
        return [], ["the run was ended by us, at its limit"]
    if ending.ended is not None and ending.ended[1].interrupted:
        return [], ["the run was interrupted"]
    if ending.script_raised is not None:
        number, raised = ending.script_raised
        message = f"the script failed outside fit(): {raised.error}: {gist(raised.message)}"
        return [Anomaly(message=message, events=(number,))], []
    if trial.plan.expect.outcome == "error":
        return _failed(trial)
    return _finished(trial)


def _finished(trial: Trial) -> _Found:
    ending = trial.run.ending
    if ending.raised is not None:
        number, raised = ending.raised
        message = f"fit() raised {raised.error}: {gist(raised.message)}"
        return [Anomaly(message=message, events=(number,))], []
    if ending.exited is not None and ending.returned is None:
        number, exited = ending.exited
        message = f"the script ended with code {exited.code} before fit() returned"
        return [Anomaly(message=message, events=(number,))], []
    if ending.returned is not None and not _has_trained(trial):
        message = "fit() returned, and not one step was trained"
        return [Anomaly(message=message, events=(ending.returned[0],))], []
    if ending.exited is None:
        return [], ["the end of the script was not seen"]
    last = trial.run.attempts[-1:]
    if last and last[0].early and not last[0].commits:
        return [], []  # nothing was left to train: what it returned is of a report before training
    return [*_foreign_result(trial), *_foreign_checkpoint(trial)], []


def _foreign_result(trial: Trial) -> Iterator[Anomaly]:
    """Find a result that is not of the last report, though the baseline's is."""
    if trial.reference is None or not _is_of_last_report(trial.reference):
        return
    if not _is_of_last_report(trial.run) and trial.run.ending.returned is not None:
        number, returned = trial.run.ending.returned
        last = trial.run.lineage.commits[-1] if trial.run.lineage.commits else None
        told = (
            "no report was committed" if last is None else f"the last report, of epoch {last.epoch}"
        )
        yield Anomaly(
            message=f"fit() returned metrics that are not those of {told}: {returned.metrics}",
            events=(number, *(() if last is None else (last.number,))),
        )


def _foreign_checkpoint(trial: Trial) -> Iterator[Anomaly]:
    """Find a checkpoint that is not the newest, though the baseline's is; or none at all."""
    reference, returned = trial.reference, trial.run.ending.returned
    if reference is None or reference.ending.returned is None or returned is None:
        return
    number, result = returned
    newest = _newest(trial.run)
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


def _newest(course: Course) -> Commit | None:
    saved = (c for c in reversed(course.lineage.commits) if c.checkpoint is not None)
    return next(saved, None)


def _returned_newest(course: Course) -> bool:
    returned, newest = course.ending.returned, _newest(course)
    return bool(returned and newest and returned[1].checkpoint == newest.checkpoint)


def _is_of_last_report(course: Course) -> bool:
    returned, commits = course.ending.returned, course.lineage.commits
    if returned is None or not returned[1].metrics or not commits or not commits[-1].metrics:
        return False
    ours, last = returned[1].metrics, commits[-1].metrics[0]
    shared = set(ours) & set(last)
    return bool(shared) and all(ours[key] == last[key] for key in shared)


def _root_causes(trial: Trial) -> str | None:
    """Count the faults for which Ray names the rank that was struck."""
    decided = {a.index: a.decisions[0].event.errors for a in trial.run.attempts if a.decisions}
    struck = [(a, s.rank) for a, hits in trial.hits.items() for s in hits if a in decided]
    named = sum(rank in decided[attempt] for attempt, rank in struck)
    return f"{named} of {len(struck)}" if struck else None


def _has_trained(trial: Trial) -> bool:
    """Look for a step or a commit: a boosted tree is trained without one optimizer step."""
    return trial.history.count(StepDone) + trial.history.count(Committed) > 0


def _failed(trial: Trial) -> _Found:
    ending = trial.run.ending
    if ending.returned is not None:
        message = "fit() returned, and was expected to raise"
        if trial.excuse is not None:
            return [], [f"{message}, but {trial.excuse}"]
        return [Anomaly(message=message, events=(ending.returned[0],))], []
    if ending.raised is not None:
        foreign = foreign_cause(trial)
        return [], [] if foreign is None else [foreign]
    if ending.exited is not None:
        message = f"the script ended with code {ending.exited[1].code} before fit() raised"
        return [Anomaly(message=message, events=(ending.exited[0],))], []
    return [], ["the end of the script was not seen"]
