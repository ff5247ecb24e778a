"""Checks of the evidence: the planned faults happened, and the run was watched to its end."""

from collections.abc import Iterator, Mapping, Sequence

from chaos.check.analysis import RunAnalysis
from chaos.check.injections import Injection
from chaos.check.result import builtin_check, conclude, not_applicable
from chaos.model.event import (
    Committed,
    ControllerState,
    Disturbed,
    FaultInvoked,
    FileRenamed,
    FileSaveBegun,
    FileTouched,
    JournalCut,
    ObserverFailed,
    ProbeFailed,
    ReportReturned,
    RunEnded,
    RunStarted,
    StepDone,
    StorageFaulted,
    UploadBegun,
    UploadEnded,
    ValidationBegun,
    WorkerStarted,
)
from chaos.model.history import HISTORY, Baseline, History, build_repeat_name
from chaos.model.plan import Op, Plan
from chaos.model.trigger import AtMoment, AtRecovery, AtStart, AtState, AtStep, Moment
from chaos.model.verdict import CheckResult
from chaos.resume.attempt import Attempt
from chaos.wording import plural

# -- faults-happened -------------------------------------------------------------------------------


FAULTS_HAPPENED = "faults-happened"


_ReportEvent = (
    ValidationBegun
    | FileSaveBegun
    | FileRenamed
    | FileTouched
    | UploadBegun
    | UploadEnded
    | ReportReturned
    | Committed
)
_MOMENTS: Mapping[Moment, tuple[type[_ReportEvent], str]] = {
    "validating": (ValidationBegun, "its validation"),
    "saving": (FileSaveBegun, "the middle of a save"),
    "renaming": (FileRenamed, "the renaming of a file"),
    "making": (FileTouched, "the making of a folder"),
    "opening": (FileTouched, "the opening of a file"),
    "linking": (FileTouched, "the making of a link"),
    "removing": (FileTouched, "the removal of a file"),
    "putting": (FileTouched, "the putting of an object"),
    "completing": (FileTouched, "the end of an object's parts"),
    "upload_begin": (UploadBegun, "the beginning of its upload"),
    "upload_end": (UploadEnded, "the end of its upload"),
    "reported": (ReportReturned, "the return of its report()"),
    "committed": (Committed, "the commit"),
}


@builtin_check(FAULTS_HAPPENED, asks="Did what was planned to be done to the job really happen?")
def check_faults_happened(analysis: RunAnalysis) -> CheckResult:
    """Require that every op was invoked once and ended once, as `ok`, while the job trained.

    Otherwise the check is inconclusive and does not fail: a run without its faults shows nothing
    about the job.
    """
    if not analysis.plan.ops:
        return not_applicable(FAULTS_HAPPENED, "no fault was planned")
    doubts = [_describe_doubt(s, analysis.history) for s in analysis.injections]
    doubts += [_describe_missing_attempts(op, analysis.injections) for op in analysis.plan.ops]
    landed_injections = _select_landed(analysis)
    details = "; ".join(injection.detail for injection in landed_injections)
    return conclude(
        FAULTS_HAPPENED,
        doubts=[*filter(None, doubts)],
        evidence=len(landed_injections),
        summary=details,
    )


def has_no_effect(analysis: RunAnalysis) -> bool:
    """Return whether faults were planned, and none of them is known to have hit training.

    A finding then is not their effect. Of several faults one is enough: a job that breaks at the
    first never reaches the second.
    """
    return bool(analysis.plan.ops) and not _select_landed(analysis)


def _select_landed(analysis: RunAnalysis) -> list[Injection]:
    return [s for s in analysis.injections if s.has_effect and not s.is_too_late]


def _describe_doubt(injection: Injection, history: History) -> str | None:
    op = injection.op
    if op.absent is not None:
        return f"{op}: what it did cannot be judged without its package"
    if not injection.invocations:
        failure_details = [event.detail for _, event in injection.outcomes]
        return (
            f"{op} never happened: "
            f"{failure_details[0] if failure_details else _describe_progress(injection, history)}"
        )
    if len(injection.invocations) > 1 or len(injection.outcomes) > 1:
        times = max(len(injection.invocations), len(injection.outcomes))
        return f"{op} was recorded {times} times"
    if not injection.outcomes:
        return f"{op} was begun, and what came of it was not recorded"
    return _describe_missing_harm(injection)


