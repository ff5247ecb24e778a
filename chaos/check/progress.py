"""Checks of time and work: recovery, lost work, stalls, and an end."""

import math
from collections.abc import Iterator

from chaos.check.analysis import NO_STEPS, RunAnalysis, RunTables
from chaos.check.attempt import Attempt
from chaos.check.own_saves import took_all_there_was
from chaos.check.restarts import Phases, Restart
from chaos.check.result import (
    Measures,
    conclude,
    inconclusive,
    nothing_due,
    own_check,
    without_restart,
)
from chaos.check.standstill import describe_waits, find_waits
from chaos.check.time_limits import (
    Pause,
    StallLimit,
    TimeLimit,
    for_recovery,
    last_sign,
    longest_idle_s,
    pauses,
    start_s,
)
from chaos.model.event import DeadlinePassed, GateReached, GateReleased, UploadBegun
from chaos.model.places import Place
from chaos.model.verdict import Anomaly, CheckResult
from chaos.words import plural

# -- recovery --------------------------------------------------------------------------------------


RECOVERY = "recovery"


@own_check(RECOVERY, asks="Was the job training again soon enough?")
def check_recovery(analysis: RunAnalysis) -> CheckResult:
    """Require a first step within `expect.recovery_s.max` of each fault.

    The promise of quick detection. For a worker or node that dies, the time runs from its death, so
    that the time until Ray notices is part of the recovery; for a preempted one, from its deadline.
    Without a bound in the scenario it is 120 s, or twice the baseline's time from `fit()` to its
    first step, if that is more; none is set for a job that waits among the jobs of others. A
    restart with no injected fault before it, or after the last step, has nothing to time. Slow
    detection is the usual cause: Ray 2.60 counts a silent node as dead after about 60 s, and a
    group that does not come up costs 60 s a time.
    """
    if not analysis.restarts:
        return without_restart(RECOVERY, analysis)
    if not analysis.sees_steps and analysis.why_no_step_was_due is not None:
        return nothing_due(RECOVERY, analysis.why_no_step_was_due)
    timed = [r for r in analysis.restarts if r.phases.fault_ns is not None]
    allowed = for_recovery(analysis)
    late = [a for r in timed if (a := _late_recovery(r, allowed))]
    is_known = analysis.reference is not None or analysis.plan.expect.recovery_s is not None
    anomalies = late if is_known else []
    if not anomalies and timed and analysis.run.ending.is_finished:
        # Resumed after its last step, training was over; so it was for those that a fault ended
        # before that one.
        while timed and not timed[-1].attempt.steps:
            timed.pop()
        if not timed:
            return conclude(RECOVERY, evidence=1, summary="the restart had no step left to make")
    doubts = [f"attempt {r.attempt.index} made no step" for r in timed[-1:] if not r.attempt.steps]
    if late and not is_known:
        doubts.append(f"{late[0].message}; {analysis.no_reference} to say how long the job starts")
    took = [r for r in timed if r.phases.total_s is not None]
    slowest = max(took, key=lambda r: r.phases.total_s or 0.0, default=None)
    result = conclude(
        RECOVERY,
        anomalies=anomalies,
        doubts=doubts,
        evidence=len(took),
        summary=_recovery_summary(slowest, len(took), allowed),
        measures=None if slowest is None else _recovery_measures(slowest.phases),
    )
    # A recovery without a limit cannot fail, and so is no evidence.
    return result if allowed.is_set else result.model_copy(update={"evidence": 0})


def _late_recovery(restart: Restart, allowed: TimeLimit) -> Anomaly | None:
    total_s = restart.phases.total_s
    if total_s is None or total_s <= allowed.seconds:
        return None
    name, seconds = max(restart.phases.seconds.items(), key=lambda item: item[1] or 0.0)
    return Anomaly(
        message=f"attempt {restart.attempt.index} made its first step {total_s:.1f} s after the "
        f"fault; {allowed} (most of it: {name.removesuffix('_s')}, "
        f"{seconds or 0:.1f} s)",
        events=(
            *(number for injection in restart.injections for number in injection.events[-1:]),
            restart.attempt.steps[0].number,
        ),
    )


