"""Did the job stand still while nobody held it?"""

from collections.abc import Iterator

from chaos.check.attempt import Attempt
from chaos.check.pace import last_sign, pauses
from chaos.check.result import conclude, nothing_due, plural
from chaos.check.terminates import held_by_us
from chaos.check.trial import Trial
from chaos.model.verdict import Anomaly, CheckResult

NAME = "progress"
CIRCLES_MIN = 3


def check(trial: Trial) -> CheckResult:
    """Require that no attempt stands still for longer than a whole recovery may take.

    The promise of no silent stall, within an attempt, from its first step on:
    between two steps, reports, uploads, saves or commits of any rank lie at
    most `expect.recovery_s.max` seconds, or `limits.gate_s`, whichever is
    more. A straggler is slower than that nowhere; ranks that wait for one
    that never comes are (Lightning-AI/pytorch-lightning#20806,
    ray-project/ray PR #58229). Starting is `recovery`'s to time, and while a
    rank is held by us nobody is late. Nor may a run be at its limit because
    it retries for ever what fails each time at the same place, with nothing
    committed since (ray-project/ray#29553).
    """
    limit_s = max(trial.plan.expect.recovery_s.max, trial.plan.limits.gate_s)
    steps = sum(len(attempt.steps) for attempt in trial.run.attempts)
    anomalies = [*_pauses(trial, limit_s), *_at_the_end(trial, limit_s), *_in_circles(trial)]
    ended_by_itself = trial.run.ending.is_finished or trial.error_was_expected
    if not steps and not anomalies and ended_by_itself:
        return nothing_due(NAME, "no step was watched, and the job ended by itself")
    return conclude(
        NAME,
        anomalies=anomalies,
        evidence=steps,
        summary=f"{plural(steps, 'step')}, and never {limit_s:g} s without a sign of life",
    )


def _pauses(trial: Trial, limit_s: float) -> Iterator[Anomaly]:
    for pause in pauses(trial.history, trial.run.attempts, over_ns=int(limit_s * 1e9)):
        what = last_sign(trial.history, pause.since + 1)
        yield Anomaly(
            message=f"nothing was done for {pause.seconds:.0f} s"
            + (f" after {what[1]}" if what else "")
            + f"; {limit_s:g} s are allowed",
            events=(pause.since, pause.until),
        )


def _at_the_end(trial: Trial, limit_s: float) -> Iterator[Anomaly]:
    ended = trial.run.ending.deadline
    if ended is None or held_by_us(trial) is not None:
        return
    last = last_sign(trial.history, ended[0])
    since_ns = trial.history[0].time_ns if last is None else trial.history.time_ns(last[0])
    idle_s = (trial.history.time_ns(ended[0]) - since_ns) / 1e9
    if idle_s > limit_s:
        what = "no progress was seen" if last is None else f"the last progress was {last[1]}"
        yield Anomaly(
            message=f"hung: {what}, {idle_s:.0f} s before the limit of {ended[1].limit_s:g} s",
            events=(*(() if last is None else (last[0],)), ended[0]),
        )


def _in_circles(trial: Trial) -> Iterator[Anomaly]:
    """Find attempts that failed one after the other, up to the limit, and committed nothing."""
    if trial.run.ending.deadline is None:
        return
    vain: list[Attempt] = []
    for attempt in reversed(trial.run.attempts):
        is_last = attempt is trial.run.attempts[-1]
        if attempt.commits or not (attempt.decisions or is_last):
            break
        vain.insert(0, attempt)
    failed = [attempt for attempt in vain if attempt.decisions]
    if len(failed) < CIRCLES_MIN:
        return
    last = failed[-1].decisions[-1]
    yield Anomaly(
        message=f"it goes in circles: attempts {failed[0].index} to {failed[-1].index} each failed "
        f"and committed nothing, up to the limit of {trial.run.ending.deadline[1].limit_s:g} s; "
        f"the last one of {last.event.error}",
        events=(*(attempt.decisions[-1].number for attempt in failed),),
    )
