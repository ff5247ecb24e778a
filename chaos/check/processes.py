"""Checks of processes: one writer at a time, bystanders undisturbed, nothing left, notices used."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from chaos.check.analysis import RunAnalysis
from chaos.check.attempt import Attempt
from chaos.check.drivers import TwoDrivers
from chaos.check.files import series_of
from chaos.check.injections import EARLY_NS
from chaos.check.result import conclude, inconclusive, nothing_due, own_check
from chaos.check.time_limits import longest_ns
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
from chaos.words import plural

# -- single-writer ---------------------------------------------------------------------------------


SINGLE_WRITER = "single-writer"


# A worker that is being ended may finish what it has in hand.
GRACE_NS = 1_000_000_000


@own_check(SINGLE_WRITER, asks="Does an attempt stop for good before the next one trains?")
def check_single_writer(analysis: RunAnalysis) -> CheckResult:
    """Require that nothing of an earlier attempt trains, reports or saves beside a later one.

    The promise of fencing. A worker that was only frozen, or cut off, comes back and writes over
    its successor's work (modal-projects/stitch PR #236). From one second after a later attempt was
    opened (or, where that was not seen, its first rank started or made a step), an earlier attempt
    makes no step, report, commit or file: the next one may be reading what it writes. And each rank
    of an attempt is one process. Where a second driver of the run was started, one of the two ends
    or gives way: once an attempt of the one has made a step (or, where none is seen, has begun to
    write), no earlier attempt of the other begins to write a checkpoint, or a file that both know.
    Steps alone do no harm, and a driver that wrote nothing may take any way out.
    """
    if not analysis.run.attempts:
        return inconclusive(SINGLE_WRITER, "no attempt was seen")
    anomalies = [*_stragglers(analysis), *_beside(analysis), *_twins(analysis)]
    count = len(analysis.run.attempts)
    if analysis.drivers is None and not anomalies and count == 1:
        return nothing_due(
            SINGLE_WRITER, "there was one attempt, and one process for each of its ranks"
        )
    summary = f"each of {plural(count, 'attempt')} was silent once the next was there"
    if analysis.drivers is not None:
        summary = _one_at_a_time(analysis, analysis.drivers)
    return conclude(SINGLE_WRITER, anomalies=anomalies, evidence=count, summary=summary)


def _one_at_a_time(analysis: RunAnalysis, drivers: TwoDrivers) -> str:
    # The other driver's events are hidden from all checks, its end with them. So it is said here,
    # or a verdict would look as if there had been one driver.
    other = "first" if drivers.leads else "second"
    left_out = (analysis.history[n].what for n in sorted(drivers.hidden))
    ends = [what.code for what in left_out if isinstance(what, DriverExited)]
    code = f" (code {ends[0]})" if ends else ""
    return f"one of two drivers wrote at a time; how the {other} one ended{code} is not judged"


def _stragglers(analysis: RunAnalysis) -> Iterator[Anomaly]:
    """Yield the attempts whose last sign of life comes after the beginning of a later one."""
    history = analysis.history
    for earlier in analysis.run.attempts:
        began = [
            n
            for a in analysis.run.attempts
            if a.index > earlier.index and not _are_apart(analysis, a, earlier)
            for n in _beginnings(a)
        ]
        last = _last_sign(analysis, earlier)
        if not began or last is None:
            continue
        number, what = last
        late_ns = history.time_ns(number) - history.time_ns(min(began))
        if late_ns > GRACE_NS:
            yield Anomaly(
                message=f"attempt {earlier.index} was still at work {late_ns / 1e9:.1f} s after "
                f"the next one was opened: {what}",
                events=(min(began), number),
            )


def _are_apart(analysis: RunAnalysis, one: Attempt, other: Attempt) -> bool:
    drivers = analysis.drivers
    return drivers is not None and drivers.are_apart(one.index, other.index)


def _beside(analysis: RunAnalysis) -> Iterator[Anomaly]:
    """Yield the attempts of one driver that go on to write beside a later one of the other."""
    writes = () if analysis.drivers is None else analysis.drivers.writes
    for later in analysis.run.attempts if writes else ():
        # Two drivers of one run may overlap while one of them only starts. That they write side by
        # side needs a sign of training of the later one first, and then a write of the earlier.
        own = [step.number for step in later.steps[:1]]
        # Of a job whose steps are not seen, its first write.
        own += [write.begun for write in writes if write.attempt == later.index]
        first = own[0] if own else len(analysis.history)
        did = "had made a step" if later.steps else "had begun to write"
        for earlier in analysis.run.attempts:
            if earlier.index > later.index or not _are_apart(analysis, earlier, later):
                continue
            beside = [w for w in writes if w.attempt == earlier.index and w.begun > first]
            if beside:
                yield Anomaly(
                    message=f"two drivers of one run wrote side by side: attempt {later.index} of "
                    f"the one {did} when attempt {earlier.index} of the other began to "
                    f"write {beside[0].what}",
                    events=(first, beside[0].begun),
                )


def _beginnings(attempt: Attempt) -> list[int]:
    """Return the first event that shows an attempt; empty where none was seen."""
    signs = [attempt.group_started] if attempt.group_started is not None else []
    signs = signs or [start.number for start in attempt.starts.values()]
    return [min(signs)] if signs else [step.number for step in attempt.steps[:1]]


def _last_sign(analysis: RunAnalysis, attempt: Attempt) -> tuple[int, str] | None:
    signs = [(step.number, f"a step of rank {step.rank}") for step in attempt.steps[-1:]]
    signs += [(commit.number, "a commit") for commit in attempt.commits[-1:]]
    reports = [
        (n, e.rank) for n, e in analysis.history.of(ReportReturned) if e.attempt == attempt.index
    ]
    files = [(s.number, s.rank) for s in analysis.run.files.saves if s.attempt == attempt.index]
    signs += [(number, f"a report of rank {rank}") for number, rank in reports[-1:]]
    signs += [(number, f"a file of rank {rank}") for number, rank in files[-1:]]
    return max(signs, default=None)


def _twins(analysis: RunAnalysis) -> Iterator[Anomaly]:
    """Yield the ranks that two processes were, both of which made a step or saved a file.

    A script that starts one process to train in it is taken for its only rank until that joins:
    what it saves before is its own matter.
    """
    history = analysis.history
    acts = {history[number].source: number for number in history.numbers_of(FileSaveBegun)}
    acts |= {history[number].source: len(history) for number in history.numbers_of(StepDone)}
    seen: dict[AttemptRank, tuple[int, int]] = {}
    for number, started in history.of(WorkerStarted):
        rank = AttemptRank(started.attempt, started.rank)
        before, pid = seen.setdefault(rank, (number, started.pid))
        if pid == started.pid or history[number].source not in acts:
            continue
        if acts.get(history[before].source, 0) < number:
            seen[rank] = number, started.pid
        else:
            yield Anomaly(
                message=f"two processes were rank {started.rank} of attempt {started.attempt}: "
                f"pids {pid} and {started.pid}",
                events=(before, number),
            )


# -- bystanders ------------------------------------------------------------------------------------


BYSTANDERS = "bystanders"


@own_check(BYSTANDERS, asks="Did the other trials of the experiment notice?")
def check_bystanders(analysis: RunAnalysis) -> CheckResult:
    """Require that no trial of an experiment is affected by the faults of another.

    The promise of isolation in Ray Tune. Each trial beside the one with faults has one attempt and
    no failure, its `fit()` returns, and its losses are the baseline's (with a tolerance or a band
    they are not compared). A trial that was not under way at any fault has shown nothing, and none
    may be missing of those that Ray Tune reports to have made.
    """
    if analysis.plan.job.trial is None:
        return nothing_due(BYSTANDERS, "the job is no experiment of several trials")
    # Where no fault was planned it is the baseline itself: each trial is its own measure.
    reference = analysis.reference if analysis.plan.ops else analysis.run
    if reference is None:
        return inconclusive(BYSTANDERS, analysis.no_reference)
    alone, seen = _by_trial(reference.history), _by_trial(analysis.history)
    made = [event.trials for _, event in reference.history.of(ExperimentEnded)]
    if made == [1] and not alone and not seen:
        return nothing_due(BYSTANDERS, "the experiment has no other trial")
    exact, is_cut = analysis.plan.expect.is_exact, analysis.run.ending.deadline is not None
    anomalies = [
        Anomaly(message=f"trial {n}, which nothing was done to, {what}", events=(number,))
        for n, (number, event) in sorted(seen.items())
        for what in _noticed(event, alone[n][1] if n in alone and exact else None, is_cut=is_cut)
    ]
    return conclude(
        BYSTANDERS,
        anomalies=anomalies,
        doubts=[
            *_bystander_doubts(made, alone, seen),
            *_elsewhen(analysis.history, seen),
            *(
                f"trial {n} was ended by us, at the limit of the run"
                for n, (_, event) in sorted(seen.items())
                if is_cut and not event.finished
            ),
        ],
        evidence=sum(event.steps for _, event in seen.values()),
        summary=f"{plural(len(seen), 'other trial')} undisturbed, "
        f"{'with the losses of the baseline' if exact else 'losses not compared'}",
    )


def _by_trial(history: History) -> dict[int, tuple[int, BystanderSeen]]:
    return {event.trial: (number, event) for number, event in history.of(BystanderSeen)}


def _noticed(event: BystanderSeen, alone: BystanderSeen | None, *, is_cut: bool) -> Iterator[str]:
    is_cut = is_cut and not event.finished  # by us, at our limit
    if event.error is not None:
        yield f"failed: its fit() raised {event.error}"
    elif not event.finished and not is_cut:
        yield "did not end"
    if event.attempts > 1:
        yield f"was begun again: {plural(event.attempts, 'attempt')}"
    if event.failures:
        yield f"was charged for {plural(event.failures, 'failure')}"
    if alone is not None and not is_cut:
        places = sorted({*event.losses, *alone.losses})
        other = [at for at in places if event.losses.get(at) != alone.losses.get(at)]
        if other:
            more = f" and {len(other) - 1} more places" if len(other) > 1 else ""
            yield f"has other losses than in the baseline: {other[0]}{more}"


def _elsewhen(history: History, seen: dict[int, tuple[int, BystanderSeen]]) -> Iterator[str]:
    struck = [history.time_ns(number) for number, _ in history.of(FaultInvoked)]
    for n, (_, event) in sorted(seen.items()):
        if struck and not any(event.began_ns <= at <= event.ended_ns for at in struck):
            yield f"trial {n} was not under way when a fault was injected"


def _bystander_doubts(
    made: list[int],
    alone: dict[int, tuple[int, BystanderSeen]],
    seen: dict[int, tuple[int, BystanderSeen]],
) -> Iterator[str]:
    count = len(alone) + 1
    if not made:
        yield "Ray Tune did not say how many trials it made in the baseline"
    elif made[-1] != count:
        yield f"Ray Tune made {plural(made[-1], 'trial')} in the baseline, and {count} were seen"
    for n in sorted({*alone} - {*seen}):
        yield f"trial {n} was not seen"
    for n in sorted({*seen} - {*alone}):
        yield f"trial {n} was not seen in the baseline"
    for n, (_, event) in sorted(alone.items()):
        if event.attempts != 1 or event.failures or not event.finished:
            yield f"trial {n} did not come through the baseline undisturbed"
        elif not event.losses:
            yield f"trial {n} made no step that was seen"


# -- leftovers -------------------------------------------------------------------------------------


LEFTOVERS = "leftovers"


_GONE_FOR_GOOD = {
    "process": "a process",
    "placement_group": "a placement group",
    "actor": "an actor",
}


@own_check(LEFTOVERS, asks="Did the run clean up after itself?")
def check_leftovers(analysis: RunAnalysis) -> CheckResult:
    """Require that no process, placement group or actor of the run outlives it.

    The promise that nothing leaks. A process is the run's own by descent, or by a token in the
    environment that it inherited, whatever session or process group a child made for itself. Ports
    are not searched: a port lives with its process, and a process that still holds one
    (ray-project/ray#35907: after a restart) is found itself. One unregistered checkpoint directory
    per landed fault is Ray's known behaviour (2.60: files are uploaded before the report is
    recorded, and a report that a fault cuts off is forgotten, its files are not), and two where a
    fault came by the clock; more are not. A run that chaos ended, hung or interrupted, had no
    chance to clean up.
    """
    ended = analysis.run.ending
    if ended.deadline is not None or (ended.ended is not None and ended.ended[1].interrupted):
        return inconclusive(LEFTOVERS, "the run was ended by us, before it could clean up")
    left = list(analysis.history.of(Leftover))
    searched = [search for _, search in analysis.history.of(LeftoversSearched)]
    anomalies = [
        Anomaly(message=f"{_GONE_FOR_GOOD[what.kind]} outlived the run: {what.what}", events=(n,))
        for n, what in left
        if what.kind in _GONE_FOR_GOOD
    ]
    directories = [(n, what) for n, what in left if what.kind == "checkpoint_directory"]
    # A fault in doubt may have cut an upload as well: a folder more is no defect of the job then.
    landed = sum(
        max(len(injection.hits), injection.landed or injection.is_in_doubt)
        for injection in analysis.injections
    )
    # By the clock, one report may wait for the controller's poll while the next is uploaded.
    late = sum(injection.landed and not injection.is_exact for injection in analysis.injections)
    if len(directories) > landed + late:
        anomalies.append(
            Anomaly(
                message=f"{_directories(len(directories))} that no report registered, "
                f"after {plural(landed, 'fault')}: {directories[-1][1].what}",
                events=tuple(n for n, _ in directories),
            )
        )
    counts = Counter(what.kind for _, what in left)
    places = dict.fromkeys(place for search in searched for place in search.places)
    return conclude(
        LEFTOVERS,
        anomalies=anomalies,
        doubts=() if searched else ("what the run left behind was not looked for",),
        evidence=len(searched),
        summary=f"nothing of the run was left in {', '.join(places) or 'the places searched'}",
        measures={f"left_{kind}": count for kind, count in sorted(counts.items())},
    )


def _directories(count: int) -> str:
    return plural(count, "checkpoint directory", "checkpoint directories")


# -- drain -----------------------------------------------------------------------------------------


DRAIN = "drain"


# The window must hold a step, a save and a poll of Ray's controller, on a busy machine.
_SLACK = 3


@dataclass(frozen=True, slots=True)
class _NoticeWindow:
    """The time between a notice and the loss that it announces, or its deadline."""

    number: int
    notice: NoticeGiven
    since_ns: int
    until_ns: int
    attempt: int


@own_check(DRAIN, asks="Was the announcement of a loss made use of?")
def check_drain(analysis: RunAnalysis) -> CheckResult:
    """Require that a node which is announced to go gets no new work, and that training goes on.

    The promise of the drain. No attempt opened between notice and deadline has a rank on that node,
    and the running one does not stand still until its deadline: ranks that see the notice at
    different steps wait for each other (ray-project/ray PR #65183). Saving at the notice is
    required where the scenario states `expect.jit_checkpoint: true` and the notice is long enough
    for three of the baseline's longest steps and saves. Then there must be a commit with a
    checkpoint, or a file of the job's own that it resumes from, of work done after the notice
    (goodfire-ai/spd#741: it fired 0 of 6 times). Such a file is one like those that a later attempt
    read; where none read any, one like those that the baseline of a job without Ray's checkpoints
    saves. A job that ignores the notice loses the steps since its last save, which `lost-work`
    counts.
    """
    if not any(injection.is_announced for injection in analysis.injections):
        return nothing_due(DRAIN, "no loss was announced to the cluster")
    windows = list(_windows(analysis))
    if not analysis.run.ending.is_over:
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
        anomalies += [*_new_work(analysis, window), *_stood_still(analysis, window)]
        anomalies += _not_saved(analysis, window) if analysis.plan.expect.jit_checkpoint else ()
    return conclude(
        DRAIN,
        anomalies=anomalies,
        evidence=len(windows),
        summary=f"{plural(len(windows), 'notice')}; no new work on the node, and training went on",
    )


def _windows(analysis: RunAnalysis) -> Iterator[_NoticeWindow]:
    injections = {injection.op.index: injection for injection in analysis.injections}
    for number, notice in analysis.history.of(NoticeGiven):
        injection = injections[notice.op]
        if injection.invoked:
            since_ns = analysis.history.time_ns(number)
            attempt = injection.invoked[0][1].attempt
            until_ns = min(notice.deadline_ns, injection.harm_ns or notice.deadline_ns)
            yield _NoticeWindow(number, notice, since_ns, until_ns, attempt)


def _new_work(analysis: RunAnalysis, window: _NoticeWindow) -> Iterator[Anomaly]:
    for number, group in analysis.history.of(WorkerGroupStarted):
        if not window.since_ns < analysis.history.time_ns(number) < window.until_ns:
            continue
        for place in group.workers:
            if place.node_id == window.notice.node_id:
                yield Anomaly(
                    message=f"attempt {group.attempt} put rank {place.rank} on a node that was "
                    "announced to go",
                    events=(window.number, number),
                )
                return


def _stood_still(analysis: RunAnalysis, window: _NoticeWindow) -> Iterator[Anomaly]:
    """Yield a standstill up to the deadline that is far longer than any of the baseline's."""
    attempt = next((a for a in analysis.run.attempts if a.index == window.attempt), None)
    if attempt is None or analysis.reference is None or not attempt.steps:
        return
    moved_on = any(
        a.index > window.attempt and _is_before(analysis, a.group_started, window)
        for a in analysis.run.attempts
    )
    if moved_on or _has_finished(analysis, window):
        return
    signs = (StepDone, ReportBegun, Committed, FileSaved)
    times = [analysis.history.time_ns(n) for n in analysis.history.numbers_of(*signs)]
    last_ns = max((t for t in times if t <= window.until_ns), default=window.since_ns)
    idle_ns = window.until_ns - EARLY_NS - max(last_ns, window.since_ns)
    decided = any(_is_before(analysis, d.number, window) for d in attempt.decisions)
    if not decided and idle_ns > 2 * EARLY_NS + _SLACK * _longest_pause_ns(analysis):
        yield Anomaly(
            message=f"training stood still for the last {(idle_ns + EARLY_NS) / 1e9:.1f} s before "
            "the deadline of the notice: ranks wait for each other",
            events=(window.number,),
        )


def _is_before(analysis: RunAnalysis, number: int | None, window: _NoticeWindow) -> bool:
    return number is not None and analysis.history.time_ns(number) < window.until_ns


def _has_finished(analysis: RunAnalysis, window: _NoticeWindow) -> bool:
    returned = analysis.run.ending.returned
    return returned is not None and _is_before(analysis, returned[0], window)


def _longest_pause_ns(analysis: RunAnalysis) -> int:
    assert analysis.reference is not None
    found = longest_ns(analysis.reference.history, analysis.reference.attempts)
    return max((ns for where, ns in found.items() if where != "at the end"), default=0)


def _not_saved(analysis: RunAnalysis, window: _NoticeWindow) -> Iterator[Anomaly]:
    if analysis.reference is None or _has_finished(analysis, window):
        return
    notice_ns, attempt = window.until_ns - window.since_ns, window.attempt
    if notice_ns < 2 * _SLACK * _longest_pause_ns(analysis):
        return
    reports = (e for n, e in analysis.history.of(ReportBegun) if n > window.number)
    began = {e.epoch for e in reports if e.attempt == attempt}
    commits = [(n, e) for n, e in analysis.history.of(Committed) if e.attempt == attempt]
    saved = [n for n, e in commits if e.checkpoint is not None and e.epoch in began]
    # Any file that `torch.save` wrote after the notice was enough once: notes, or a part of a
    # checkpoint that was never committed.
    kept = _kinds_of_checkpoints(analysis, attempt)
    files = [(n, e) for n, e in analysis.history.of(FileSaved) if e.attempt == attempt]
    saved += [n for n, e in files if series_of(e.path) in kept]
    if not any(n > window.number and _is_before(analysis, n, window) for n in saved):
        yield Anomaly(
            message=f"{notice_ns / 1e9:.1f} s of notice passed, and nothing that was done after it "
            "was saved before the node went",
            events=(window.number,),
        )


def _kinds_of_checkpoints(analysis: RunAnalysis, attempt: int) -> set[str]:
    """Return the series of the files of its own that the job resumes from.

    A file that was read out of a checkpoint of Ray's is none: that must be committed.
    """
    files, reference = analysis.run.files, analysis.reference
    names = set(analysis.run.committed)
    uploaded = {d for _, e in analysis.history.of(PartUploaded) for d in e.files.values()}
    read = [
        load
        for load in files.read_since(attempt)
        if load.digest not in uploaded and names.isdisjoint(PurePath(load.path).parts)
    ]
    if read:
        origins = (files.origin(load) for load in read)
        return {series_of(e.path) for e in read} | {save.series for save in origins if save}
    if reference is not None and reference.keeps_own_files:
        return {save.series for save in reference.files.saves}
    return set()