def _recovery_summary(slowest: Restart | None, count: int, allowed: TimeLimit) -> str:
    if slowest is None:
        return "no recovery was timed"
    summary = f"{plural(count, 'restart')}; the slowest took {slowest.phases.total_s:.1f} s"
    return summary if allowed.own_s is None and allowed.is_set else f"{summary}; {allowed}"


def _recovery_measures(phases: Phases) -> Measures:
    seconds = {"recovery_s_max": phases.total_s, **phases.seconds}
    return {name: None if s is None else round(s, 3) for name, s in seconds.items()}


# -- lost-work -------------------------------------------------------------------------------------


LOST_WORK = "lost-work"


@own_check(LOST_WORK, asks="Did a restart throw away too much finished work?")
def check_lost_work(analysis: RunAnalysis) -> CheckResult:
    """Require that no restart discards more steps than `expect.lost_steps.max`, on any rank.

    The promise of bounded loss. Without a bound in the scenario it is the baseline's longest way
    from one checkpoint to the next (or from one save of its own, for a job that gives Ray none). It
    is twice that for a preemption, which comes by the clock and may find the last report not yet
    recorded. To it come the steps that a rank made while a checkpoint before them was uploaded, by
    another rank or beside training: in Ray 2.60 a report that returned is no commit until all ranks
    have made it and the controller has polled. A job that saves by the clock makes another number
    of steps from one save to the next in every run, so there is no bound. Nor is there one for a
    restart from the newest of the job's own saves that was there: it loses what a save costs that
    comes late, as by a copy beside training.
    """
    if not analysis.restarts:
        return without_restart(LOST_WORK, analysis)
    if not analysis.sees_steps:
        if analysis.plan.expect.lost_steps is not None:
            return inconclusive(LOST_WORK, f"`expect.lost_steps` is given, and {NO_STEPS}")
        return nothing_due(LOST_WORK, NO_STEPS)
    if analysis.plan.expect.lost_steps is None and analysis.is_by_steps:
        return nothing_due(LOST_WORK, "the job saves by the clock, which bounds no number of steps")
    if analysis.plan.expect.lost_steps is None and analysis.reference is None:
        why = f"{analysis.no_reference} to say how much is too much, nor does `expect.lost_steps`"
        return inconclusive(LOST_WORK, why)
    started = [restart for restart in analysis.restarts if restart.attempt.starts]
    anomalies = [anomaly for restart in started for anomaly in _too_much_lost(restart, analysis)]
    most = max((_lost_most(restart) for restart in started), default=0)
    return conclude(
        LOST_WORK,
        anomalies=anomalies,
        evidence=len(started),
        summary=f"{plural(len(started), 'restart')} threw away at most "
        f"{plural(most, 'finished step')}",
        measures={"lost_steps_max": most, "lost_steps": sum(_lost_most(r) for r in started)},
    )


def _lost_most(restart: Restart) -> int:
    return max(restart.lost_steps.values(), default=0)


def _too_much_lost(restart: Restart, analysis: RunAnalysis) -> Iterator[Anomaly]:
    starts = restart.attempt.starts
    for rank, lost in sorted(restart.lost_steps.items()):
        bound = _lost_bound(restart, analysis, rank)
        if lost > bound and lost == _lost_most(restart):
            yield Anomaly(
                message=f"attempt {restart.attempt.index} threw away "
                f"{plural(lost, 'finished step')} of rank {rank}; {bound:g} are allowed",
                events=tuple(s.number for s in starts.values() if s.rank == rank),
            )
            return


def _way_between_saves(reference: RunTables) -> int:
    """Return the most steps that any rank makes from one save to the next."""
    if not reference.keeps_own_files:
        return reference.lineage.longest_way_between_commits
    saved = {save.place for save in reference.files.saves}
    return max(
        (_longest_way(reference, rank, saved) for rank in reference.lineage.ranks), default=0
    )


