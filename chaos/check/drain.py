"""Was the announcement of a loss made use of?"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from chaos.check.files import series_of
from chaos.check.pace import pauses
from chaos.check.result import conclude, nothing_due, plural, unknown
from chaos.check.strikes import EARLY_NS, Strike
from chaos.check.trial import Trial
from chaos.model.event import (
    Committed,
    FileSaved,
    NoticeGiven,
    PartUploaded,
    ReportBegun,
    StepDone,
    WorkerGroupStarted,
)
from chaos.model.verdict import Anomaly, CheckResult

NAME = "drain"

# The window must hold a step, a save and a poll of Ray's controller, on a busy machine.
_SLACK = 3


@dataclass(frozen=True, slots=True)
class _Window:
    """The time between a notice and the loss that it announces, or its deadline."""

    number: int
    notice: NoticeGiven
    since_ns: int
    until_ns: int
    attempt: int


def check(trial: Trial) -> CheckResult:
    """Require that a node which is announced to go gets no new work, and that training goes on.

    The promise of the drain. No attempt opened between notice and deadline
    has a rank on that node, and the one that runs does not stand still until
    its deadline: ranks that see the notice at different steps wait for each
    other (ray-project/ray PR #65183). Saving at the notice is required where
    the scenario says `expect.jit_checkpoint: true` and the notice is long
    enough for three of the baseline's longest steps and saves: a commit with a
    checkpoint, or a file of the job's own that it resumes from, of work done
    after the notice (goodfire-ai/spd#741: it fired 0 of 6 times). Such a file
    is one like those that a later attempt read; where none read any, one like
    those that the baseline of a job without Ray's checkpoints saves. A job
    that takes no notice loses what its cadence says, which `lost-work` counts.
    """
    if not any(op.fault.is_announced for op in trial.plan.ops):
        return nothing_due(NAME, "no loss was announced")
    windows = list(_windows(trial))
    if not trial.run.ending.is_over:
        return unknown(NAME, "the run was not seen to its end")
    if not windows:
        return unknown(NAME, "no notice was seen")
    anomalies = [a for window in windows for a in _anomalies(trial, window)]
    return conclude(
        NAME,
        anomalies=anomalies,
        evidence=len(windows),
        summary=f"{plural(len(windows), 'notice')}; no new work on the node, and training went on",
    )


def _windows(trial: Trial) -> Iterator[_Window]:
    strikes: dict[int, Strike] = {strike.op.index: strike for strike in trial.strikes}
    for number, notice in trial.history.of(NoticeGiven):
        strike = strikes[notice.op]
        if strike.invoked:
            since_ns = trial.history.time_ns(number)
            attempt = strike.invoked[0][1].attempt
            until_ns = min(notice.deadline_ns, strike.harm_ns or notice.deadline_ns)
            yield _Window(number, notice, since_ns, until_ns, attempt)


def _anomalies(trial: Trial, window: _Window) -> Iterator[Anomaly]:
    yield from _new_work(trial, window)
    yield from _stood_still(trial, window)
    if trial.plan.expect.jit_checkpoint:
        yield from _not_saved(trial, window)


def _new_work(trial: Trial, window: _Window) -> Iterator[Anomaly]:
    for number, opened in trial.history.of(WorkerGroupStarted):
        if not window.since_ns < trial.history.time_ns(number) < window.until_ns:
            continue
        for place in opened.workers:
            if place.node_id == window.notice.node_id:
                yield Anomaly(
                    message=f"attempt {opened.attempt} put rank {place.rank} on a node that was "
                    "announced to go",
                    events=(window.number, number),
                )
                return


def _stood_still(trial: Trial, window: _Window) -> Iterator[Anomaly]:
    """Find a standstill up to the deadline that is far longer than any of the baseline's."""
    attempt = next((a for a in trial.run.attempts if a.index == window.attempt), None)
    if attempt is None or trial.reference is None or not attempt.steps:
        return
    moved_on = any(
        a.index > window.attempt and _is_before(trial, a.opened, window) for a in trial.run.attempts
    )
    over = trial.run.ending.returned
    if moved_on or _is_before(trial, None if over is None else over[0], window):
        return
    signs = (StepDone, ReportBegun, Committed, FileSaved)
    times = [trial.history.time_ns(n) for n in trial.history.numbers_of(*signs)]
    last_ns = max((t for t in times if t <= window.until_ns), default=window.since_ns)
    idle_ns = window.until_ns - EARLY_NS - max(last_ns, window.since_ns)
    decided = any(_is_before(trial, d.number, window) for d in attempt.decisions)
    if not decided and idle_ns > 2 * EARLY_NS + _SLACK * _longest_pause_ns(trial):
        yield Anomaly(
            message=f"training stood still for the last {(idle_ns + EARLY_NS) / 1e9:.1f} s before "
            "the deadline of the notice: ranks wait for each other",
            events=(window.number,),
        )


def _is_before(trial: Trial, number: int | None, window: _Window) -> bool:
    return number is not None and trial.history.time_ns(number) < window.until_ns


def _longest_pause_ns(trial: Trial) -> int:
    assert trial.reference is not None
    found = pauses(trial.reference.history, trial.reference.attempts, over_ns=0)
    return max((pause.ns for pause in found if pause.where != "at the end"), default=0)


def _not_saved(trial: Trial, window: _Window) -> Iterator[Anomaly]:
    if trial.reference is None:
        return
    if window.until_ns - window.since_ns < 2 * _SLACK * _longest_pause_ns(trial):
        return
    began = {
        e.epoch
        for n, e in trial.history.of(ReportBegun)
        if e.attempt == window.attempt and n > window.number
    }
    in_time = [
        n
        for n, e in trial.history.of(Committed)
        if e.attempt == window.attempt and e.checkpoint is not None and e.epoch in began
    ]
    kept = _kinds_of_checkpoints(trial, window.attempt)
    in_time += [
        n
        for n, e in trial.history.of(FileSaved)
        if e.attempt == window.attempt and series_of(e.path) in kept
    ]
    over = trial.run.ending.returned
    finished = over is not None and _is_before(trial, over[0], window)
    if not finished and not any(
        n > window.number and _is_before(trial, n, window) for n in in_time
    ):
        seconds = (window.until_ns - window.since_ns) / 1e9
        yield Anomaly(
            message=f"{seconds:.1f} s of notice passed, and nothing that was done after it was "
            "saved before the node went",
            events=(window.number,),
        )


def _kinds_of_checkpoints(trial: Trial, attempt: int) -> set[str]:
    """Give the series of the files of its own that the job resumes from.

    What is read out of a checkpoint of Ray's is none: that must be committed.
    """
    files, reference = trial.run.files, trial.reference
    names = set(trial.run.committed)
    uploaded = {d for _, e in trial.history.of(PartUploaded) for d in e.files.values()}
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