def _describe_missing_attempts(op: Op, injections: Sequence[Injection]) -> str | None:
    if op.fault.only_attempts is None:
        return None
    faulted_attempts = {e.attempt for s in injections if s.op == op for _, e in s.invocations}
    missing_attempts = sorted(set(op.fault.only_attempts) - faulted_attempts)
    if not faulted_attempts or not missing_attempts:
        return None
    return f"{op} was never injected into attempt {' and '.join(map(str, missing_attempts))}"


def _describe_missing_harm(injection: Injection) -> str | None:
    if injection.status == "fail":
        return f"{injection.op} did no harm: {injection.detail}"
    if injection.status == "info":
        return f"whether {injection.op} did harm is unknown: {injection.detail}"
    if injection.is_in_storage and not injection.storage_events:
        return f"{injection.op} is said to have landed, and storage recorded nothing of it"
    if injection.op.fault.starts_driver and injection.is_in_doubt:
        return f"{injection.op} is said to have landed, and the second driver recorded nothing"
    if injection.is_too_late:
        event_text = "it took effect" if injection.is_released_first else "it was injected"
        event_text = "the node went" if injection.is_preemption else event_text
        return f"{injection.op} had no effect: training was over before {event_text}"
    return None


def _describe_progress(injection: Injection, history: History) -> str:
    trigger = injection.op.at
    rank_name = "the rank" if trigger.rank is None else f"rank {trigger.rank}"
    if injection.gates:
        return f"{rank_name} was held at its place, and nothing was done to it"
    match trigger:
        case AtMoment():
            progress = _describe_report_progress(trigger, rank_name, history)
        case AtStep():
            progress = _describe_step_progress(trigger, rank_name, history)
        case AtRecovery():
            progress = _describe_recovery_progress(trigger, rank_name, history)
        case AtStart():
            latest_attempt = max(
                (e.attempt for _, e in history.select_events(WorkerStarted)), default=None
            )
            attempt_text = (
                "none was seen" if latest_attempt is None else f"the last one was {latest_attempt}"
            )
            progress = f"{rank_name} never began attempt {trigger.starting}; {attempt_text}"
        case AtState():
            visit_count = sum(
                e.state == trigger.state for _, e in history.select_events(ControllerState)
            )
            progress = f"Ray's controller came to {trigger.state} {plural(visit_count, 'time')}"
        case _:
            progress = f"the run was over before {trigger.seconds:g} s had passed"
    return progress


def _describe_recovery_progress(trigger: AtRecovery, rank_name: str, history: History) -> str:
    faulted_attempts = [
        event.attempt
        for _, event in history.select_events(FaultInvoked)
        if event.op == trigger.recovering_from
    ]
    worker_starts = [
        event
        for _, event in history.select_events(WorkerStarted)
        if faulted_attempts and event.attempt > min(faulted_attempts)
    ]
    if trigger.stage == "start" or not any(event.rank == trigger.rank for event in worker_starts):
        return f"{rank_name} began no attempt after op {trigger.recovering_from}"
    if trigger.stage == "loading":
        return f"{rank_name} called `torch.load` on no file that an earlier attempt had saved"
    return f"{rank_name} began no step after op {trigger.recovering_from}"


def _describe_step_progress(trigger: AtStep, rank_name: str, history: History) -> str:
    place_text = f"epoch {trigger.epoch}, step {trigger.step}"
    step_places = [
        (s.epoch, s.step) for _, s in history.select_events(StepDone) if s.rank == trigger.rank
    ]
    if not step_places:
        return f"{rank_name} never reached {place_text}; no step of it was seen"
    if (trigger.epoch, trigger.step) in step_places:
        return f"{rank_name} came to {place_text}, and was not held there"
    epoch, step = max(step_places)
    return f"{rank_name} never reached {place_text}; it came to epoch {epoch}, step {step}"


