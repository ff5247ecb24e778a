"""Checks of processes: one writer at a time, bystanders undisturbed, nothing left, notices used."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from chaos.check.analysis import RunAnalysis
from chaos.check.anomaly import build_anomaly
from chaos.check.drivers import ConcurrentDrivers
from chaos.check.injections import EARLY_NS
from chaos.check.kinds.base import Facts
from chaos.check.kinds.processes import (
    ActorLeft,
    AttemptActivity,
    AttemptStillWorking,
    DuplicateRank,
    NoticeUnused,
    OtherTrialCharged,
    OtherTrialFailed,
    OtherTrialLosses,
    OtherTrialRestarted,
    OtherTrialUnfinished,
    PlacementGroupLeft,
    ProcessLeft,
    RankOnLeavingNode,
    StandstillUntilDeadline,
    TwoDriversWrite,
    UnregisteredCheckpoints,
)
from chaos.check.result import builtin_check, conclude, inconclusive, not_applicable
from chaos.check.time_limits import find_longest_pauses
from chaos.model.event import (
    BystanderSeen,
    Committed,
    DriverExited,
    ExperimentEnded,
    FaultInvoked,
    FileSaveBegun,
    FileSaved,
    Leftover,
    LeftoversSearched,
    NoticeGiven,
    PartUploaded,
    ReportBegun,
    ReportReturned,
    StepDone,
    WorkerGroupStarted,
    WorkerStarted,
)
from chaos.model.history import History
from chaos.model.places import AttemptRank
from chaos.model.verdict import Anomaly, CheckResult
from chaos.resume.attempt import Attempt
from chaos.resume.files import mask_path_numbers
from chaos.wording import plural

# -- single-writer ---------------------------------------------------------------------------------


SINGLE_WRITER = "single-writer"


# A worker that is being ended may finish what it has in hand.
GRACE_NS = 1_000_000_000


@builtin_check(SINGLE_WRITER, asks="Does an attempt stop for good before the next one trains?")
def check_single_writer(analysis: RunAnalysis) -> CheckResult:
    """Require that nothing of an earlier attempt trains, reports or saves beside a later one.

    A worker that was only frozen or cut off may come back and write over its successor's work
    (modal-projects/stitch PR #236). From one second after a later attempt was opened, an earlier
    one makes no step, report, commit or file. Each rank of an attempt is one process.

    Where a second driver was started, one of the two gives way. Once an attempt of the one has made
    a step, no earlier attempt of the other begins to write a checkpoint, or a file that both know.
    Steps alone do no harm, and a driver that wrote nothing may take any way out.
    """
    if not analysis.run.attempts:
        return inconclusive(SINGLE_WRITER, "no attempt was seen")
    anomalies = [
        *_find_stragglers(analysis),
        *_find_parallel_writes(analysis),
        *_find_duplicate_ranks(analysis),
    ]
    count = len(analysis.run.attempts)
    if analysis.drivers is None and not anomalies and count == 1:
        return not_applicable(
            SINGLE_WRITER, "there was one attempt, and one process for each of its ranks"
        )
    summary = f"each of {plural(count, 'attempt')} was silent once the next was there"
    if analysis.drivers is not None:
        summary = _describe_two_drivers(analysis, analysis.drivers)
    return conclude(SINGLE_WRITER, anomalies=anomalies, evidence=count, summary=summary)


def _describe_two_drivers(analysis: RunAnalysis, drivers: ConcurrentDrivers) -> str:
    # The other driver's events are hidden from all checks, its end with them. So it is said here,
    # or a verdict would look as if there had been one driver.
    other_driver = "first" if drivers.leading_start else "second"
    hidden_events = (analysis.history[number].event for number in sorted(drivers.hidden_events))
    ends = [event.code for event in hidden_events if isinstance(event, DriverExited)]
    code = f" (code {ends[0]})" if ends else ""
    return (
        f"one of two drivers wrote at a time; how the {other_driver} one ended{code} is not judged"
    )


def _find_stragglers(analysis: RunAnalysis) -> Iterator[Anomaly]:
    """Yield the attempts whose last sign of life comes after the beginning of a later one."""
    history = analysis.history
    for earlier in analysis.run.attempts:
        beginnings = [
            n
            for attempt in analysis.run.attempts
            if attempt.index > earlier.index and not _has_other_driver(analysis, attempt, earlier)
            for n in _find_beginnings(attempt)
        ]
        last_activity = _find_last_activity(analysis, earlier)
        if not beginnings or last_activity is None:
            continue
        number, activity = last_activity
        late_ns = history.time_ns(number) - history.time_ns(min(beginnings))
        if late_ns > GRACE_NS:
            yield build_anomaly(
                AttemptStillWorking(earlier.index, late_ns / 1e9, activity),
                analysis.launcher_words,
                events=(min(beginnings), number),
            )


def _has_other_driver(analysis: RunAnalysis, attempt: Attempt, other_attempt: Attempt) -> bool:
    drivers = analysis.drivers
    return drivers is not None and drivers.has_different_drivers(attempt.index, other_attempt.index)


def _find_parallel_writes(analysis: RunAnalysis) -> Iterator[Anomaly]:
    """Yield the attempts of one driver that go on to write beside a later one of the other."""
    writes = () if analysis.drivers is None else analysis.drivers.writes
    for later in analysis.run.attempts if writes else ():
        # Two drivers of one run may overlap while one of them only starts. That they write side by
        # side needs a sign of training of the later one first, and then a write of the earlier.
        signs = [step.number for step in later.steps[:1]]
        # Of a job whose steps are not seen, its first write.
        signs += [write.begin_number for write in writes if write.attempt == later.index]
        first_sign = signs[0] if signs else len(analysis.history)
        for earlier in analysis.run.attempts:
            if earlier.index > later.index or not _has_other_driver(analysis, earlier, later):
                continue
            later_writes = [
                w for w in writes if w.attempt == earlier.index and w.begin_number > first_sign
            ]
            if later_writes:
                yield build_anomaly(
                    TwoDriversWrite(
                        later.index, bool(later.steps), earlier.index, later_writes[0].target
                    ),
                    analysis.launcher_words,
                    events=(first_sign, later_writes[0].begin_number),
                )


def _find_beginnings(attempt: Attempt) -> list[int]:
    """Return the first event that shows an attempt; empty where none was seen."""
    signs = [attempt.group_started] if attempt.group_started is not None else []
    signs = signs or [start.number for start in attempt.starts.values()]
    return [min(signs)] if signs else [step.number for step in attempt.steps[:1]]


def _find_last_activity(
    analysis: RunAnalysis, attempt: Attempt
) -> tuple[int, AttemptActivity] | None:
    activities = [(s.number, AttemptActivity("step", s.rank)) for s in attempt.steps[-1:]]
    activities += [(commit.number, AttemptActivity("commit")) for commit in attempt.commits[-1:]]
    activities += [
        (number, AttemptActivity("report", event.rank))
        for number, event in analysis.history.select_events(ReportReturned)
        if event.attempt == attempt.index
    ][-1:]
    activities += [
        (save.event_number, AttemptActivity("file", save.rank))
        for save in analysis.run.files.saves
        if save.attempt == attempt.index
    ][-1:]
    return max(activities, key=lambda activity: activity[0], default=None)


def _find_duplicate_ranks(analysis: RunAnalysis) -> Iterator[Anomaly]:
    """Yield the ranks that two processes were, both of which made a step or saved a file.

    A script that starts one process to train in it is taken for its only rank until that joins:
    what it saves before is its own matter.
    """
    history = analysis.history
    last_actions = {
        history[number].source: number for number in history.select_numbers(FileSaveBegun)
    }
    last_actions |= {
        history[number].source: len(history) for number in history.select_numbers(StepDone)
    }
    processes: dict[AttemptRank, tuple[int, int]] = {}
    for number, started in history.select_events(WorkerStarted):
        rank = AttemptRank(started.attempt, started.rank)
        first_number, pid = processes.setdefault(rank, (number, started.pid))
        if pid == started.pid or history[number].source not in last_actions:
            continue
        if last_actions.get(history[first_number].source, 0) < number:
            processes[rank] = number, started.pid
        else:
            yield build_anomaly(
                DuplicateRank(started.rank, started.attempt, pid, started.pid),
                analysis.launcher_words,
                events=(first_number, number),
            )


# -- bystanders ------------------------------------------------------------------------------------


BYSTANDERS = "bystanders"


@builtin_check(BYSTANDERS, asks="Did the other trials of the experiment notice?")
def check_bystanders(analysis: RunAnalysis) -> CheckResult:
    """Require that no trial of an experiment is affected by the faults of another.

    Each trial of Ray Tune beside the one with faults has one attempt and no failure. Its `fit()`
    returns, and its losses are the baseline's (not compared with a tolerance or a band). A trial
    that was not under way at any fault has shown nothing. None that Ray Tune reports to have made
    may be missing.
    """
    if analysis.plan.job.trial is None:
        return not_applicable(BYSTANDERS, "the job is no experiment of several trials")
    # Where no fault was planned it is the baseline itself: each trial is its own measure.
    reference = analysis.reference if analysis.plan.ops else analysis.run
    if reference is None:
        return inconclusive(BYSTANDERS, analysis.no_baseline_reason)
    baseline_trials = _group_by_trial(reference.history)
    run_trials = _group_by_trial(analysis.history)
    trial_counts = [event.trials for _, event in reference.history.select_events(ExperimentEnded)]
    if trial_counts == [1] and not baseline_trials and not run_trials:
        return not_applicable(BYSTANDERS, "the experiment has no other trial")
    is_exact, is_cut = analysis.plan.expect.is_exact, analysis.run.ending.deadline is not None
    anomalies = [
        build_anomaly(facts, analysis.launcher_words, events=(number,))
        for trial, (number, event) in sorted(run_trials.items())
        for facts in _find_disturbances(
            event,
            baseline_trials[trial][1] if trial in baseline_trials and is_exact else None,
            is_cut=is_cut,
        )
    ]
    return conclude(
        BYSTANDERS,
        anomalies=anomalies,
        doubts=[
            *_find_bystander_doubts(trial_counts, baseline_trials, run_trials),
            *_find_idle_trials(analysis.history, run_trials),
            *(
                f"trial {trial} was ended by us, at the limit of the run"
                for trial, (_, event) in sorted(run_trials.items())
                if is_cut and not event.finished
            ),
        ],
        evidence=sum(event.steps for _, event in run_trials.values()),
        summary=f"{plural(len(run_trials), 'other trial')} undisturbed, "
        f"{'with the losses of the baseline' if is_exact else 'losses not compared'}",
    )


def _group_by_trial(history: History) -> dict[int, tuple[int, BystanderSeen]]:
    return {event.trial: (number, event) for number, event in history.select_events(BystanderSeen)}


def _find_disturbances(
    event: BystanderSeen, baseline_event: BystanderSeen | None, *, is_cut: bool
) -> Iterator[Facts]:
    is_cut = is_cut and not event.finished  # by us, at our limit
    if event.error is not None:
        yield OtherTrialFailed(event.trial, event.error)
    elif not event.finished and not is_cut:
        yield OtherTrialUnfinished(event.trial)
    if event.attempts > 1:
        yield OtherTrialRestarted(event.trial, event.attempts)
    if event.failures:
        yield OtherTrialCharged(event.trial, event.failures)
    if baseline_event is not None and not is_cut:
        places = sorted({*event.losses, *baseline_event.losses})
        differing_places = [
            place for place in places if event.losses.get(place) != baseline_event.losses.get(place)
        ]
        if differing_places:
            yield OtherTrialLosses(event.trial, differing_places[0], len(differing_places))


def _find_idle_trials(
    history: History, run_trials: dict[int, tuple[int, BystanderSeen]]
) -> Iterator[str]:
    fault_times = [history.time_ns(number) for number, _ in history.select_events(FaultInvoked)]
    for trial, (_, event) in sorted(run_trials.items()):
        if fault_times and not any(
            event.began_ns <= fault_ns <= event.ended_ns for fault_ns in fault_times
        ):
            yield f"trial {trial} was not under way when a fault was injected"


def _find_bystander_doubts(
    trial_counts: list[int],
    baseline_trials: dict[int, tuple[int, BystanderSeen]],
    run_trials: dict[int, tuple[int, BystanderSeen]],
) -> Iterator[str]:
    count = len(baseline_trials) + 1
    if not trial_counts:
        yield "Ray Tune did not say how many trials it made in the baseline"
    elif trial_counts[-1] != count:
        yield (
            f"Ray Tune made {plural(trial_counts[-1], 'trial')} in the baseline, and {count} "
            f"were seen"
        )
    for trial in sorted({*baseline_trials} - {*run_trials}):
        yield f"trial {trial} was not seen"
    for trial in sorted({*run_trials} - {*baseline_trials}):
        yield f"trial {trial} was not seen in the baseline"
    for trial, (_, event) in sorted(baseline_trials.items()):
        if event.attempts != 1 or event.failures or not event.finished:
            yield f"trial {trial} did not come through the baseline undisturbed"
        elif not event.losses:
            yield f"trial {trial} made no step that was seen"


# -- leftovers -------------------------------------------------------------------------------------


LEFTOVERS = "leftovers"


_LEFTOVER_FACTS: Mapping[str, type[ProcessLeft | PlacementGroupLeft | ActorLeft]] = {
    "process": ProcessLeft,
    "placement_group": PlacementGroupLeft,
    "actor": ActorLeft,
}


@builtin_check(LEFTOVERS, asks="Did the run clean up after itself?")
def check_leftovers(analysis: RunAnalysis) -> CheckResult:
    """Require that no process, placement group or actor of the run outlives it.

    A process is the run's own by descent, or by a token in the environment that it inherited. Ray
    2.60 may leave one unregistered checkpoint directory per landed fault, because files are
    uploaded before the report is recorded. Two are allowed where a fault came by the clock.
    """
    ending = analysis.run.ending
    if ending.deadline is not None or (
        ending.run_end is not None and ending.run_end[1].interrupted
    ):
        return inconclusive(LEFTOVERS, "the run was ended by us, before it could clean up")
    leftovers = list(analysis.history.select_events(Leftover))
    searches = [search for _, search in analysis.history.select_events(LeftoversSearched)]
    anomalies = [
        build_anomaly(
            _LEFTOVER_FACTS[leftover.kind](leftover.name), analysis.launcher_words, events=(number,)
        )
        for number, leftover in leftovers
        if leftover.kind in _LEFTOVER_FACTS
    ]
    directories = [entry for entry in leftovers if entry[1].kind == "checkpoint_directory"]
    # A fault in doubt may have cut an upload as well: a folder more is no defect of the job then.
    effect_count = sum(
        max(len(injection.hit_times_by_attempt), injection.has_effect or injection.is_in_doubt)
        for injection in analysis.injections
    )
    # By the clock, one report may wait for the controller's poll while the next is uploaded.
    clock_count = sum(
        injection.has_effect and not injection.is_exact for injection in analysis.injections
    )
    if len(directories) > effect_count + clock_count:
        anomalies.append(
            build_anomaly(
                UnregisteredCheckpoints(len(directories), effect_count, directories[-1][1].name),
                analysis.launcher_words,
                events=(number for number, _ in directories),
            )
        )
    counts = Counter(leftover.kind for _, leftover in leftovers)
    locations = dict.fromkeys(location for search in searches for location in search.places)
    return conclude(
        LEFTOVERS,
        anomalies=anomalies,
        doubts=() if searches else ("what the run left behind was not looked for",),
        evidence=len(searches),
        summary=f"nothing of the run was left in {', '.join(locations) or 'the places searched'}",
        measures={f"left_{kind}": count for kind, count in sorted(counts.items())},
    )


# -- drain -----------------------------------------------------------------------------------------


DRAIN = "drain"


# The window must hold a step, a save and a poll of Ray's controller, on a busy machine.
_SLACK_TIMES = 3


@dataclass(frozen=True, slots=True)
class _NoticeWindow:
    """The time between a notice and the loss that it announces, or its deadline."""

    number: int
    notice: NoticeGiven
    since_ns: int
    until_ns: int
    attempt: int


@builtin_check(DRAIN, asks="Was the announcement of a loss made use of?")
def check_drain(analysis: RunAnalysis) -> CheckResult:
    """Require that a node which is announced to go gets no new work, and that training goes on.

    No attempt opened between notice and deadline has a rank on that node. The running one does not
    stand still until its deadline: ranks that see the notice at different steps wait for each other
    (ray-project/ray PR #65183).

    Saving at the notice is required where the scenario states `expect.jit_checkpoint: true` and the
    notice lasts for three of the baseline's longest steps and saves. Then work done after the
    notice is in a commit, or in a file of the kind from which the job resumes (goodfire-ai/spd#741:
    0 of 6 times).
    """
    if not any(injection.is_announced for injection in analysis.injections):
        return not_applicable(DRAIN, "no loss was announced to the cluster")
    windows = list(_find_windows(analysis))
    if not analysis.run.ending.has_run_end:
        return inconclusive(DRAIN, "the run was not seen to its end")
    if not windows:
        return inconclusive(DRAIN, "no notice was seen")
    deadline = analysis.run.ending.deadline
    if deadline is not None:
        limit_ns = analysis.history.time_ns(deadline[0])
        windows = [window for window in windows if window.until_ns <= limit_ns]
        if not windows:
            return inconclusive(DRAIN, "the run was ended by us before the notice was over")
    anomalies = list[Anomaly]()
    for window in windows:
        anomalies += [*_find_new_work(analysis, window), *_find_standstill(analysis, window)]
        anomalies += (
            _find_unused_notice(analysis, window) if analysis.plan.expect.jit_checkpoint else ()
        )
    return conclude(
        DRAIN,
        anomalies=anomalies,
        evidence=len(windows),
        summary=f"{plural(len(windows), 'notice')}; no new work on the node, and training went on",
    )


def _find_windows(analysis: RunAnalysis) -> Iterator[_NoticeWindow]:
    injections = {injection.op.index: injection for injection in analysis.injections}
    for number, notice in analysis.history.select_events(NoticeGiven):
        injection = injections[notice.op]
        if injection.invocations:
            since_ns = analysis.history.time_ns(number)
            attempt = injection.invocations[0][1].attempt
            until_ns = min(notice.deadline_ns, injection.harm_ns or notice.deadline_ns)
            yield _NoticeWindow(number, notice, since_ns, until_ns, attempt)


def _find_new_work(analysis: RunAnalysis, window: _NoticeWindow) -> Iterator[Anomaly]:
    for number, group in analysis.history.select_events(WorkerGroupStarted):
        if not window.since_ns < analysis.history.time_ns(number) < window.until_ns:
            continue
        for worker in group.workers:
            if worker.node_id == window.notice.node_id:
                yield build_anomaly(
                    RankOnLeavingNode(group.attempt, worker.rank),
                    analysis.launcher_words,
                    events=(window.number, number),
                )
                return


def _find_standstill(analysis: RunAnalysis, window: _NoticeWindow) -> Iterator[Anomaly]:
    """Yield a standstill up to the deadline that is far longer than any of the baseline's."""
    attempt = next((a for a in analysis.run.attempts if a.index == window.attempt), None)
    if attempt is None or analysis.reference is None or not attempt.steps:
        return
    has_moved = any(
        a.index > window.attempt and _is_within_window(analysis, a.group_started, window)
        for a in analysis.run.attempts
    )
    if has_moved or _has_finished(analysis, window):
        return
    activities = (StepDone, ReportBegun, Committed, FileSaved)
    times = [
        analysis.history.time_ns(number) for number in analysis.history.select_numbers(*activities)
    ]
    last_activity_ns = max(
        (time_ns for time_ns in times if time_ns <= window.until_ns), default=window.since_ns
    )
    idle_ns = window.until_ns - EARLY_NS - max(last_activity_ns, window.since_ns)
    is_decided = any(
        _is_within_window(analysis, decision.number, window) for decision in attempt.decisions
    )
    if not is_decided and idle_ns > 2 * EARLY_NS + _SLACK_TIMES * _longest_pause_ns(analysis):
        yield build_anomaly(
            StandstillUntilDeadline((idle_ns + EARLY_NS) / 1e9),
            analysis.launcher_words,
            events=(window.number,),
        )


def _is_within_window(analysis: RunAnalysis, number: int | None, window: _NoticeWindow) -> bool:
    return number is not None and analysis.history.time_ns(number) < window.until_ns


def _has_finished(analysis: RunAnalysis, window: _NoticeWindow) -> bool:
    returned = analysis.run.ending.fit_return
    return returned is not None and _is_within_window(analysis, returned[0], window)


def _longest_pause_ns(analysis: RunAnalysis) -> int:
    assert analysis.reference is not None
    pauses = find_longest_pauses(analysis.reference.history, analysis.reference.attempts)
    return max((ns for location, ns in pauses.items() if location != "at the end"), default=0)


def _find_unused_notice(analysis: RunAnalysis, window: _NoticeWindow) -> Iterator[Anomaly]:
    if analysis.reference is None or _has_finished(analysis, window):
        return
    notice_ns, attempt = window.until_ns - window.since_ns, window.attempt
    if notice_ns < 2 * _SLACK_TIMES * _longest_pause_ns(analysis):
        return
    reports = (
        event
        for number, event in analysis.history.select_events(ReportBegun)
        if number > window.number
    )
    begun_epochs = {event.epoch for event in reports if event.attempt == attempt}
    commits = [
        (number, event)
        for number, event in analysis.history.select_events(Committed)
        if event.attempt == attempt
    ]
    save_numbers = [
        number
        for number, event in commits
        if event.checkpoint is not None and event.epoch in begun_epochs
    ]
    # Any file that `torch.save` wrote after the notice was enough once: notes, or a part of a
    # checkpoint that was never committed.
    checkpoint_series = _find_checkpoint_series(analysis, attempt)
    files = [
        (number, event)
        for number, event in analysis.history.select_events(FileSaved)
        if event.attempt == attempt
    ]
    save_numbers += [
        number for number, event in files if mask_path_numbers(event.path) in checkpoint_series
    ]
    if not any(
        number > window.number and _is_within_window(analysis, number, window)
        for number in save_numbers
    ):
        yield build_anomaly(
            NoticeUnused(notice_ns / 1e9), analysis.launcher_words, events=(window.number,)
        )


def _find_checkpoint_series(analysis: RunAnalysis, attempt: int) -> set[str]:
    """Return the series of the files of its own that the job resumes from.

    A file that was read out of a checkpoint of Ray's is none: that must be committed.
    """
    files, reference = analysis.run.files, analysis.reference
    names = set(analysis.run.checkpoint_commits)
    uploaded_digests = {
        d for _, e in analysis.history.select_events(PartUploaded) for d in e.files.values()
    }
    loads = [
        load
        for load in files.find_later_loads(attempt)
        if load.digest not in uploaded_digests and names.isdisjoint(PurePath(load.path).parts)
    ]
    if loads:
        origins = (files.find_origin(load) for load in loads)
        return {mask_path_numbers(e.path) for e in loads} | {
            save.series for save in origins if save
        }
    if reference is not None and reference.has_only_own_saves:
        return {save.series for save in reference.files.saves}
    return set()
