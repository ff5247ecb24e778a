"""The goodput ledger: every nanosecond of a run, charged to one attempt and one phase.

The names are those of goodput measurement (badput by cause). Each phase ends with an event of the
history. Where that was not seen, its time counts to the phase that comes next, so the phases always
add up to the wall time.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args
from weakref import WeakKeyDictionary

from chaos.check.analysis import RunAnalysis, RunTables
from chaos.check.injections import Injection
from chaos.model.event import (
    ControllerState,
    DriverExited,
    Event,
    FaultHealed,
    FaultInvoked,
    GateReached,
    GateReleased,
    JournalOpened,
    ReportBegun,
    ReportReturned,
    StepDone,
)
from chaos.model.history import History
from chaos.model.launcher_facts import LauncherWords
from chaos.model.places import START
from chaos.resume.attempt import Attempt

# -- marks -----------------------------------------------------------------------------------------


TimeUse: TypeAlias = Literal["productive", "replay", "checkpoint", "other"]
_EVENT_KINDS: tuple[type[Event], ...] = (
    StepDone,
    ReportBegun,
    ReportReturned,
    GateReached,
    GateReleased,
    FaultInvoked,
    FaultHealed,
)


@dataclass(frozen=True, slots=True)
class PhaseMark:
    """A moment."""

    time_ns: int
    #: the use of the time since the moment before
    phase: TimeUse
    is_step: bool = False


def build_marks(
    tables: RunTables, injections: Sequence[Injection]
) -> Mapping[int, Sequence[PhaseMark]]:
    """Return every attempt's marks in order of time, by its index."""
    committed_epochs = {(commit.attempt, commit.epoch) for commit in tables.lineage.commits}
    last_attempt = tables.attempts[-1].index if tables.attempts else 0
    reader = _MarkReader(
        tables.lineage.is_surviving,
        committed_epochs,
        last_attempt,
        {injection.op.index for injection in injections if injection.op.fault.stops_progress},
    )
    entries = tables.history.entries
    for number in tables.history.select_numbers(*_EVENT_KINDS):
        reader.add_event(entries[number].time_ns, entries[number].event)
    return reader.marks


class _MarkReader:
    def __init__(
        self,
        survives: Callable[[StepDone], bool],
        committed_epochs: set[tuple[int, int]],
        last_attempt: int,
        standstill_ops: Collection[int],
    ) -> None:
        self.survives, self.committed_epochs, self.last_attempt = (
            survives,
            committed_epochs,
            last_attempt,
        )
        self.standstill_ops = standstill_ops
        self.marks: dict[int, list[PhaseMark]] = {}
        self.latest_phases: dict[int, TimeUse] = {}
        self.attempts_by_op: dict[int, int] = {}

    def add_event(self, time_ns: int, event: Event) -> None:
        """Add the mark of one event."""
        match event:
            case StepDone():
                phase: TimeUse = "productive" if self.survives(event) else "replay"
                self.latest_phases[event.attempt] = phase
                self._add_mark(event.attempt, PhaseMark(time_ns, phase, is_step=True))
            case ReportBegun():
                self._add_mark(event.attempt, PhaseMark(time_ns, self._find_report_phase(event)))
            case ReportReturned():
                self._add_mark(event.attempt, PhaseMark(time_ns, "checkpoint"))
            # Up to the gate the rank trained; while it is held, no time is productive.
            case GateReached():
                self._add_mark(event.attempt, PhaseMark(time_ns, self._latest_phase(event.attempt)))
            case GateReleased():
                self._add_mark(event.attempt, PhaseMark(time_ns, "other"))
            case FaultInvoked():
                self.attempts_by_op[event.op] = event.attempt
                self._add_mark(event.attempt, PhaseMark(time_ns, "other"))
            case FaultHealed() if event.op in self.attempts_by_op:
                attempt = self.attempts_by_op[event.op]
                # Under a fault that stops all progress nothing is trained until it is healed.
                is_standstill = event.op in self.standstill_ops
                self._add_mark(
                    attempt,
                    PhaseMark(time_ns, "other" if is_standstill else self._latest_phase(attempt)),
                )
            case _:
                pass

    def _add_mark(self, attempt: int, mark: PhaseMark) -> None:
        self.marks.setdefault(attempt, []).append(mark)

    def _latest_phase(self, attempt: int) -> TimeUse:
        return self.latest_phases.get(attempt, "productive")

    def _find_report_phase(self, report: ReportBegun) -> TimeUse:
        """Return the phase before a report: that of its steps, else by its commit."""
        if report.attempt in self.latest_phases:
            return self.latest_phases[report.attempt]
        is_last = report.attempt == self.last_attempt
        return (
            "productive"
            if is_last or (report.attempt, report.epoch) in self.committed_epochs
            else "replay"
        )


