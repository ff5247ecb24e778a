"""Did the run end the way it should?"""

from chaos.check.result import conclude, gist
from chaos.check.trial import Trial
from chaos.model.event import (
    AnyEvent,
    Committed,
    GateReached,
    GateReleased,
    ReportReturned,
    StepDone,
    UploadEnded,
    WorkerGroupStarted,
    WorkerStarted,
)
from chaos.model.verdict import Anomaly, CheckResult

NAME = "outcome"

_Found = tuple[list[Anomaly], list[str]]


def check(trial: Trial) -> CheckResult:
    """Require that `fit()` returns and the script ends with code 0, or that it raises as expected.

    It ends in time: a run at its limit is hung. A run that finished without
    a step or a commit is its own kind of failure: a run name that was used
    before resumes a finished run (ray-project/ray#35812). A hang while a
    worker is held by us, or an interrupted run, says nothing.
    """
    anomalies, doubts = _found(trial)
    ending = trial.run.ending
    words = (ending.returned, ending.raised, ending.script_raised, ending.exited, ending.deadline)
    raised = ending.raised
    said = f"fit() raised {raised[1].error}, as expected" if raised else "the job finished"
    return conclude(
        NAME,
        anomalies=anomalies,
        doubts=doubts,
        evidence=sum(word is not None for word in words),
        summary=said,
    )


def _found(trial: Trial) -> _Found:
    ending = trial.run.ending
    if ending.deadline is not None:
        return _hung(trial, ending.deadline[0], ending.deadline[1].limit_s)
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
    if ending.exited is not None and (ending.exited[1].code != 0 or ending.returned is None):
        number, exited = ending.exited
        when = "before fit() returned" if ending.returned is None else "after fit() had returned"
        message = f"the script ended with code {exited.code} {when}"
        return [Anomaly(message=message, events=(number,))], []
    if ending.returned is not None and not _has_trained(trial):
        message = "fit() returned, and not one step was trained"
        return [Anomaly(message=message, events=(ending.returned[0],))], []
    if ending.exited is None:
        return [], ["the end of the script was not seen"]
    return [], []


def _has_trained(trial: Trial) -> bool:
    """Look for a step or a commit: a boosted tree is trained without one optimizer step."""
    return any(isinstance(e.what, StepDone | Committed) for e in trial.history.entries)


def _failed(trial: Trial) -> _Found:
    ending = trial.run.ending
    if ending.returned is not None:
        message = "fit() returned, and was expected to raise"
        if trial.excuse is not None:
            return [], [f"{message}, but {trial.excuse}"]
        return [Anomaly(message=message, events=(ending.returned[0],))], []
    if ending.raised is not None:
        return [], []
    if ending.exited is not None:
        message = f"the script ended with code {ending.exited[1].code} before fit() raised"
        return [Anomaly(message=message, events=(ending.exited[0],))], []
    return [], ["the end of the script was not seen"]


def _hung(trial: Trial, number: int, limit_s: float) -> _Found:
    held = {gate.op: gate for _, gate in trial.history.of(GateReached)}
    for _, released in trial.history.of(GateReleased):
        held.pop(released.op, None)
    for strike in trial.strikes:
        if strike.op.index in held and not strike.ended:
            return [], [
                f"the limit of {limit_s:g} s passed while rank {strike.rank} was held by us"
            ]
    seen = trial.history.entries[:number]
    for last in range(len(seen) - 1, -1, -1):
        if (progress := _progress(seen[last].what)) is not None:
            idle_s = (trial.history.time_ns(number) - seen[last].time_ns) / 1e9
            message = f"hung: the last progress was {progress}, {idle_s:.0f} s before the limit"
            return [Anomaly(message=f"{message} of {limit_s:g} s", events=(last, number))], []
    return [Anomaly(message=f"hung: no progress was seen in {limit_s:g} s", events=(number,))], []


def _progress(what: AnyEvent) -> str | None:
    words = None
    match what:
        case StepDone():
            words = f"rank {what.rank}'s step {what.step} of epoch {what.epoch}"
        case Committed():
            words = f"the commit of epoch {what.epoch}"
        case ReportReturned():
            words = f"rank {what.rank}'s report of epoch {what.epoch}"
        case UploadEnded():
            words = f"rank {what.rank}'s upload of epoch {what.epoch}"
        case WorkerStarted():
            words = f"the start of rank {what.rank} in attempt {what.attempt}"
        case WorkerGroupStarted():
            words = f"the start of attempt {what.attempt}"
        case _:
            pass
    return words
