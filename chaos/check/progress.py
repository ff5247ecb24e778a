"""Checks of time and work: recovery, lost work, stalls, and an end."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from chaos.check.analysis import NO_STEPS, RunAnalysis, RunTables
from chaos.check.anomaly import build_anomaly
from chaos.check.kinds.base import Facts
from chaos.check.kinds.progress import (
    EndedAtStandstill,
    LifeSign,
    LongPause,
    NoSignOfLife,
    NotOverInTime,
    RanksStandStill,
    RepeatedFailures,
    SlowRecovery,
    StuckUntilLimit,
    TooManyStepsLost,
)
from chaos.check.own_saves import has_resumed_from_newest
from chaos.check.prose.progress import (
    describe_pause,
    describe_sign,
    describe_time_limit,
    suggest_longer_limit,
)
from chaos.check.restarts import RecoveryPhases, Restart
from chaos.check.result import (
    Measures,
    builtin_check,
    conclude,
    inconclusive,
    judge_no_restart,
    not_applicable,
)
from chaos.check.standstill import build_waiting_threads, find_held_rank, find_waits
from chaos.check.time_limits import (
    SilencePeriod,
    StallLimit,
    TimeLimit,
    find_last_sign,
    find_pauses,
    find_recovery_limit,
    measure_longest_idle_s,
    measure_start_s,
)
from chaos.model.event import DeadlinePassed, UploadBegun
from chaos.model.places import TrainingPlace
from chaos.model.verdict import Anomaly, CheckResult
from chaos.resume.attempt import Attempt
from chaos.wording import plural

# -- recovery --------------------------------------------------------------------------------------


RECOVERY = "recovery"


@builtin_check(RECOVERY, asks="Was the job training again soon enough?")
def check_recovery(analysis: RunAnalysis) -> CheckResult:
    """Require a first step within `expect.recovery_s.max` of each fault.

    For a worker or node that dies, the time runs from its death; for a preempted one, from its
    deadline. So the time until Ray notices is part of it. Without a bound in the scenario it is 120
    s, or twice the baseline's time from `fit()` to its first step, if that is more. None is set for
    a job that waits among the jobs of others. A restart with no injected fault before it, or after
    the last step, is not timed. Ray 2.60 counts a silent node as dead after about 60 s, and a group
    that does not come up costs 60 s a time.
    """
    if not analysis.restarts:
        return judge_no_restart(RECOVERY, analysis)
    if not analysis.has_visible_steps and analysis.no_step_reason is not None:
        return not_applicable(RECOVERY, analysis.no_step_reason)
    timed_restarts = [r for r in analysis.restarts if r.phases.fault_ns is not None]
    limit = find_recovery_limit(analysis)
    late_recoveries = [a for r in timed_restarts if (a := _find_late_recovery(analysis, r, limit))]
    is_known = analysis.reference is not None or analysis.plan.expect.recovery_s is not None
    anomalies = late_recoveries if is_known else []
    if not anomalies and timed_restarts and analysis.run.ending.is_finished:
        # Resumed after its last step, training was over; so it was for those that a fault ended
        # before that one.
        while timed_restarts and not timed_restarts[-1].attempt.steps:
            timed_restarts.pop()
        if not timed_restarts:
            return conclude(RECOVERY, evidence=1, summary="the restart had no step left to make")
    doubts = [
        f"attempt {r.attempt.index} made no step"
        for r in timed_restarts[-1:]
        if not r.attempt.steps
    ]
    if late_recoveries and not is_known:
        doubts.append(
            f"{late_recoveries[0].message}; {analysis.no_baseline_reason} to say how long the "
            f"job starts"
        )
    completed_restarts = [r for r in timed_restarts if r.phases.total_s is not None]
    slowest_restart = max(completed_restarts, key=lambda r: r.phases.total_s or 0.0, default=None)
    result = conclude(
        RECOVERY,
        anomalies=anomalies,
        doubts=doubts,
        evidence=len(completed_restarts),
        summary=_describe_recovery(slowest_restart, len(completed_restarts), limit),
        measures=None if slowest_restart is None else _measure_recovery(slowest_restart.phases),
    )
    # A recovery without a limit cannot fail, and so is no evidence.
    return result if limit.is_set else result.replace(evidence=0)


def _find_late_recovery(
    analysis: RunAnalysis, restart: Restart, limit: TimeLimit
) -> Anomaly | None:
    total_s = restart.phases.total_s
    if total_s is None or total_s <= limit.seconds:
        return None
    name, seconds = max(restart.phases.seconds.items(), key=lambda item: item[1] or 0.0)
    return build_anomaly(
        SlowRecovery(
            restart.attempt.index,
            total_s,
            limit.seconds,
            limit.baseline_s,
            longest_phase=name.removesuffix("_s"),
            phase_s=seconds or 0.0,
        ),
        analysis.launcher_words,
        events=(
            *(number for injection in restart.injections for number in injection.events[-1:]),
            restart.attempt.steps[0].number,
        ),
    )


def _describe_recovery(slowest_restart: Restart | None, count: int, limit: TimeLimit) -> str:
    if slowest_restart is None:
        return "no recovery was timed"
    summary = f"{plural(count, 'restart')}; the slowest took {slowest_restart.phases.total_s:.1f} s"
    if limit.baseline_s is None and limit.is_set:
        return summary
    return f"{summary}; {describe_time_limit(limit.seconds, limit.baseline_s)}"


def _measure_recovery(phases: RecoveryPhases) -> Measures:
    seconds = {"recovery_s_max": phases.total_s, **phases.seconds}
    return {name: None if s is None else round(s, 3) for name, s in seconds.items()}


# -- lost-work -------------------------------------------------------------------------------------


LOST_WORK = "lost-work"


@builtin_check(LOST_WORK, asks="Did a restart throw away too much finished work?")
def check_lost_work(analysis: RunAnalysis) -> CheckResult:
    """Require that no restart discards more steps than `expect.lost_steps.max`, on any rank.

    Without a bound in the scenario it is the baseline's longest way from one checkpoint to the
    next, or from one save of its own. It is twice that for a preemption, which comes by the clock
    and may find the last report not yet recorded. To it come the steps that a rank made while a
    checkpoint before them was uploaded: in Ray 2.60 a report is no commit until all ranks have made
    it and the controller has polled. There is no bound for a job that saves by the clock. Nor is
    there one for a restart from the newest of the job's own saves.
    """
    if not analysis.restarts:
        return judge_no_restart(LOST_WORK, analysis)
    if not analysis.has_visible_steps:
        if analysis.plan.expect.lost_steps is not None:
            return inconclusive(LOST_WORK, f"`expect.lost_steps` is given, and {NO_STEPS}")
        return not_applicable(LOST_WORK, NO_STEPS)
    if analysis.plan.expect.lost_steps is None and analysis.is_step_aligned:
        return not_applicable(
            LOST_WORK, "the job saves by the clock, which bounds no number of steps"
        )
    if analysis.plan.expect.lost_steps is None and analysis.reference is None:
        reason = (
            f"{analysis.no_baseline_reason} to say how much is too much, nor does "
            f"`expect.lost_steps`"
        )
        return inconclusive(LOST_WORK, reason)
    started_restarts = [restart for restart in analysis.restarts if restart.attempt.starts]
    anomalies = [
        anomaly for restart in started_restarts for anomaly in _find_excess_loss(restart, analysis)
    ]
    largest_loss = max((_count_lost_steps(restart) for restart in started_restarts), default=0)
    return conclude(
        LOST_WORK,
        anomalies=anomalies,
        evidence=len(started_restarts),
        summary=f"{plural(len(started_restarts), 'restart')} threw away at most "
        f"{plural(largest_loss, 'finished step')}",
        measures={
            "lost_steps_max": largest_loss,
            "lost_steps": sum(_count_lost_steps(r) for r in started_restarts),
        },
    )


def _count_lost_steps(restart: Restart) -> int:
    return max(restart.lost_steps_by_rank.values(), default=0)


def _find_excess_loss(restart: Restart, analysis: RunAnalysis) -> Iterator[Anomaly]:
    starts = restart.attempt.starts
    for rank, lost_steps in sorted(restart.lost_steps_by_rank.items()):
        bound = _find_loss_bound(restart, analysis, rank)
        if lost_steps > bound and lost_steps == _count_lost_steps(restart):
            yield build_anomaly(
                TooManyStepsLost(restart.attempt.index, rank, lost_steps, bound),
                analysis.launcher_words,
                events=(start.number for start in starts.values() if start.rank == rank),
            )
            return


def _find_save_interval(reference: RunTables) -> int:
    """Return the most steps that any rank makes from one save to the next."""
    if not reference.has_only_own_saves:
        return reference.lineage.longest_commit_interval
    save_places = {save.write_place for save in reference.files.saves}
    return max(
        (_find_longest_interval(reference, rank, save_places) for rank in reference.lineage.ranks),
        default=0,
    )


def _find_longest_interval(reference: RunTables, rank: int, save_places: set[TrainingPlace]) -> int:
    interval = longest = 0
    for epoch in reference.lineage.epochs_by_rank[rank]:
        # A save at the head of an epoch, before any step of it, ends the way too.
        interval = 0 if TrainingPlace(epoch, 0) in save_places else interval
        for step in reference.lineage.select_steps(rank, epoch):
            interval += 1
            longest = max(longest, interval)
            interval = 0 if TrainingPlace(step.epoch, step.step) in save_places else interval
    return longest


def _find_loss_bound(restart: Restart, analysis: RunAnalysis, rank: int) -> float:
    if analysis.plan.expect.lost_steps is not None:
        return analysis.plan.expect.lost_steps.max
    assert analysis.reference is not None
    # What a restart may lose follows from how often is saved, and in three cases it is more: where
    # fewer workers make more steps of an epoch; where a fault came by the clock, so that the report
    # before it may not be committed; where an upload was under way, behind which nothing that was
    # saved later can be recorded.
    if has_resumed_from_newest(analysis, restart):
        return math.inf  # a save that comes late, as by a copy beside training, is the job's own
    interval = _find_save_interval(analysis.reference)
    ended_attempt, baseline_size = (
        restart.previous_attempt,
        max((attempt.worker_count for attempt in analysis.reference.attempts), default=0),
    )
    if (
        ended_attempt is not None and 0 < ended_attempt.worker_count < baseline_size
    ):  # fewer workers make more steps of an epoch
        interval = -(-interval * baseline_size // ended_attempt.worker_count)
    # Where no rank was held at its place, the report before may not have been committed yet.
    is_by_the_clock = any(not injection.is_exact for injection in restart.injections)
    return max(
        2 * interval if is_by_the_clock else interval,
        interval + _count_upload_steps(restart, analysis.run, rank),
    )


def _count_upload_steps(restart: Restart, run: RunTables, rank: int) -> int:
    """Return the discarded steps that a rank made while a checkpoint before them was uploaded.

    By another rank, or by a thread of its own (`CheckpointUploadMode.ASYNC`): nothing that was
    saved later could be recorded before it, and it never was.
    """
    if restart.previous_attempt is None or restart.attempt.training_place is None:
        return 0
    ended_attempt, committed_epochs = (
        restart.previous_attempt,
        {commit.epoch for commit in restart.previous_attempt.commits},
    )
    pending_epochs = [
        event.epoch
        for _, event in run.history.select_events(UploadBegun)
        if event.attempt == ended_attempt.index and event.epoch not in committed_epochs
        if event.epoch >= restart.attempt.training_place[0]
    ]
    first_pending = min(pending_epochs, default=None)
    if first_pending is None:
        return 0
    epoch_steps = ended_attempt.steps.steps_by_epoch.items()
    return sum(
        len(steps)
        for (step_rank, epoch), steps in epoch_steps
        if step_rank == rank and epoch > first_pending
    )


# -- progress --------------------------------------------------------------------------------------


PROGRESS = "progress"


REPEATED_FAILURES_MIN = 3


@builtin_check(PROGRESS, asks="Did the job stand still while chaos did not hold it?")
def check_progress(analysis: RunAnalysis) -> CheckResult:
    """Require that no attempt stands still for longer than a whole recovery may take.

    From an attempt's first step until `fit()` ends, two events of any rank lie at most
    `expect.recovery_s.max` seconds (120 by default) apart, or `limits.gate_s`, whichever is more. A
    job that stands still for longer by itself, as in an evaluation, may take twice as long as its
    baseline at the same point. As long elsewhere is inconclusive, and so is any long pause without
    a baseline. A run without faults has only the limit `limits.run_s`.

    Ranks that wait for one that never comes exceed the bound (Lightning-AI/pytorch-lightning#20806,
    ray-project/ray PR #58229). `recovery` times the start, and a pause while chaos holds a rank
    does not count. Nor may a run reach its limit because it retries for ever what fails at the same
    place, with nothing committed since (ray-project/ray#29553).
    """
    stall_limit = StallLimit.from_analysis(analysis)
    long_pauses = _find_long_pauses(analysis, stall_limit) if analysis.plan.ops else []
    steps = sum(len(attempt.steps) for attempt in analysis.run.attempts)
    stalls = [_judge_pause(analysis, stall_limit, pause) for pause in long_pauses]
    anomalies = [stall for stall in stalls if isinstance(stall, Anomaly)]
    anomalies += [*_find_hang(analysis, stall_limit), *_find_repeated_failures(analysis)]
    doubts = [stall for stall in stalls if isinstance(stall, str)]
    ended_by_itself = analysis.run.ending.is_finished or analysis.has_expected_error
    if not steps and not anomalies and ended_by_itself:
        return not_applicable(PROGRESS, "no step was watched, and the job ended by itself")
    return conclude(
        PROGRESS,
        anomalies=anomalies,
        doubts=doubts,
        evidence=steps,
        summary=f"{plural(steps, 'step')}, {_describe_stalls(analysis, stall_limit, long_pauses)}",
    )


def _find_long_pauses(analysis: RunAnalysis, stall_limit: StallLimit) -> list[SilencePeriod]:
    minimum_ns = int(stall_limit.stated_s * 1e9)
    return list(find_pauses(analysis.history, analysis.run.attempts, over_ns=minimum_ns))


def _judge_pause(
    analysis: RunAnalysis, stall_limit: StallLimit, pause: SilencePeriod
) -> Anomaly | str | None:
    """Return a pause that is too long, as a doubt where the baseline does not show that it is."""
    limit, upper_limit = (
        stall_limit.find_limit(pause),
        stall_limit.find_attempt_limit(pause.attempt),
    )
    if pause.seconds <= limit.seconds:
        return None
    last_activity = find_last_sign(analysis.history, pause.start_event + 1)
    last_sign = None if last_activity is None else last_activity[1]
    text = describe_pause(pause.seconds, last_sign)
    if analysis.reference is None:
        return f"{text}; {analysis.no_baseline_reason} to say whether it always does so"
    if pause.seconds <= upper_limit.seconds:
        longest_s = max(stall_limit.baseline_s.values())
        return (
            f"{text}, {pause.phase}; the baseline stands still for {longest_s:.0f} s as well, but "
            "elsewhere"
        )
    return build_anomaly(
        LongPause(pause.seconds, last_sign, limit.seconds, limit.baseline_s),
        analysis.launcher_words,
        events=(pause.start_event, pause.end_event),
    )


def _describe_stalls(
    analysis: RunAnalysis, stall_limit: StallLimit, long_pauses: list[SilencePeriod]
) -> str:
    if not analysis.plan.ops:
        return "with nothing done to the job; how long it stands still is its own"
    if not long_pauses:
        return f"and never {stall_limit.stated_s:g} s without a sign of life"
    longest_pause = max(long_pauses, key=lambda pause: pause.ns)
    limit = stall_limit.find_limit(longest_pause)
    return (
        f"and {longest_pause.seconds:.0f} s without a sign of life at most; "
        f"{describe_time_limit(limit.seconds, limit.baseline_s)}"
    )


def _find_hang(analysis: RunAnalysis, stall_limit: StallLimit) -> Iterator[Anomaly]:
    deadline = analysis.run.ending.deadline
    if deadline is None or find_held_rank(analysis) is not None:
        return
    number, limit_s, still_s = deadline[0], deadline[1].limit_s, deadline[1].still_s
    progress, waits = _find_last_progress(analysis, number), find_waits(analysis.history)
    threads = build_waiting_threads((wait for _, wait in waits), analysis.plan.cwd)
    if still_s is not None:  # it was ended there, long before the run's limit
        longest_s = 0.0 if analysis.baseline is None else measure_longest_idle_s(analysis.baseline)
        yield build_anomaly(
            RanksStandStill(progress.sign, still_s, threads, longest_s or None),
            analysis.launcher_words,
            events=(*progress.events, number, *(wait_number for wait_number, _ in waits)),
        )
        return
    attempt = analysis.run.attempts[-1].index if analysis.run.attempts else 0
    if progress.idle_s > stall_limit.find_attempt_limit(attempt).seconds:
        facts = StuckUntilLimit(progress.sign, progress.idle_s, limit_s, threads)
        yield build_anomaly(facts, analysis.launcher_words, events=(*progress.events, number))


def _find_repeated_failures(analysis: RunAnalysis) -> Iterator[Anomaly]:
    """Yield attempts that failed one after the other, up to the limit, and committed nothing."""
    deadline = analysis.run.ending.deadline
    if deadline is None or deadline[1].still_s is not None:
        return
    # Without reports, a file of the job's own that was written to its end is the sign of progress.
    saves = analysis.run.files.saves if analysis.run.has_no_reports else ()
    saving_attempts = {save.attempt for save in saves if save.digest is not None}
    # From the end: earlier attempts may have made progress. The last one is cut off by the limit
    # and has no decision, which is no failure of it; it is passed over, and not counted.
    vain_attempts: list[Attempt] = []
    for attempt in reversed(analysis.run.attempts):
        is_last = attempt is analysis.run.attempts[-1]
        if (
            attempt.commits
            or attempt.index in saving_attempts
            or not (attempt.decisions or is_last)
        ):
            break
        vain_attempts.insert(0, attempt)
    failed_attempts = [attempt for attempt in vain_attempts if attempt.decisions]
    if len(failed_attempts) < REPEATED_FAILURES_MIN:
        return
    yield build_anomaly(
        RepeatedFailures(
            failed_attempts[0].index,
            failed_attempts[-1].index,
            deadline[1].limit_s,
            failed_attempts[-1].decisions[-1].event.error,
        ),
        analysis.launcher_words,
        events=(attempt.decisions[-1].number for attempt in failed_attempts),
    )


# -- terminates ------------------------------------------------------------------------------------


TERMINATES = "terminates"


QUIET_SHARE = 0.1  # of the limit: a run with progress so lately is not hung


@builtin_check(TERMINATES, asks="Did the run come to an end by itself?")
def check_terminates(analysis: RunAnalysis) -> CheckResult:
    """Require that the run is over before `limits.run_s` has passed.

    A run at its limit is hung, or retries for ever (ray-project/ray#29553). Inconclusive where the
    run was interrupted, where chaos still held a rank, or where it still trained and clean runs
    differ in their number of epochs. So is a run that may only be slow: all its restarts are those
    of faults, and it was quiet for no longer than a tenth of the limit, or than a recovery may
    take.

    A run whose ranks all stood still for `limits.idle_s`, with the same stacks and without
    processor time, is ended before its limit, and hung.
    """
    ending = analysis.run.ending
    if ending.deadline is not None:
        return _judge_forced_end(analysis, *ending.deadline)
    if ending.run_end is not None and ending.run_end[1].interrupted:
        return inconclusive(TERMINATES, "the run was interrupted")
    is_over = ending.driver_exit is not None and ending.run_end is not None
    doubts = [] if is_over else ["the end of the run was not seen"]
    return conclude(
        TERMINATES, doubts=doubts, evidence=1, summary="the run ended by itself, in time"
    )


def _judge_forced_end(analysis: RunAnalysis, number: int, deadline: DeadlinePassed) -> CheckResult:
    """Return the result of a run that chaos has ended, at its limit or in a standstill."""
    held_rank = find_held_rank(analysis)
    limit_s = deadline.limit_s
    if held_rank is not None:
        reason = f"the limit of {limit_s:g} s passed while rank {held_rank} was held by us"
        return inconclusive(TERMINATES, reason)
    progress, still_s = _find_last_progress(analysis, number), deadline.still_s
    sign, idle_s = progress.sign, progress.idle_s
    is_limit_settable = analysis.plan.confined is None  # an audit sets the limits itself
    if (
        still_s is None
        and analysis.has_varying_epochs
        and sign is not None
        and idle_s < limit_s * QUIET_SHARE
    ):
        return inconclusive(
            TERMINATES,
            f"it was still training at its limit of {limit_s:g} s, and clean runs differ in "
            "how many epochs they train",
        )
    if still_s is None and sign is not None and _is_slow(analysis, limit_s, idle_s):
        starts_s = _longest_wait_s(analysis)
        return inconclusive(
            TERMINATES,
            f"it was still going at its limit of {limit_s:g} s: the last progress was "
            f"{describe_sign(sign)}, {idle_s:.0f} s before, and starts took up to "
            f"{starts_s:.0f} s here"
            f"{suggest_longer_limit(limit_s, is_settable=is_limit_settable)}",
        )
    facts: Facts = NoSignOfLife(limit_s)
    if still_s is not None:
        facts = EndedAtStandstill(still_s)
    elif sign is not None:
        facts = NotOverInTime(limit_s, sign, idle_s, is_limit_settable)
    hang = build_anomaly(facts, analysis.launcher_words, events=(*progress.events, number))
    return conclude(TERMINATES, anomalies=[hang], evidence=1, summary="")


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
    if any(_has_surplus_steps(attempt, reference) for attempt in analysis.run.attempts):
        return False
    if max(idle_s, limit_s * QUIET_SHARE) <= _longest_wait_s(analysis):
        return True
    return idle_s <= limit_s * QUIET_SHARE or _is_awaiting_decision(analysis)


def _has_surplus_steps(attempt: Attempt, reference: RunTables) -> bool:
    """Return whether an attempt alone made more steps than the whole baseline: it has no end."""
    baseline_counts = {
        rank: len(steps) for rank, steps in reference.attempts[0].steps.steps_by_rank.items()
    }
    attempt_counts = {rank: len(steps) for rank, steps in attempt.steps.steps_by_rank.items()}
    return any(count > baseline_counts.get(rank, count) for rank, count in attempt_counts.items())


def _is_awaiting_decision(analysis: RunAnalysis) -> bool:
    """Return whether a fault ended the last attempt, and a decision about it may still come."""
    deadline, last_attempt = analysis.run.ending.deadline, analysis.run.attempts[-1]
    harm_times = [
        injection.hit_times_by_attempt[last_attempt.index]
        for injection in analysis.hits.get(last_attempt.index, ())
    ]
    known_times = [harm_ns for harm_ns in harm_times if harm_ns is not None]
    if deadline is None or not known_times or not analysis.is_cut_short(last_attempt):
        return False
    waited_s = (analysis.history.time_ns(deadline[0]) - max(known_times)) / 1e9
    return waited_s <= find_recovery_limit(analysis).seconds


def _longest_wait_s(analysis: RunAnalysis) -> float:
    """Return the longest start or recovery of this run and its baseline that came to an end."""
    runs = [run for run in (analysis.run, analysis.reference) if run is not None]
    durations = [measure_start_s(run.history, run.attempts) for run in runs]
    durations += [restart.phases.total_s for restart in analysis.restarts]
    return max((seconds for seconds in durations if seconds is not None), default=0.0)


class _LastProgress(NamedTuple):
    """The last sign of life before an event, its number, and the seconds since, or of the run."""

    sign: LifeSign | None
    events: tuple[int, ...]
    idle_s: float


def _find_last_progress(analysis: RunAnalysis, end_number: int) -> _LastProgress:
    history, last_activity = analysis.history, find_last_sign(analysis.history, end_number)
    if last_activity is None:
        return _LastProgress(None, (), (history.time_ns(end_number) - history.time_ns(0)) / 1e9)
    number, sign = last_activity
    idle_ns = history.time_ns(end_number) - history.time_ns(number)
    return _LastProgress(sign, (number,), idle_ns / 1e9)