def _longest_way(reference: RunTables, rank: int, saved: set[Place]) -> int:
    way = longest = 0
    for epoch in reference.lineage.epochs[rank]:
        # A save at the head of an epoch, before any step of it, ends the way too.
        way = 0 if Place(epoch, 0) in saved else way
        for step in reference.lineage.steps_of(rank, epoch):
            way += 1
            longest = max(longest, way)
            way = 0 if Place(step.epoch, step.step) in saved else way
    return longest


def _lost_bound(restart: Restart, analysis: RunAnalysis, rank: int) -> float:
    if analysis.plan.expect.lost_steps is not None:
        return analysis.plan.expect.lost_steps.max
    assert analysis.reference is not None
    # What a restart may lose follows from how often is saved, and in three cases it is more: where
    # fewer workers make more steps of an epoch; where a fault came by the clock, so that the report
    # before it may not be committed; where an upload was under way, behind which nothing that was
    # saved later can be recorded.
    if took_all_there_was(analysis, restart):
        return math.inf  # a save that comes late, as by a copy beside training, is the job's own
    way = _way_between_saves(analysis.reference)
    ended, due = restart.ended, max((a.size for a in analysis.reference.attempts), default=0)
    if ended is not None and 0 < ended.size < due:  # fewer workers make more steps of an epoch
        way = -(-way * due // ended.size)
    # Where no rank was held at its place, the report before may not have been committed yet.
    is_by_the_clock = any(not s.is_exact for s in restart.injections)
    return max(
        2 * way if is_by_the_clock else way,
        way + _steps_beside_uploads(restart, analysis.run, rank),
    )


def _steps_beside_uploads(restart: Restart, run: RunTables, rank: int) -> int:
    """Return the discarded steps that a rank made while a checkpoint before them was uploaded.

    By another rank, or by a thread of its own (`CheckpointUploadMode.ASYNC`): nothing that was
    saved later could be recorded before it, and it never was.
    """
    if restart.ended is None or restart.attempt.place is None:
        return 0
    ended, known = restart.ended, {commit.epoch for commit in restart.ended.commits}
    under_way = [
        e.epoch
        for _, e in run.history.of(UploadBegun)
        if e.attempt == ended.index and e.epoch not in known
        if e.epoch >= restart.attempt.place[0]
    ]
    first = min(under_way, default=None)
    if first is None:
        return 0
    made = ended.steps.by_epoch.items()
    return sum(len(steps) for (of, epoch), steps in made if of == rank and epoch > first)


# -- progress --------------------------------------------------------------------------------------


PROGRESS = "progress"


CIRCLES_MIN = 3


@own_check(PROGRESS, asks="Did the job stand still while chaos did not hold it?")
def check_progress(analysis: RunAnalysis) -> CheckResult:
    """Require that no attempt stands still for longer than a whole recovery may take.

    The promise of no silent stall, within an attempt, from its first step on until `fit()` ends.
    Two steps, reports, uploads, saves or commits of any rank lie at most `expect.recovery_s.max`
    seconds (120 by default) apart, or `limits.gate_s`, whichever is more. A job that stands still
    for longer by itself, in an evaluation, may take twice as long as its baseline does at the same
    point: within an epoch, between two, or at the end. As long elsewhere is inconclusive, and so is
    any long pause without a baseline. A run without faults has the limit `limits.run_s`, and no
    other. A straggler never exceeds the bound; ranks that wait for one that never comes do
    (Lightning-AI/pytorch-lightning#20806, ray-project/ray PR #58229). `recovery` times the start,
    and a pause while chaos holds a rank does not count. Nor may a run reach its limit because it
    retries for ever what fails each time at the same place, with nothing committed since
    (ray-project/ray#29553).
    """
    patience = StallLimit.of(analysis)
    long = _long_pauses(analysis, patience) if analysis.plan.ops else []
    steps = sum(len(attempt.steps) for attempt in analysis.run.attempts)
    found = [_stall(analysis, patience, pause) for pause in long]
    anomalies = [stall for stall in found if isinstance(stall, Anomaly)]
    anomalies += [*_hung_at_the_end(analysis, patience), *_in_circles(analysis)]
    doubts = [stall for stall in found if isinstance(stall, str)]
    ended_by_itself = analysis.run.ending.is_finished or analysis.error_was_expected
    if not steps and not anomalies and ended_by_itself:
        return nothing_due(PROGRESS, "no step was watched, and the job ended by itself")
    return conclude(
        PROGRESS,
        anomalies=anomalies,
        doubts=doubts,
        evidence=steps,
        summary=f"{plural(steps, 'step')}, {_stall_summary(analysis, patience, long)}",
    )


def _long_pauses(analysis: RunAnalysis, patience: StallLimit) -> list[Pause]:
    over_ns = int(patience.stated_s * 1e9)
    return list(pauses(analysis.history, analysis.run.attempts, over_ns=over_ns))


def _stall(analysis: RunAnalysis, patience: StallLimit, pause: Pause) -> Anomaly | str | None:
    """Return a pause that is too long, as a doubt where the baseline does not show that it is."""
    limit, at_most = patience.with_(pause), patience.at_most(pause.attempt)
    if pause.seconds <= limit.seconds:
        return None
    last = last_sign(analysis.history, pause.since + 1)
    text = f"nothing was done for {pause.seconds:.0f} s" + (f" after {last[1]}" if last else "")
    if analysis.reference is None:
        return f"{text}; {analysis.no_reference} to say whether it always does so"
    if pause.seconds <= at_most.seconds:
        longest_s = max(patience.own_s.values())
        return (
            f"{text}, {pause.where}; the baseline stands still for {longest_s:.0f} s as well, but "
            "elsewhere"
        )
    return Anomaly(message=f"{text}; {limit}", events=(pause.since, pause.until))


def _stall_summary(analysis: RunAnalysis, patience: StallLimit, long: list[Pause]) -> str:
    if not analysis.plan.ops:
        return "with nothing done to the job; how long it stands still is its own"
    if not long:
        return f"and never {patience.stated_s:g} s without a sign of life"
    longest = max(long, key=lambda pause: pause.ns)
    return f"and {longest.seconds:.0f} s without a sign of life at most; {patience.with_(longest)}"


def _hung_at_the_end(analysis: RunAnalysis, patience: StallLimit) -> Iterator[Anomaly]:
    ended = analysis.run.ending.deadline
    if ended is None or held_by_us(analysis) is not None:
        return
    last, idle_s = _last_progress(analysis, ended[0])
    if ended[1].still_s is not None:
        yield _standstill(analysis, ended, last)
        return
    attempt = analysis.run.attempts[-1].index if analysis.run.attempts else 0
    if idle_s > patience.at_most(attempt).seconds:
        what = "no progress was seen" if last is None else f"the last progress was {last[1]}"
        where = _waits(analysis)
        yield Anomaly(
            message=f"hung: {what}, {idle_s:.0f} s before the limit of {ended[1].limit_s:g} s"
            f"{where}",
            events=(*(() if last is None else last[:1]), ended[0]),
        )


def _standstill(
    analysis: RunAnalysis, ended: tuple[int, DeadlinePassed], last: tuple[int, str] | None
) -> Anomaly:
    """Return a hang that was ended when all ranks stood still, long before the run's limit."""
    since = "" if last is None else f" after {last[1]}"
    waits = tuple(number for number, _ in find_waits(analysis.history))
    longest_s = 0.0 if analysis.baseline is None else longest_idle_s(analysis.baseline)
    own = f"; the baseline pauses for {longest_s:.1f} s at most" if longest_s else ""
    return Anomaly(
        message=f"hung{since}: all ranks stood still for {ended[1].still_s:.0f} s, with next to no "
        f"processor time{_waits(analysis)}{own}",
        events=(*(() if last is None else last[:1]), ended[0], *waits),
    )


def _waits(analysis: RunAnalysis) -> str:
    """Return where the ranks waited, as the end of a sentence."""
    ended = analysis.run.ending.deadline
    is_still = ended is not None and ended[1].still_s is not None
    waits = (wait for _, wait in find_waits(analysis.history))
    where = describe_waits(waits, cwd=analysis.plan.cwd, is_still=is_still)
    return f"; {where}" if where else ""


def _in_circles(analysis: RunAnalysis) -> Iterator[Anomaly]:
    """Yield attempts that failed one after the other, up to the limit, and committed nothing."""
    deadline = analysis.run.ending.deadline
    if deadline is None or deadline[1].still_s is not None:
        return
    # Without reports, a file of the job's own that was written to its end is the sign of progress.
    files = analysis.run.files.saves if analysis.run.reports_nothing else ()
    saving = {save.attempt for save in files if save.digest is not None}
    # From the end: earlier attempts may have made progress. The last one is cut off by the limit
    # and has no decision, which is no failure of it; it is passed over, and not counted.
    vain: list[Attempt] = []
    for attempt in reversed(analysis.run.attempts):
        is_last = attempt is analysis.run.attempts[-1]
        if attempt.commits or attempt.index in saving or not (attempt.decisions or is_last):
            break
        vain.insert(0, attempt)
    failed = [attempt for attempt in vain if attempt.decisions]
    if len(failed) < CIRCLES_MIN:
        return
    last = failed[-1].decisions[-1]
    yield Anomaly(
        message=f"it goes in circles: attempts {failed[0].index} to {failed[-1].index} each failed "
        f"and {analysis.terms.saved} nothing, up to the limit of "
        f"{deadline[1].limit_s:g} s; the last one of {last.event.error}",
        events=tuple(attempt.decisions[-1].number for attempt in failed),
    )


# -- terminates ------------------------------------------------------------------------------------


TERMINATES = "terminates"


STILL = 0.1  # of the limit: a run with progress so lately is not hung


@own_check(TERMINATES, asks="Did the run come to an end by itself?")
def check_terminates(analysis: RunAnalysis) -> CheckResult:
    """Require that the run is over before `limits.run_s` has passed.

    The promise that it terminates. A run at its limit is hung, or retries for ever (a snapshot that
    is cut short can never be read again; a budget that is not kept, ray-project/ray#29553).
    Inconclusive where the run was interrupted, where chaos still held a rank, and where it was
    still training and clean runs differ in their number of epochs. So is a run that may only be
    slow: all its restarts are those of faults, and it trained no epoch and made no step beyond the
    baseline's. At its limit it had been quiet for no longer than a tenth of the limit, or than a
    start or a restart before; or a fault had ended its last attempt, no longer ago than a recovery
    may take, and nothing had been decided about it. A run whose ranks all stood still, with the
    same stacks and without processor time, for `limits.idle_s`, is ended before its limit, and
    hung.
    """
    ending = analysis.run.ending
    if ending.deadline is not None:
        return _ended_by_us(analysis, *ending.deadline)
    if ending.ended is not None and ending.ended[1].interrupted:
        return inconclusive(TERMINATES, "the run was interrupted")
    over = ending.exited is not None and ending.ended is not None
    doubts = [] if over else ["the end of the run was not seen"]
    return conclude(
        TERMINATES, doubts=doubts, evidence=1, summary="the run ended by itself, in time"
    )


def _more_time(analysis: RunAnalysis, limit_s: float) -> str:
    """Return how to give the run more time; an audit sets the limits of its runs itself."""
    if analysis.plan.confined is not None:
        return ""
    return f"; `limits: {{run_s: {2 * limit_s:.0f}}}` in the scenario gives it twice the time"


def _ended_by_us(analysis: RunAnalysis, number: int, deadline: DeadlinePassed) -> CheckResult:
    """Return the result of a run that chaos has ended, at its limit or in a standstill."""
    held = held_by_us(analysis)
    limit_s = deadline.limit_s
    if held is not None:
        why = f"the limit of {limit_s:g} s passed while rank {held} was held by us"
        return inconclusive(TERMINATES, why)
    last, idle_s = _last_progress(analysis, number)
    still_s = deadline.still_s
    if still_s is None and analysis.epochs_vary and last is not None and idle_s < limit_s * STILL:
        return inconclusive(
            TERMINATES,
            f"it was still training at its limit of {limit_s:g} s, and clean runs differ in "
            "how many epochs they train",
        )
    if still_s is None and last is not None and _is_slow(analysis, limit_s, idle_s):
        starts_s = _longest_wait_s(analysis)
        return inconclusive(
            TERMINATES,
            f"it was still going at its limit of {limit_s:g} s: the last progress was "
            f"{last[1]}, {idle_s:.0f} s before, and starts took up to {starts_s:.0f} s here"
            f"{_more_time(analysis, limit_s)}",
        )
    message = f"hung: no progress was seen in {limit_s:g} s"
    if still_s is not None:
        message = f"hung: it was ended when all ranks had stood still for {still_s:.0f} s"
    elif last is not None:
        message = (
            f"not over at its limit of {limit_s:g} s: the last progress was {last[1]}, "
            f"{idle_s:.0f} s before{_more_time(analysis, limit_s)}"
        )
    events = (*(() if last is None else last[:1]), number)
    hung = Anomaly(message=message, events=events)
    return conclude(TERMINATES, anomalies=[hung], evidence=1, summary="")


def _is_slow(analysis: RunAnalysis, limit_s: float, idle_s: float) -> bool:
    """Return whether a run at its limit may have been on its way to its end."""
    # A clean run on a busy machine needed 60 s to its first step, and a run with three faults was
    # at its limit 36 s after the last one: nothing shows that it would not have ended. One that
    # restarts of itself, or trains on beyond its end, is not slow.
    reference, restarts = analysis.reference, analysis.restarts
    if reference is None or not all(restart.injections for restart in restarts):
        return False
    epochs = {epoch for _, epoch in reference.lineage.steps}
    if not all(epoch in epochs for _, epoch in analysis.run.lineage.steps):
        return False
    if any(_makes_more_steps(attempt, reference) for attempt in analysis.run.attempts):
        return False
    if max(idle_s, limit_s * STILL) <= _longest_wait_s(analysis):
        return True
    return idle_s <= limit_s * STILL or _awaits_decision(analysis)


def _makes_more_steps(attempt: Attempt, reference: RunTables) -> bool:
    """Return whether an attempt alone made more steps than the whole baseline: it has no end."""
    due = {rank: len(steps) for rank, steps in reference.attempts[0].steps.by_rank.items()}
    made = {rank: len(steps) for rank, steps in attempt.steps.by_rank.items()}
    return any(count > due.get(rank, count) for rank, count in made.items())


def _awaits_decision(analysis: RunAnalysis) -> bool:
    """Return whether a fault ended the last attempt, and a decision about it may still come."""
    deadline, last = analysis.run.ending.deadline, analysis.run.attempts[-1]
    harm = [injection.hits[last.index] for injection in analysis.hits.get(last.index, ())]
    known = [harm_ns for harm_ns in harm if harm_ns is not None]
    if deadline is None or not known or not analysis.is_cut_short(last):
        return False
    waited_s = (analysis.history.time_ns(deadline[0]) - max(known)) / 1e9
    return waited_s <= for_recovery(analysis).seconds


def _longest_wait_s(analysis: RunAnalysis) -> float:
    """Return the longest start or recovery of this run and its baseline that came to an end."""
    runs = [run for run in (analysis.run, analysis.reference) if run is not None]
    took = [start_s(run.history, run.attempts) for run in runs]
    took += [restart.phases.total_s for restart in analysis.restarts]
    return max((seconds for seconds in took if seconds is not None), default=0.0)


def held_by_us(analysis: RunAnalysis) -> int | None:
    """Return the rank that was still held at its place when the run ended; None without one."""
    released = {(e.op, e.attempt, e.rank) for _, e in analysis.history.of(GateReleased)}
    last = {e.op: (e.op, e.attempt, e.rank) for _, e in analysis.history.of(GateReached)}
    held = {op for op, who in last.items() if who not in released}
    for injection in analysis.injections:
        if injection.op.index in held and not injection.ended:
            return injection.rank
    return None


def _last_progress(analysis: RunAnalysis, until: int) -> tuple[tuple[int, str] | None, float]:
    """Return the last sign of life before an event, and the seconds since, or since the start."""
    last = last_sign(analysis.history, until)
    since = 0 if last is None else last[0]
    return last, (analysis.history.time_ns(until) - analysis.history.time_ns(since)) / 1e9