def _describe_report_progress(trigger: AtMoment, rank_name: str, history: History) -> str:
    event_kind, moment_name = _MOMENTS[trigger.moment]
    epochs = [
        event.epoch
        for _, event in history.select_events(event_kind)
        if getattr(event, "rank", trigger.rank) == trigger.rank
        and getattr(event, "operation", trigger.moment) == trigger.moment
        and (trigger.path is None or trigger.matches_path(getattr(event, "path", "")))
    ]
    if trigger.epoch in epochs:
        return f"{rank_name} came to {moment_name} of epoch {trigger.epoch}, and was not held there"
    latest_text = f"the last one seen was of epoch {max(epochs)}" if epochs else "none was seen"
    return f"{rank_name} never came to {moment_name} of epoch {trigger.epoch}; {latest_text}"


# -- watched ---------------------------------------------------------------------------------------


WATCHED = "watched"


@builtin_check(WATCHED, asks="Was the run seen from beginning to end?")
def check_watched(analysis: RunAnalysis) -> CheckResult:
    """Require that nothing a check reads is missing from the history.

    Inconclusive where the run was disturbed or left before its end, or no worker group was seen. So
    too where a file is another run's, a journal is torn or lacks lines, observer or probe failed,
    or steps are missing. A worker that chaos killed may leave a last line unfinished.
    """
    doubts = [*find_chaos_failures(analysis), *_find_torn_journals(analysis)]
    for attempt in analysis.run.attempts:
        doubts += [*_find_unseen_starts(attempt), *_find_step_gaps(attempt)]
    if not any(attempt.group_started is not None for attempt in analysis.run.attempts):
        doubts.append("no worker group was seen")
    run_end = analysis.run.ending.run_end
    if run_end is None:
        doubts.append("the end of the run was not recorded")
    elif run_end[1].interrupted:
        doubts.append("the run was interrupted")
    sources = {entry.source for entry in analysis.history.entries}
    event_text = plural(len(analysis.history), "event")
    summary = f"{event_text} in {plural(len(sources), 'journal')}, none torn or missing"
    return conclude(WATCHED, doubts=doubts, evidence=len(analysis.history), summary=summary)


def find_chaos_failures(analysis: RunAnalysis) -> Iterator[str]:
    """Yield chaos's own failures: events that are missing then prove nothing about the job.

    Files that do not belong together, or were damaged later, are among them.
    """
    for _, disturbance in analysis.history.select_events(Disturbed):
        yield disturbance.why
    yield from find_mixed_files(analysis)
    for _, observer_failure in analysis.history.select_events(ObserverFailed):
        yield f"the observer failed in {observer_failure.where}: {observer_failure.error}"
    for _, probe_failure in analysis.history.select_events(ProbeFailed):
        yield (
            f"the probe of rank {probe_failure.rank} failed in {probe_failure.where}: "
            f"{probe_failure.error}"
        )
    for _, journal_cut in analysis.history.select_events(JournalCut):
        yield (
            f"what {journal_cut.source} wrote last is unknown: node {journal_cut.node_id[:8]} "
            f"was lost with it "
            "before it had come from there"
        )


def _find_torn_journals(analysis: RunAnalysis) -> Iterator[str]:
    # SIGKILL may cut a worker's last line: of a process that chaos killed that is no hole, of any
    # other the history lacks what it wrote last.
    killed_sources = {f"worker-{pid}" for pid in _find_killed_pids(analysis)}
    for source in analysis.history.torn:
        if source not in killed_sources:
            yield f"the last line of the journal {source} is cut short"


def _find_killed_pids(analysis: RunAnalysis) -> set[int]:
    invocations = [event for _, event in analysis.history.select_events(FaultInvoked)]
    node_ops = {op.index for op in analysis.plan.ops if op.fault.lost_node_count}
    group_ops = {op.index for op in analysis.plan.ops if op.fault.takes_others}
    lost_nodes = {e.node_id for e in invocations if e.op in node_ops}
    faulted_attempts = {e.attempt for e in invocations if e.op in group_ops}
    locations = [
        (a.index, location) for a in analysis.run.attempts for location in a.worker_locations
    ]
    lost_pids = {
        p.pid for index, p in locations if p.node_id in lost_nodes or index in faulted_attempts
    }
    return {e.pid for e in invocations} | lost_pids


