"""Did what was planned to be done to the job really happen?"""

from collections.abc import Mapping, Sequence

from chaos.check.result import conclude, nothing_due, plural
from chaos.check.strikes import Strike
from chaos.check.trial import Trial
from chaos.model.event import (
    Committed,
    ControllerState,
    FaultInvoked,
    FileSaveBegun,
    ReportReturned,
    StepDone,
    UploadBegun,
    UploadEnded,
    WorkerStarted,
)
from chaos.model.history import History
from chaos.model.plan import Op
from chaos.model.trigger import AtMoment, AtRecovery, AtStart, AtState, AtStep, AtTime, Moment
from chaos.model.verdict import CheckResult

NAME = "faults-happened"

_OfReport = FileSaveBegun | UploadBegun | UploadEnded | ReportReturned | Committed
_MOMENTS: Mapping[Moment, tuple[type[_OfReport], str]] = {
    "saving": (FileSaveBegun, "the middle of a save"),
    "upload_begin": (UploadBegun, "the beginning of its upload"),
    "upload_end": (UploadEnded, "the end of its upload"),
    "reported": (ReportReturned, "the return of its report()"),
    "committed": (Committed, "the commit"),
}


def check(trial: Trial) -> CheckResult:
    """Require that every op was invoked once and ended once, as `ok`, while the job trained.

    Anything else is unknown, not invalid: it says nothing about the job, and
    a run in which nothing happened must not be green.
    """
    if not trial.plan.ops:
        return nothing_due(NAME, "no fault was planned")
    doubts = [doubt for s in trial.strikes if (doubt := _doubt(s, trial.history))]
    doubts += [doubt for op in trial.plan.ops if (doubt := _attempts_missing(op, trial.strikes))]
    landed = [s for s in trial.strikes if s.landed and not s.came_too_late]
    details = "; ".join(strike.ended[0][1].detail for strike in landed)
    return conclude(NAME, doubts=doubts, evidence=len(landed), summary=details)


def nothing_happened(trial: Trial) -> bool:
    """Say whether faults were planned, and none of them is known to have struck training.

    What is found then is not their doing, whatever it is. Of several faults
    one is enough: a job that breaks at the first never comes to the second.
    """
    landed = any(strike.landed and not strike.came_too_late for strike in trial.strikes)
    return bool(trial.plan.ops) and not landed


def _doubt(strike: Strike, history: History) -> str | None:
    op = strike.op
    if op.absent is not None:
        return f"{op}: what it did cannot be judged without its package"
    if not strike.invoked:
        gave_up = [event.detail for _, event in strike.ended]
        return f"{op} never happened: {gave_up[0] if gave_up else _how_far(strike, history)}"
    if len(strike.invoked) > 1 or len(strike.ended) > 1:
        times = max(len(strike.invoked), len(strike.ended))
        return f"{op} was recorded {times} times"
    if not strike.ended:
        return f"{op} was begun, and what came of it was not recorded"
    return _no_harm(strike)


def _attempts_missing(op: Op, strikes: Sequence[Strike]) -> str | None:
    """Name the attempts that an op was meant for and did not strike, once it has struck any."""
    if op.fault.only_attempts is None:
        return None
    struck = {e.attempt for s in strikes if s.op == op for _, e in s.invoked}
    missing = sorted(set(op.fault.only_attempts) - struck)
    if not struck or not missing:
        return None
    return f"{op} never struck attempt {' and '.join(map(str, missing))}"


def _no_harm(strike: Strike) -> str | None:
    last = strike.ended[0][1]
    if last.status == "fail":
        return f"{strike.op} did no harm: {last.detail}"
    if last.status == "info":
        return f"whether {strike.op} did harm cannot be told: {last.detail}"
    if strike.is_in_storage and not strike.effects:
        return f"{strike.op} is said to have landed, and storage recorded nothing of it"
    if strike.came_too_late:
        what = "the node went" if strike.is_preemption else "it struck"
        return f"{strike.op} struck nobody: training was over before {what}"
    return None


def _how_far(strike: Strike, history: History) -> str:
    at = strike.op.at
    who = "the rank" if at.rank is None else f"rank {at.rank}"
    if strike.gates:
        return f"{who} was held at its place, and nothing was done to it"
    if isinstance(at, AtMoment):
        return _how_far_in_reports(at, who, history)
    if isinstance(at, AtStep):
        return _how_far_in_steps(at, who, history)
    return _how_far_elsewhere(at, who, history)


def _how_far_elsewhere(
    at: AtRecovery | AtStart | AtState | AtTime, who: str, history: History
) -> str:
    match at:
        case AtRecovery():
            return _how_far_in_recovery(at, who, history)
        case AtStart():
            begun = max((e.attempt for _, e in history.of(WorkerStarted)), default=None)
            last = "none was seen" if begun is None else f"the last one was {begun}"
            return f"{who} never began attempt {at.starting}; {last}"
        case AtState():
            visits = sum(e.state == at.state for _, e in history.of(ControllerState))
            return f"Ray's controller came to {at.state} {plural(visits, 'time')}"
        case AtTime():
            return f"the run was over before {at.seconds:g} s had passed"


def _how_far_in_recovery(at: AtRecovery, who: str, history: History) -> str:
    struck = [e.attempt for _, e in history.of(FaultInvoked) if e.op == at.recovering_from]
    begun = [e for _, e in history.of(WorkerStarted) if struck and e.attempt > min(struck)]
    if at.stage == "start" or not any(e.rank == at.rank for e in begun):
        return f"{who} began no attempt after one that op {at.recovering_from} struck"
    if at.stage == "loading":
        return f"{who} called `torch.load` on no file that an earlier attempt had saved"
    return f"{who} began no step after op {at.recovering_from} had struck"


def _how_far_in_steps(at: AtStep, who: str, history: History) -> str:
    place = f"epoch {at.epoch}, step {at.step}"
    places = [(s.epoch, s.step) for _, s in history.of(StepDone) if s.rank == at.rank]
    if not places:
        return f"{who} never reached {place}; no step of it was seen"
    if (at.epoch, at.step) in places:
        return f"{who} came to {place}, and was not held there"
    epoch, step = max(places)
    return f"{who} never reached {place}; it came to epoch {epoch}, step {step}"


def _how_far_in_reports(at: AtMoment, who: str, history: History) -> str:
    kind, name = _MOMENTS[at.moment]
    seen = [e.epoch for _, e in history.of(kind) if getattr(e, "rank", at.rank) == at.rank]
    if at.epoch in seen:
        return f"{who} came to {name} of epoch {at.epoch}, and was not held there"
    last = f"the last one seen was of epoch {max(seen)}" if seen else "none was seen"
    return f"{who} never came to {name} of epoch {at.epoch}; {last}"
