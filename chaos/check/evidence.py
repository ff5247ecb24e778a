"""Checks of the evidence: the planned faults happened, and the run was watched to its end."""

from collections.abc import Iterator, Mapping, Sequence

from chaos.check.analysis import RunAnalysis
from chaos.check.attempt import Attempt
from chaos.check.injections import Injection
from chaos.check.result import conclude, nothing_due, own_check
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
from chaos.model.history import HISTORY, Baseline, History, repeat_name
from chaos.model.plan import Op, Plan
from chaos.model.trigger import AtMoment, AtRecovery, AtStart, AtState, AtStep, Moment
from chaos.model.verdict import CheckResult
from chaos.words import plural

# -- faults-happened -------------------------------------------------------------------------------


FAULTS_HAPPENED = "faults-happened"


_OfReport = (
    ValidationBegun
    | FileSaveBegun
    | FileRenamed
    | FileTouched
    | UploadBegun
    | UploadEnded
    | ReportReturned
    | Committed
)
_MOMENTS: Mapping[Moment, tuple[type[_OfReport], str]] = {
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


@own_check(FAULTS_HAPPENED, asks="Did what was planned to be done to the job really happen?")
def check_faults_happened(analysis: RunAnalysis) -> CheckResult:
    """Require that every op was invoked once and ended once, as `ok`, while the job trained.

    Otherwise the check is inconclusive and does not fail: nothing is shown about the job, and a run
    without its faults must not be green.
    """
    if not analysis.plan.ops:
        return nothing_due(FAULTS_HAPPENED, "no fault was planned")
    found = [_doubt(s, analysis.history) for s in analysis.injections]
    found += [_attempts_missing(op, analysis.injections) for op in analysis.plan.ops]
    landed = _landed(analysis)
    details = "; ".join(injection.detail for injection in landed)
    return conclude(
        FAULTS_HAPPENED, doubts=[*filter(None, found)], evidence=len(landed), summary=details
    )


def nothing_happened(analysis: RunAnalysis) -> bool:
    """Return whether faults were planned, and none of them is known to have hit training.

    A finding then is not their effect. Of several faults one is enough: a job that breaks at the
    first never reaches the second.
    """
    return bool(analysis.plan.ops) and not _landed(analysis)


def _landed(analysis: RunAnalysis) -> list[Injection]:
    return [s for s in analysis.injections if s.landed and not s.came_too_late]


def _doubt(injection: Injection, history: History) -> str | None:
    op = injection.op
    if op.absent is not None:
        return f"{op}: what it did cannot be judged without its package"
    if not injection.invoked:
        gave_up = [event.detail for _, event in injection.ended]
        return f"{op} never happened: {gave_up[0] if gave_up else _how_far(injection, history)}"
    if len(injection.invoked) > 1 or len(injection.ended) > 1:
        times = max(len(injection.invoked), len(injection.ended))
        return f"{op} was recorded {times} times"
    if not injection.ended:
        return f"{op} was begun, and what came of it was not recorded"
    return _no_harm(injection)


def _attempts_missing(op: Op, injections: Sequence[Injection]) -> str | None:
    if op.fault.only_attempts is None:
        return None
    struck = {e.attempt for s in injections if s.op == op for _, e in s.invoked}
    missing = sorted(set(op.fault.only_attempts) - struck)
    if not struck or not missing:
        return None
    return f"{op} was never injected into attempt {' and '.join(map(str, missing))}"


def _no_harm(injection: Injection) -> str | None:
    if injection.status == "fail":
        return f"{injection.op} did no harm: {injection.detail}"
    if injection.status == "info":
        return f"whether {injection.op} did harm is unknown: {injection.detail}"
    if injection.is_in_storage and not injection.effects:
        return f"{injection.op} is said to have landed, and storage recorded nothing of it"
    if injection.op.fault.starts_driver and injection.is_in_doubt:
        return f"{injection.op} is said to have landed, and the second driver recorded nothing"
    if injection.came_too_late:
        what = "it took effect" if injection.is_released_first else "it was injected"
        what = "the node went" if injection.is_preemption else what
        return f"{injection.op} had no effect: training was over before {what}"
    return None


def _how_far(injection: Injection, history: History) -> str:
    at = injection.op.at
    who = "the rank" if at.rank is None else f"rank {at.rank}"
    if injection.gates:
        return f"{who} was held at its place, and nothing was done to it"
    match at:
        case AtMoment():
            far = _how_far_in_reports(at, who, history)
        case AtStep():
            far = _how_far_in_steps(at, who, history)
        case AtRecovery():
            far = _how_far_in_recovery(at, who, history)
        case AtStart():
            begun = max((e.attempt for _, e in history.of(WorkerStarted)), default=None)
            last = "none was seen" if begun is None else f"the last one was {begun}"
            far = f"{who} never began attempt {at.starting}; {last}"
        case AtState():
            visits = sum(e.state == at.state for _, e in history.of(ControllerState))
            far = f"Ray's controller came to {at.state} {plural(visits, 'time')}"
        case _:
            far = f"the run was over before {at.seconds:g} s had passed"
    return far


def _how_far_in_recovery(at: AtRecovery, who: str, history: History) -> str:
    struck = [e.attempt for _, e in history.of(FaultInvoked) if e.op == at.recovering_from]
    begun = [e for _, e in history.of(WorkerStarted) if struck and e.attempt > min(struck)]
    if at.stage == "start" or not any(e.rank == at.rank for e in begun):
        return f"{who} began no attempt after op {at.recovering_from}"
    if at.stage == "loading":
        return f"{who} called `torch.load` on no file that an earlier attempt had saved"
    return f"{who} began no step after op {at.recovering_from}"


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
    seen = [
        e.epoch
        for _, e in history.of(kind)
        if getattr(e, "rank", at.rank) == at.rank
        and getattr(e, "how", at.moment) == at.moment
        and (at.path is None or at.is_of(getattr(e, "path", "")))
    ]
    if at.epoch in seen:
        return f"{who} came to {name} of epoch {at.epoch}, and was not held there"
    last = f"the last one seen was of epoch {max(seen)}" if seen else "none was seen"
    return f"{who} never came to {name} of epoch {at.epoch}; {last}"


# -- watched ---------------------------------------------------------------------------------------


WATCHED = "watched"


@own_check(WATCHED, asks="Was the run seen from beginning to end?")
def check_watched(analysis: RunAnalysis) -> CheckResult:
    """Require that nothing a check reads is missing from the history.

    Inconclusive where the run was disturbed, a file of it is another run's or lacks lines, observer
    or probe failed, a journal is torn, or was lost with its node before all of it was copied, a
    rank trained without having started, steps are missing between two steps, no worker group was
    seen, or the run was left before its end. A worker that chaos killed may leave a last line
    unfinished.
    """
    doubts = [*own_failures(analysis), *_torn(analysis)]
    for attempt in analysis.run.attempts:
        doubts += [*_unheard(attempt), *_gaps(attempt)]
    if not any(attempt.group_started is not None for attempt in analysis.run.attempts):
        doubts.append("no worker group was seen")
    ended = analysis.run.ending.ended
    if ended is None:
        doubts.append("the end of the run was not recorded")
    elif ended[1].interrupted:
        doubts.append("the run was interrupted")
    sources = {entry.source for entry in analysis.history.entries}
    seen = plural(len(analysis.history), "event")
    summary = f"{seen} in {plural(len(sources), 'journal')}, none torn or missing"
    return conclude(WATCHED, doubts=doubts, evidence=len(analysis.history), summary=summary)


def own_failures(analysis: RunAnalysis) -> Iterator[str]:
    """Yield chaos's own failures: events that are missing then prove nothing about the job.

    Files that do not belong together, or were damaged later, are among them.
    """
    for _, disturbed in analysis.history.of(Disturbed):
        yield disturbed.why
    yield from mixed_up(analysis)
    for _, failed in analysis.history.of(ObserverFailed):
        yield f"the observer failed in {failed.where}: {failed.error}"
    for _, lost in analysis.history.of(ProbeFailed):
        yield f"the probe of rank {lost.rank} failed in {lost.where}: {lost.error}"
    for _, cut in analysis.history.of(JournalCut):
        yield (
            f"what {cut.source} wrote last is unknown: node {cut.node_id[:8]} was lost with it "
            "before it had come from there"
        )


def _torn(analysis: RunAnalysis) -> Iterator[str]:
    # SIGKILL may cut a worker's last line: of a process that chaos killed that is no hole, of any
    # other the history lacks what it wrote last.
    struck = {f"worker-{pid}" for pid in _killed_pids(analysis)}
    for source in analysis.history.torn:
        if source not in struck:
            yield f"the last line of the journal {source} is cut short"


def _killed_pids(analysis: RunAnalysis) -> set[int]:
    invoked = [event for _, event in analysis.history.of(FaultInvoked)]
    on_nodes = {op.index for op in analysis.plan.ops if op.fault.nodes_lost}
    on_all = {op.index for op in analysis.plan.ops if op.fault.takes_others}
    lost_nodes = {e.node_id for e in invoked if e.op in on_nodes}
    groups = {e.attempt for e in invoked if e.op in on_all}
    places = [(a.index, place) for a in analysis.run.attempts for place in a.places]
    struck = {p.pid for index, p in places if p.node_id in lost_nodes or index in groups}
    return {e.pid for e in invoked} | struck


def _unheard(attempt: Attempt) -> Iterator[str]:
    heard = {step.rank for step in attempt.steps}
    if attempt.commits:
        heard |= {place.rank for place in attempt.places}
    for rank in sorted(heard - set(attempt.starts)):
        yield f"how rank {rank} of attempt {attempt.index} started was not seen"


def _gaps(attempt: Attempt) -> Iterator[str]:
    """Yield gaps in the recorded steps: a worker counts from 1, or from where it continued."""
    places = {(rank, start.epoch): start.step for rank, start in attempt.starts.items()}
    for (rank, epoch), steps in attempt.steps.by_epoch.items():
        before = places.get((rank, epoch), 0)
        for step in steps:
            if step.step != before + 1:
                yield (
                    f"rank {rank} of attempt {attempt.index} went from step {before} to "
                    f"{step.step} of epoch {epoch}: the history has a hole"
                )
            before = step.step


# -- files that belong together --------------------------------------------------------------------


def mixed_up(analysis: RunAnalysis) -> Iterator[str]:
    """Yield in words the files that are not this run's, or lack something."""
    plan = analysis.plan
    yield from _of_another_run(plan, analysis.history)
    yield from _holes(HISTORY, analysis.history)
    clean = _clean(analysis.baseline)
    for number, run in enumerate(clean, start=1):
        name = repeat_name(number)
        yield from _no_baseline_of(plan, number, run)
        yield from _holes(name, run)
    for number in range(len(clean) + 1, len(plan.baselines) + 1):
        yield f"{repeat_name(number)} is missing, by which this run was judged"


def _clean(baseline: History | None) -> tuple[History, ...]:
    if isinstance(baseline, Baseline):
        return baseline.runs
    return () if baseline is None else (baseline,)


def _of_another_run(plan: Plan, history: History) -> Iterator[str]:
    # By tokens, since folders are copied and renamed: of 1,045 damaged records of red runs, 7 were
    # green by a history or a baseline of another run. Files of an older chaos have no tokens, and
    # are known by scenario and seed alone.
    if plan.token is not None and history.tokens:
        others = [s for token, s in history.tokens.items() if token != plan.token]
        for source in sorted(set().union(*others)):
            yield f"{HISTORY}: its journal {source} is of another run than plan.json"
        for _, started in history.of(RunStarted):
            if not others and plan.digest and started.plan not in {None, plan.digest}:
                yield "plan.json was changed after the run had begun"
        return
    for _, started in history.of(RunStarted):
        if (started.scenario, started.seed) != (plan.scenario, plan.seed):
            other = f"{started.scenario}, seed {started.seed}"
            yield f"{HISTORY} is of another run than plan.json: of {other}"


def _no_baseline_of(plan: Plan, number: int, run: History) -> Iterator[str]:
    name = repeat_name(number)
    due = plan.baselines[number - 1] if number <= len(plan.baselines) else ""
    if due and run.tokens and set(run.tokens) != {due}:
        yield f"{name} is another run than the one that this run was judged by"
    if run.numbers_of(FaultInvoked, StorageFaulted):
        yield f"{name} is no baseline: it has faults"
    ended = next((event for _, event in run.of(RunEnded)), None)
    if ended is None or ended.interrupted:
        yield f"{name} has no end: that run was broken off"


def _holes(name: str, history: History) -> Iterator[str]:
    for source, line in sorted(history.missing.items()):
        yield f"{name}: line {line + 1} of the journal {source} is missing, or there twice"
