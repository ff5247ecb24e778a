"""Was the job training again soon enough?"""

from chaos.check.allowance import Allowance, for_recovery
from chaos.check.restarts import Restart
from chaos.check.result import Measures, conclude, nothing_due, plural, without_restart
from chaos.check.trial import Trial
from chaos.model.verdict import Anomaly, CheckResult

NAME = "recovery"


def check(trial: Trial) -> CheckResult:
    """Require a first step within `expect.recovery_s.max` of each fault.

    The promise of quick detection. A worker or node that dies counts from
    its death, so that the time until Ray sees it is part of the recovery; a
    preempted one from its deadline. Where the scenario states no bound it is
    120 s, or twice what the baseline needs from `fit()` to its first step, if
    that is more. A restart with no fault of ours before it, or after the last
    step, has nothing to time. Slow detection is the usual cause: Ray 2.60
    counts a silent node as dead after about 60 s, and a group that does not
    come up costs 60 s a time.
    """
    if not trial.restarts:
        return without_restart(NAME, trial)
    if not trial.sees_steps and trial.why_no_step_was_due is not None:
        return nothing_due(NAME, trial.why_no_step_was_due)
    timed = [r for r in trial.restarts if r.phases.fault_ns is not None]
    allowed = for_recovery(trial)
    late = [a for r in timed if (a := _anomaly(r, allowed))]
    is_known = trial.reference is not None or trial.plan.expect.recovery_s is not None
    anomalies = late if is_known else []
    if not anomalies and timed and not timed[-1].attempt.steps and trial.run.ending.is_finished:
        timed = timed[:-1]  # resumed after its last step: training was over
        if not timed:
            return conclude(NAME, evidence=1, summary="the restart had no step left to make")
    doubts = [f"attempt {r.attempt.index} made no step" for r in timed[-1:] if not r.attempt.steps]
    if late and not is_known:
        doubts.append(f"{late[0].message}; {trial.no_reference} to say how long the job starts")
    took = [r for r in timed if r.phases.total_s is not None]
    slowest = max(took, key=lambda r: r.phases.total_s or 0.0, default=None)
    return conclude(
        NAME,
        anomalies=anomalies,
        doubts=doubts,
        evidence=len(took),
        summary=_summary(slowest, len(took), allowed),
        measures=_measures(slowest),
    )


def _anomaly(restart: Restart, allowed: Allowance) -> Anomaly | None:
    total_s = restart.phases.total_s
    if total_s is None or total_s <= allowed.seconds:
        return None
    name, seconds = max(restart.phases.seconds.items(), key=lambda item: item[1] or 0.0)
    return Anomaly(
        message=f"attempt {restart.attempt.index} made its first step {total_s:.1f} s after the "
        f"fault; {allowed} (most of it: {name.removesuffix('_s')}, "
        f"{seconds or 0:.1f} s)",
        events=(
            *(number for strike in restart.strikes for number in strike.events[-1:]),
            restart.attempt.steps[0].number,
        ),
    )


def _summary(slowest: Restart | None, count: int, allowed: Allowance) -> str:
    if slowest is None:
        return "no recovery was timed"
    told = f"{plural(count, 'restart')}; the slowest took {slowest.phases.total_s:.1f} s"
    return told if allowed.own_s is None else f"{told}; {allowed}"


def _measures(slowest: Restart | None) -> Measures:
    if slowest is None:
        return {}
    total = {"recovery_s_max": slowest.phases.total_s}
    return {
        k: None if s is None else round(s, 3) for k, s in (total | slowest.phases.seconds).items()
    }