def find_scheduling_ns(history: History, *, since_ns: int, before_ns: int | None) -> int | None:
    """Return the last moment of a stretch at which Ray's controller began to schedule, or None."""
    scheduling_times = (
        history.time_ns(number)
        for number, change in history.select_events(ControllerState)
        if change.state == "SCHEDULING"
    )
    candidates = [
        ns for ns in scheduling_times if ns >= since_ns and (before_ns is None or ns <= before_ns)
    ]
    return max(candidates, default=None)


def find_launch_ns(history: History, attempt: Attempt, *, before_ns: int) -> int | None:
    """Return when an attempt's train functions began: the controller is RUNNING, all are ready."""
    group_number = -1 if attempt.group_started is None else attempt.group_started
    running_times = (
        history.time_ns(number)
        for number, change in history.select_events(ControllerState)
        if change.state == "RUNNING" and number > group_number
    )
    running_ns = next((ns for ns in running_times if ns <= before_ns), None)
    start_times = [history.time_ns(start.number) for start in attempt.starts.values()]
    moments = [ns for ns in (running_ns, *start_times) if ns is not None]
    return max(moments, default=None)


Phase: TypeAlias = Literal[
    "productive",
    "checkpoint",
    "replay",
    "detect",
    "teardown",
    "schedule",
    "start",
    "restore",
    "other",
]
PHASES: tuple[Phase, ...] = get_args(Phase)

_MEANINGS: Mapping[Phase, str] = {
    "productive": "led to a finished step, or the report, of work that survived",
    "checkpoint": "a rank was inside report() and no step was finished: saving and uploading",
    "replay": "led to work that a restart threw away: it has to be done a second time",
    "detect": "from the harm (else the last sign of life) until {controller} decided",
    "teardown": "from the decision until {name} schedules anew and the old workers are silent",
    "schedule": "from SCHEDULING until the worker group is up: room, placement, processes",
    "start": "from there until the train functions run; without a checkpoint, to the first step",
    "restore": "from there until the first step is finished, with a checkpoint to go on from",
    "other": "the script before the first scheduling and after the last report; a rank was held "
    "by chaos, or all stood still under a fault that spares them",
}


def describe_phase(phase: Phase, terms: LauncherWords) -> str:
    """Return in words the use of the time in a phase."""
    return _MEANINGS[phase].format(controller=terms.controller, name=terms.name)


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """A stretch of time in one phase."""

    #: the index of the attempt that is charged
    attempt: int
    phase: Phase
    since_ns: int
    until_ns: int

    @property
    def duration_ns(self) -> int:
        return self.until_ns - self.since_ns


@dataclass(frozen=True)
class TimeLedger:
    """The spans of a job from its driver's start to its exit, end to end and without overlap."""

    spans: tuple[PhaseSpan, ...]

    @property
    def wall_ns(self) -> int:
        """The time of the whole job, without the time that chaos needs before and after it."""
        return self.spans[-1].until_ns - self.spans[0].since_ns if self.spans else 0

    @property
    def attempts(self) -> tuple[int, ...]:
        """The attempts that are charged."""
        return tuple(dict.fromkeys(span.attempt for span in self.spans))

    def sum_nanoseconds(self, *, attempt: int | None = None) -> dict[Phase, int]:
        """Return the nanoseconds per phase, of one attempt or of all; together the wall time."""
        totals = dict.fromkeys(PHASES, 0)
        for span in self.spans:
            if attempt is None or span.attempt == attempt:
                totals[span.phase] += span.duration_ns
        return totals

    def sum_seconds(self, *, attempt: int | None = None) -> dict[Phase, float]:
        """Return the seconds per phase, of one attempt or of all."""
        return {phase: ns / 1e9 for phase, ns in self.sum_nanoseconds(attempt=attempt).items()}

    @property
    def goodput(self) -> float | None:
        """The productive part of the wall time; None where no time was recorded."""
        return self.sum_nanoseconds()["productive"] / self.wall_ns if self.wall_ns else None


