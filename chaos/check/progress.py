"""Did the job stand still while nobody held it?"""

from collections.abc import Iterator

from chaos.check.allowance import Patience
from chaos.check.attempt import Attempt
from chaos.check.pace import Pause, last_sign, pauses
from chaos.check.result import conclude, nothing_due, plural
from chaos.check.terminates import held_by_us
from chaos.check.trial import Trial
from chaos.model.verdict import Anomaly, CheckResult

NAME = "progress"
CIRCLES_MIN = 3


def check(trial: Trial) -> CheckResult:
    """Require that no attempt stands still for longer than a whole recovery may take.

    The promise of no silent stall, within an attempt, from its first step on
    until `fit()` ends: between two steps, reports, uploads, saves or commits
    of any rank lie at most `expect.recovery_s.max` seconds (120 where it is
    left out), or `limits.gate_s`, whichever is more. A job that stands still
    for longer by itself, in an evaluation, may take twice as long as its
    baseline does where it does so: within an epoch, between two, or at the
    end; as long elsewhere is unknown, and so is any long pause without a
    baseline. The clean run has its limit, `limits.run_s`, and no other. A
    straggler is slower than that nowhere; ranks that wait for one
    that never comes are (Lightning-AI/pytorch-lightning#20806,
    ray-project/ray PR #58229). Starting is `recovery`'s to time, and while a
    rank is held by us nobody is late. Nor may a run be at its limit because
    it retries for ever what fails each time at the same place, with nothing
    committed since (ray-project/ray#29553).
    """
    patience = Patience.of(trial)
    long = _long_pauses(trial, patience) if trial.plan.ops else []
    steps = sum(len(attempt.steps) for attempt in trial.run.attempts)
    anomalies = [a for pause in long for a in _stalls(trial, patience, pause)]
    anomalies += [*_at_the_end(trial, patience), *_in_circles(trial)]
    doubts = [doubt for pause in long for doubt in _doubts(trial, patience, pause)]
    ended_by_itself = trial.run.ending.is_finished or trial.error_was_expected
    if not steps and not anomalies and ended_by_itself:
        return nothing_due(NAME, "no step was watched, and the job ended by itself")
    return conclude(
        NAME,
        anomalies=anomalies,
        doubts=doubts,
        evidence=steps,
        summary=f"{plural(steps, 'step')}, {_summary(trial, patience, long)}",
    )


def _long_pauses(trial: Trial, patience: Patience) -> list[Pause]:
    over_ns = int(patience.stated_s * 1e9)
    return list(pauses(trial.history, trial.run.attempts, over_ns=over_ns))


def _stalls(trial: Trial, patience: Patience, pause: Pause) -> Iterator[Anomaly]:
    if trial.reference is None or pause.seconds <= _most(patience, pause):
        return
    yield Anomaly(
        message=f"{_words(trial, pause)}; {patience.with_(pause)}",
        events=(pause.since, pause.until),
    )


def _doubts(trial: Trial, patience: Patience, pause: Pause) -> Iterator[str]:
    if pause.seconds <= patience.with_(pause).seconds:
        return
    if trial.reference is None:
        yield f"{_words(trial, pause)}; {trial.no_reference} to say whether it always does so"
    elif pause.seconds <= _most(patience, pause):
        longest_s = max(patience.own_s.values())
        yield (
            f"{_words(trial, pause)}, {pause.where}; the baseline stands still for "
            f"{longest_s:.0f} s as well, but elsewhere"
        )


def _most(patience: Patience, pause: Pause) -> float:
    return max(patience.with_(pause).seconds, patience.at_most(pause.attempt).seconds)


def _words(trial: Trial, pause: Pause) -> str:
    what = last_sign(trial.history, pause.since + 1)
    after = f" after {what[1]}" if what else ""
    return f"nothing was done for {pause.seconds:.0f} s{after}"


def _summary(trial: Trial, patience: Patience, long: list[Pause]) -> str:
    if not trial.plan.ops:
        return "with nothing done to the job; how long it stands still is its own"
    if not long:
        return f"and never {patience.stated_s:g} s without a sign of life"
    longest = max(long, key=lambda pause: pause.ns)
    return f"and {longest.seconds:.0f} s without a sign of life at most; {patience.with_(longest)}"


def _at_the_end(trial: Trial, patience: Patience) -> Iterator[Anomaly]:
    ended = trial.run.ending.deadline
    if ended is None or held_by_us(trial) is not None:
        return
    last = last_sign(trial.history, ended[0])
    since_ns = trial.history[0].time_ns if last is None else trial.history.time_ns(last[0])
    idle_s = (trial.history.time_ns(ended[0]) - since_ns) / 1e9
    attempt = trial.run.attempts[-1].index if trial.run.attempts else 0
    if idle_s > patience.at_most(attempt).seconds:
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