def _find_unseen_starts(attempt: Attempt) -> Iterator[str]:
    active_ranks = {step.rank for step in attempt.steps}
    if attempt.commits:
        active_ranks |= {location.rank for location in attempt.worker_locations}
    for rank in sorted(active_ranks - set(attempt.starts)):
        yield f"how rank {rank} of attempt {attempt.index} started was not seen"


def _find_step_gaps(attempt: Attempt) -> Iterator[str]:
    """Yield gaps in the recorded steps: a worker counts from 1, or from where it continued."""
    start_steps = {(rank, start.epoch): start.step for rank, start in attempt.starts.items()}
    for (rank, epoch), steps in attempt.steps.steps_by_epoch.items():
        previous_step = start_steps.get((rank, epoch), 0)
        for step in steps:
            if step.step != previous_step + 1:
                yield (
                    f"rank {rank} of attempt {attempt.index} went from step {previous_step} to "
                    f"{step.step} of epoch {epoch}: the history has a hole"
                )
            previous_step = step.step


# -- files that belong together --------------------------------------------------------------------


def find_mixed_files(analysis: RunAnalysis) -> Iterator[str]:
    """Yield in words the files that are not this run's, or lack something."""
    plan = analysis.plan
    yield from _find_foreign_files(plan, analysis.history)
    yield from _find_holes(HISTORY, analysis.history)
    clean_runs = _list_clean_runs(analysis.baseline)
    for number, clean_run in enumerate(clean_runs, start=1):
        name = build_repeat_name(number)
        yield from _find_baseline_problems(plan, number, clean_run)
        yield from _find_holes(name, clean_run)
    for number in range(len(clean_runs) + 1, len(plan.baselines) + 1):
        yield f"{build_repeat_name(number)} is missing, by which this run was judged"


def _list_clean_runs(baseline: History | None) -> tuple[History, ...]:
    if isinstance(baseline, Baseline):
        return baseline.runs
    return () if baseline is None else (baseline,)


def _find_foreign_files(plan: Plan, history: History) -> Iterator[str]:
    # By tokens, since folders are copied and renamed: of 1,045 damaged records of red runs, 7 were
    # green by a history or a baseline of another run. Files of an older chaos have no tokens, and
    # are known by scenario and seed alone.
    if plan.token is not None and history.tokens:
        foreign_sources = [s for token, s in history.tokens.items() if token != plan.token]
        for source in sorted(set().union(*foreign_sources)):
            yield f"{HISTORY}: its journal {source} is of another run than plan.json"
        for _, run_start in history.select_events(RunStarted):
            if not foreign_sources and plan.digest and run_start.plan not in {None, plan.digest}:
                yield "plan.json was changed after the run had begun"
        return
    for _, run_start in history.select_events(RunStarted):
        if (run_start.scenario, run_start.seed) != (plan.scenario, plan.seed):
            other_run = f"{run_start.scenario}, seed {run_start.seed}"
            yield f"{HISTORY} is of another run than plan.json: of {other_run}"


def _find_baseline_problems(plan: Plan, number: int, clean_run: History) -> Iterator[str]:
    name = build_repeat_name(number)
    expected_token = plan.baselines[number - 1] if number <= len(plan.baselines) else ""
    if expected_token and clean_run.tokens and set(clean_run.tokens) != {expected_token}:
        yield f"{name} is another run than the one that this run was judged by"
    if clean_run.select_numbers(FaultInvoked, StorageFaulted):
        yield f"{name} is no baseline: it has faults"
    run_end = next((event for _, event in clean_run.select_events(RunEnded)), None)
    if run_end is None or run_end.interrupted:
        yield f"{name} has no end: that run was broken off"


def _find_holes(name: str, history: History) -> Iterator[str]:
    for source, line in sorted(history.missing_lines.items()):
        yield f"{name}: line {line + 1} of the journal {source} is missing, or there twice"