# Several parts of a page use it, and it takes as long as a few checks.
_ledgers: WeakKeyDictionary[RunAnalysis, TimeLedger] = WeakKeyDictionary()


def get_ledger(analysis: RunAnalysis) -> TimeLedger:
    """Return the ledger of the run that is judged; it is made once."""
    if analysis not in _ledgers:
        _ledgers[analysis] = build_ledger(
            analysis.run, analysis.hits, injections=analysis.injections
        )
    return _ledgers[analysis]


def build_ledger(
    tables: RunTables,
    injections_by_attempt: Mapping[int, Sequence[Injection]] | None = None,
    *,
    injections: Sequence[Injection] = (),
) -> TimeLedger:
    """Charge the time of a run; `injections_by_attempt` are those that ended attempts.

    An attempt is charged with all time from its own scheduling until the next one's. The first is
    also charged with the time before, the last with the time after.
    """
    history = tables.history
    if not len(history):
        return TimeLedger(())
    sweep = _PhaseSweep(*find_bounds_ns(history))
    marks_by_attempt = build_marks(tables, injections)
    attempts = tables.attempts
    for position, attempt in enumerate(attempts):
        next_attempt = attempts[position + 1] if position + 1 < len(attempts) else None
        harm_ns = _find_harm_ns(attempt, (injections_by_attempt or {}).get(attempt.index, ()))
        _charge_attempt(
            sweep, tables, attempt, marks_by_attempt.get(attempt.index, ()), harm_ns, next_attempt
        )
    sweep.charge_phase("other", sweep.end_ns)
    return TimeLedger(tuple(_join_spans(sweep.spans)))


def find_bounds_ns(history: History) -> tuple[int, int]:
    """Return the begin and the end of the job: its driver's first event, and the driver's exit.

    Where these were not seen, the history's own first and last event stand for them.
    """
    first_ns, last_ns = history.time_ns(0), history.time_ns(len(history) - 1)
    opening_times = (
        history.time_ns(number)
        for number, event in history.select_events(JournalOpened)
        if event.role == "driver"
    )
    exit_times = [history.time_ns(number) for number, _ in history.select_events(DriverExited)]
    start_ns = next(opening_times, first_ns)
    return start_ns, max(start_ns, exit_times[-1] if exit_times else last_ns)


@dataclass
class _PhaseSweep:
    """One pass over the time of a run. A moment that lies behind, or is unknown, has no effect."""

    now_ns: int
    end_ns: int
    attempt: int = 0
    spans: list[PhaseSpan] = field(default_factory=list)

    def charge_phase(self, phase: Phase, until_ns: int | None) -> None:
        until_ns = self.now_ns if until_ns is None else min(until_ns, self.end_ns)
        if until_ns > self.now_ns:
            self.spans.append(PhaseSpan(self.attempt, phase, self.now_ns, until_ns))
            self.now_ns = until_ns


def _charge_attempt(
    sweep: _PhaseSweep,
    tables: RunTables,
    attempt: Attempt,
    marks: Sequence[PhaseMark],
    harm_ns: int | None,
    next_attempt: Attempt | None,
) -> None:
    sweep.attempt = attempt.index
    opened_ns = (
        None if attempt.group_started is None else tables.history.time_ns(attempt.group_started)
    )
    limit_ns = _find_limit_ns(tables, next_attempt, sweep.end_ns)
    # Each call below ends a phase, in the order of a worker group's life. A moment that was not
    # seen ends nothing, and its time falls to the next phase.
    sweep.charge_phase(
        "other", find_scheduling_ns(tables.history, since_ns=sweep.now_ns, before_ns=opened_ns)
    )
    sweep.charge_phase("schedule", opened_ns)
    sweep.charge_phase("start", find_launch_ns(tables.history, attempt, before_ns=limit_ns))
    _charge_training(sweep, attempt, marks, stop_ns=limit_ns if harm_ns is None else harm_ns)
    _charge_ending(sweep, tables, attempt, harm_ns=harm_ns, next_attempt=next_attempt)


