"""Did what was planned to be done to the job really happen?"""

from chaos.check.result import conclude, nothing_due
from chaos.check.strikes import Strike
from chaos.check.trial import Trial
from chaos.model.event import StepDone
from chaos.model.history import History
from chaos.model.trigger import AtStep
from chaos.model.verdict import CheckResult

NAME = "faults-happened"


def check(trial: Trial) -> CheckResult:
    """Require that every op was invoked once and ended once, as `ok`.

    Anything else is unknown, not invalid: it says nothing about the job, and
    a run in which nothing happened must not be green.
    """
    if not trial.plan.ops:
        return nothing_due(NAME, "no fault was planned")
    doubts = [doubt for s in trial.strikes if (doubt := _doubt(s, trial.history))]
    landed = [s for s in trial.strikes if s.landed]
    details = "; ".join(strike.ended[0][1].detail for strike in landed)
    return conclude(NAME, doubts=doubts, evidence=len(landed), summary=details)


def _doubt(strike: Strike, history: History) -> str | None:
    op = strike.op
    if not strike.invoked:
        return f"{op} never happened: {_how_far(strike, history)}"
    if len(strike.invoked) > 1 or len(strike.ended) > 1:
        times = max(len(strike.invoked), len(strike.ended))
        return f"{op} was recorded {times} times"
    if not strike.ended:
        return f"{op} was begun, and what came of it was not recorded"
    last = strike.ended[0][1]
    if last.status == "fail":
        return f"{op} did no harm: {last.detail}"
    if last.status == "info":
        return f"whether {op} did harm cannot be told: {last.detail}"
    return None


def _how_far(strike: Strike, history: History) -> str:
    at = strike.op.at
    who = "the rank" if at.rank is None else f"rank {at.rank}"
    if strike.gates:
        return f"{who} was held at its place, and nothing was done to it"
    place = f"epoch {at.epoch}, " + (f"step {at.step}" if isinstance(at, AtStep) else at.moment)
    places = [(s.epoch, s.step) for _, s in history.of(StepDone) if s.rank == at.rank]
    if not places:
        return f"{who} never reached {place}; no step of it was seen"
    epoch, step = max(places)
    return f"{who} never reached {place}; it came to epoch {epoch}, step {step}"
