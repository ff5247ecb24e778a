"""Did the run come to an end by itself?"""

import math

from chaos.check.pace import last_sign
from chaos.check.result import conclude, unknown
from chaos.check.trial import Trial
from chaos.model.event import GateReached, GateReleased
from chaos.model.verdict import Anomaly, CheckResult

NAME = "terminates"
STILL = 0.1  # of the limit: whoever got on with something so lately is not hung


def check(trial: Trial) -> CheckResult:
    """Require that the run is over before `limits.run_s` has passed.

    The promise that it terminates: a run at its limit is hung, or retries for
    ever (a snapshot that is cut short can never be read again; a budget that
    is not kept, ray-project/ray#29553). Unknown where the run was interrupted,
    where a rank was still held by us, and where it was still training and
    clean runs differ in how many epochs they train.
    """
    ending = trial.run.ending
    if ending.deadline is not None:
        held = held_by_us(trial)
        limit_s = ending.deadline[1].limit_s
        if held is not None:
            why = f"the limit of {limit_s:g} s passed while rank {held} was held by us"
            return unknown(NAME, why)
        if trial.epochs_vary and _idle_s(trial, ending.deadline[0]) < limit_s * STILL:
            return unknown(
                NAME,
                f"it was still training at its limit of {limit_s:g} s, and clean runs differ in "
                "how many epochs they train",
            )
        return conclude(
            NAME, anomalies=[_late(trial, ending.deadline[0], limit_s)], evidence=1, summary=""
        )
    if ending.ended is not None and ending.ended[1].interrupted:
        return unknown(NAME, "the run was interrupted")
    over = ending.exited is not None and ending.ended is not None
    doubts = [] if over else ["the end of the run was not seen"]
    return conclude(NAME, doubts=doubts, evidence=1, summary="the run ended by itself, in time")


def held_by_us(trial: Trial) -> int | None:
    """Give the rank that was still held at its place when the run ended, None if none was."""
    held = {gate.op: gate for _, gate in trial.history.of(GateReached)}
    for _, released in trial.history.of(GateReleased):
        held.pop(released.op, None)
    for strike in trial.strikes:
        if strike.op.index in held and not strike.ended:
            return strike.rank
    return None


def _idle_s(trial: Trial, number: int) -> float:
    """Return how long before an event the last progress was; without any, for ever."""
    last = last_sign(trial.history, number)
    if last is None:
        return math.inf
    return (trial.history.time_ns(number) - trial.history.time_ns(last[0])) / 1e9


def _late(trial: Trial, number: int, limit_s: float) -> Anomaly:
    last = last_sign(trial.history, number)
    if last is None:
        return Anomaly(message=f"hung: no progress was seen in {limit_s:g} s", events=(number,))
    idle_s = _idle_s(trial, number)
    return Anomaly(
        message=f"not over at its limit of {limit_s:g} s: the last progress was {last[1]}, "
        f"{idle_s:.0f} s before",
        events=(last[0], number),
    )