def _charge_training(
    sweep: _PhaseSweep, attempt: Attempt, marks: Sequence[PhaseMark], *, stop_ns: int
) -> None:
    """Charge the time between an attempt's steps and reports, as far as it came."""
    has_checkpoint = any(
        start.checkpoint or start.training_place > START for start in attempt.starts.values()
    )
    first_step = next((mark for mark in marks if mark.is_step), None)
    begins_ns = sweep.now_ns if first_step is None else min(first_step.time_ns, stop_ns)
    sweep.charge_phase("restore" if has_checkpoint else "start", begins_ns)
    for mark in marks:
        if mark.time_ns > stop_ns:
            break
        sweep.charge_phase(mark.phase, mark.time_ns)


def _charge_ending(
    sweep: _PhaseSweep,
    tables: RunTables,
    attempt: Attempt,
    *,
    harm_ns: int | None,
    next_attempt: Attempt | None,
) -> None:
    """Charge the time between an attempt's last sign of life and the next one's scheduling."""
    # The moments of an end, each charged to what the job waited for until it came:
    #
    #   last step .. harm        replay    the step under way is lost with it
    #   harm .. decision         detect    Ray has not noticed; without a decision (the driver is
    #                                      gone) until the next scheduling
    #   decision .. SCHEDULING   teardown  and on until stragglers of the old group are silent
    #
    # Not every moment is seen. The sweep never goes back, so a moment that lies behind what was
    # charged already, or is missing, takes no time and leaves it to the phase after it: the phases
    # of any run add up to its wall time to the nanosecond.
    history = tables.history
    sweep.charge_phase("replay", harm_ns)
    last_decision = attempt.decisions[-1] if attempt.decisions else None
    decided_ns = None if last_decision is None else history.time_ns(last_decision.number)
    sweep.charge_phase("detect", decided_ns)
    if next_attempt is None:
        raised_error = tables.ending.fit_error
        sweep.charge_phase(
            "teardown", history.time_ns(raised_error[0]) if raised_error and last_decision else None
        )
        return
    opened_ns = _find_limit_ns(tables, next_attempt, sweep.end_ns)
    scheduling_ns = find_scheduling_ns(history, since_ns=sweep.now_ns, before_ns=opened_ns)
    is_undecided = (
        last_decision is None and harm_ns is not None
    )  # no decision, as when the driver is gone
    sweep.charge_phase("detect" if is_undecided else "teardown", scheduling_ns)
    # Stragglers of an ended attempt may make steps after Ray began to schedule the next one.
    last_step_ns = max((history.time_ns(step.number) for step in attempt.steps[-1:]), default=0)
    sweep.charge_phase("teardown", min(last_step_ns, opened_ns))


def _find_limit_ns(tables: RunTables, next_attempt: Attempt | None, end_ns: int) -> int:
    """Return the first sign of the next attempt's workers, or the end of the run."""
    if next_attempt is None:
        return end_ns
    first_events = [start.number for start in next_attempt.starts.values()]
    first_events += [step.number for step in next_attempt.steps[:1]]
    first_events += [] if next_attempt.group_started is None else [next_attempt.group_started]
    return min((tables.history.time_ns(number) for number in first_events), default=end_ns)


def _find_harm_ns(attempt: Attempt, injections: Sequence[Injection]) -> int | None:
    harm_times = (injection.hit_times_by_attempt.get(attempt.index) for injection in injections)
    return min((harm_ns for harm_ns in harm_times if harm_ns is not None), default=None)


def _join_spans(spans: Sequence[PhaseSpan]) -> Iterator[PhaseSpan]:
    """Join neighbours of one attempt and phase."""
    open_span: PhaseSpan | None = None
    for span in spans:
        if open_span and (open_span.attempt, open_span.phase) == (span.attempt, span.phase):
            open_span = PhaseSpan(span.attempt, span.phase, open_span.since_ns, span.until_ns)
            continue
        if open_span:
            yield open_span
        open_span = span
    if open_span:
        yield open_span
