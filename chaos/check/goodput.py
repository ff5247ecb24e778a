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
from chaos.check.attempt import Attempt
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
from chaos.model.launcher import LauncherWords
from chaos.model.places import START

# -- marks -----------------------------------------------------------------------------------------


Spent: TypeAlias = Literal["productive", "replay", "checkpoint", "other"]
_KINDS: tuple[type[Event], ...] = (
    StepDone,
    ReportBegun,
    ReportReturned,
    GateReached,
    GateReleased,
    FaultInvoked,
    FaultHealed,
)


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment."""

    time_ns: int
    #: the use of the time since the moment before
    phase: Spent
    is_step: bool = False


def marks(course: RunTables, injections: Sequence[Injection]) -> Mapping[int, Sequence[Mark]]:
    """Return every attempt's marks in order of time, by its index."""
    kept = {(commit.attempt, commit.epoch) for commit in course.lineage.commits}
    last = course.attempts[-1].index if course.attempts else 0
    reader = _Reader(
        course.lineage.survives,
        kept,
        last,
        {s.op.index for s in injections if s.op.fault.stops_progress},
    )
    entries = course.history.entries
    for number in course.history.numbers_of(*_KINDS):
        reader.read(entries[number].time_ns, entries[number].what)
    return reader.found


class _Reader:
    def __init__(
        self,
        survives: Callable[[StepDone], bool],
        kept: set[tuple[int, int]],
        last: int,
        standstills: Collection[int],
    ) -> None:
        self.survives, self.kept, self.last = survives, kept, last
        self.standstills = standstills
        self.found: dict[int, list[Mark]] = {}
        self.of_steps: dict[int, Spent] = {}
        self.struck: dict[int, int] = {}

    def read(self, time_ns: int, what: Event) -> None:
        """Add the mark of one event."""
        match what:
            case StepDone():
                phase: Spent = "productive" if self.survives(what) else "replay"
                self.of_steps[what.attempt] = phase
                self._add(what.attempt, Mark(time_ns, phase, is_step=True))
            case ReportBegun():
                self._add(what.attempt, Mark(time_ns, self._of_report(what)))
            case ReportReturned():
                self._add(what.attempt, Mark(time_ns, "checkpoint"))
            # Up to the gate the rank trained; while it is held, no time is productive.
            case GateReached():
                self._add(what.attempt, Mark(time_ns, self._latest(what.attempt)))
            case GateReleased():
                self._add(what.attempt, Mark(time_ns, "other"))
            case FaultInvoked():
                self.struck[what.op] = what.attempt
                self._add(what.attempt, Mark(time_ns, "other"))
            case FaultHealed() if what.op in self.struck:
                attempt = self.struck[what.op]
                # Under a fault that stops all progress nothing is trained until it is healed.
                stood = what.op in self.standstills
                self._add(attempt, Mark(time_ns, "other" if stood else self._latest(attempt)))
            case _:
                pass

    def _add(self, attempt: int, mark: Mark) -> None:
        self.found.setdefault(attempt, []).append(mark)

    def _latest(self, attempt: int) -> Spent:
        return self.of_steps.get(attempt, "productive")

    def _of_report(self, begun: ReportBegun) -> Spent:
        """Return the phase before a report: that of its steps, else by its commit."""
        if begun.attempt in self.of_steps:
            return self.of_steps[begun.attempt]
        is_last = begun.attempt == self.last
        return "productive" if is_last or (begun.attempt, begun.epoch) in self.kept else "replay"


def scheduled_ns(history: History, *, since_ns: int, before_ns: int | None) -> int | None:
    """Return the last moment of a stretch at which Ray's controller began to schedule, or None."""
    found = (
        history.time_ns(number)
        for number, seen in history.of(ControllerState)
        if seen.state == "SCHEDULING"
    )
    within = [ns for ns in found if ns >= since_ns and (before_ns is None or ns <= before_ns)]
    return max(within, default=None)


def launched_ns(history: History, attempt: Attempt, *, before_ns: int) -> int | None:
    """Return when an attempt's train functions began: the controller is RUNNING, all are ready."""
    opened = -1 if attempt.group_started is None else attempt.group_started
    states = (
        history.time_ns(number)
        for number, seen in history.of(ControllerState)
        if seen.state == "RUNNING" and number > opened
    )
    running_ns = next((ns for ns in states if ns <= before_ns), None)
    ready = [history.time_ns(start.number) for start in attempt.starts.values()]
    known = [ns for ns in (running_ns, *ready) if ns is not None]
    return max(known, default=None)


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


def meaning(phase: Phase, terms: LauncherWords) -> str:
    """Return in words the use of the time in a phase."""
    return _MEANINGS[phase].format(controller=terms.controller, name=terms.name)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in one phase."""

    #: the index of the attempt that is charged
    attempt: int
    phase: Phase
    since_ns: int
    until_ns: int

    @property
    def ns(self) -> int:
        return self.until_ns - self.since_ns


@dataclass(frozen=True)
class Ledger:
    """The spans of a job from its driver's start to its exit, end to end and without overlap."""

    spans: tuple[Span, ...]

    @property
    def wall_ns(self) -> int:
        """The time of the whole job, without the time that chaos needs before and after it."""
        return self.spans[-1].until_ns - self.spans[0].since_ns if self.spans else 0

    @property
    def attempts(self) -> tuple[int, ...]:
        """The attempts that are charged."""
        return tuple(dict.fromkeys(span.attempt for span in self.spans))

    def ns(self, *, attempt: int | None = None) -> dict[Phase, int]:
        """Return the nanoseconds per phase, of one attempt or of all; together the wall time."""
        total = dict.fromkeys(PHASES, 0)
        for span in self.spans:
            if attempt is None or span.attempt == attempt:
                total[span.phase] += span.ns
        return total

    def seconds(self, *, attempt: int | None = None) -> dict[Phase, float]:
        """Return the seconds per phase, of one attempt or of all."""
        return {phase: ns / 1e9 for phase, ns in self.ns(attempt=attempt).items()}

    @property
    def goodput(self) -> float | None:
        """The productive part of the wall time; None where no time was recorded."""
        return self.ns()["productive"] / self.wall_ns if self.wall_ns else None


# Several parts of a page use it, and it takes as long as a few checks.
_known: WeakKeyDictionary[RunAnalysis, Ledger] = WeakKeyDictionary()


def ledger_of(analysis: RunAnalysis) -> Ledger:
    """Return the ledger of the run that is judged; it is made once."""
    if analysis not in _known:
        _known[analysis] = ledger(analysis.run, analysis.hits, injections=analysis.injections)
    return _known[analysis]


def ledger(
    course: RunTables,
    hits: Mapping[int, Sequence[Injection]] | None = None,
    *,
    injections: Sequence[Injection] = (),
) -> Ledger:
    """Charge the time of a run; `hits` are the injections that ended attempts, by their index.

    An attempt is charged with all time from its own scheduling until the next one's. The first is
    also charged with the time before, the last with the time after.
    """
    history = course.history
    if not len(history):
        return Ledger(())
    sweep = _Sweep(*bounds_ns(history))
    found = marks(course, injections)
    rows = course.attempts
    for place, attempt in enumerate(rows):
        following = rows[place + 1] if place + 1 < len(rows) else None
        harm_ns = _harm_ns(attempt, (hits or {}).get(attempt.index, ()))
        _charge(sweep, course, attempt, found.get(attempt.index, ()), harm_ns, following)
    sweep.to("other", sweep.end_ns)
    return Ledger(tuple(_joined(sweep.spans)))


def bounds_ns(history: History) -> tuple[int, int]:
    """Return the begin and the end of the job: its driver's first event, and the driver's exit.

    Where these were not seen, the history's own first and last event stand for them.
    """
    first_ns, last_ns = history.time_ns(0), history.time_ns(len(history) - 1)
    opened = (history.time_ns(n) for n, e in history.of(JournalOpened) if e.role == "driver")
    exited = [history.time_ns(n) for n, _ in history.of(DriverExited)]
    since_ns = next(opened, first_ns)
    return since_ns, max(since_ns, exited[-1] if exited else last_ns)


@dataclass
class _Sweep:
    """One pass over the time of a run. A moment that lies behind, or is unknown, has no effect."""

    now_ns: int
    end_ns: int
    attempt: int = 0
    spans: list[Span] = field(default_factory=list)

    def to(self, phase: Phase, until_ns: int | None) -> None:
        until_ns = self.now_ns if until_ns is None else min(until_ns, self.end_ns)
        if until_ns > self.now_ns:
            self.spans.append(Span(self.attempt, phase, self.now_ns, until_ns))
            self.now_ns = until_ns


def _charge(
    sweep: _Sweep,
    course: RunTables,
    attempt: Attempt,
    found: Sequence[Mark],
    harm_ns: int | None,
    following: Attempt | None,
) -> None:
    sweep.attempt = attempt.index
    opened_ns = (
        None if attempt.group_started is None else course.history.time_ns(attempt.group_started)
    )
    limit_ns = _until_ns(course, following, sweep.end_ns)
    # Each call below ends a phase, in the order of a worker group's life. A moment that was not
    # seen ends nothing, and its time falls to the next phase.
    sweep.to("other", scheduled_ns(course.history, since_ns=sweep.now_ns, before_ns=opened_ns))
    sweep.to("schedule", opened_ns)
    sweep.to("start", launched_ns(course.history, attempt, before_ns=limit_ns))
    _train(sweep, attempt, found, stop_ns=limit_ns if harm_ns is None else harm_ns)
    _end(sweep, course, attempt, harm_ns=harm_ns, following=following)


def _train(sweep: _Sweep, attempt: Attempt, found: Sequence[Mark], *, stop_ns: int) -> None:
    """Charge the time between an attempt's steps and reports, as far as it came."""
    resumed = any(start.checkpoint or start.place > START for start in attempt.starts.values())
    first = next((mark for mark in found if mark.is_step), None)
    begins_ns = sweep.now_ns if first is None else min(first.time_ns, stop_ns)
    sweep.to("restore" if resumed else "start", begins_ns)
    for mark in found:
        if mark.time_ns > stop_ns:
            break
        sweep.to(mark.phase, mark.time_ns)


def _end(
    sweep: _Sweep,
    course: RunTables,
    attempt: Attempt,
    *,
    harm_ns: int | None,
    following: Attempt | None,
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
    history = course.history
    sweep.to("replay", harm_ns)
    decided = attempt.decisions[-1] if attempt.decisions else None
    decided_ns = None if decided is None else history.time_ns(decided.number)
    sweep.to("detect", decided_ns)
    if following is None:
        raised = course.ending.raised
        sweep.to("teardown", history.time_ns(raised[0]) if raised and decided else None)
        return
    opened_ns = _until_ns(course, following, sweep.end_ns)
    again_ns = scheduled_ns(history, since_ns=sweep.now_ns, before_ns=opened_ns)
    lasted = decided is None and harm_ns is not None  # no decision, as when the driver is gone
    sweep.to("detect" if lasted else "teardown", again_ns)
    # Stragglers of an ended attempt may make steps after Ray began to schedule the next one.
    last_ns = max((history.time_ns(step.number) for step in attempt.steps[-1:]), default=0)
    sweep.to("teardown", min(last_ns, opened_ns))


def _until_ns(course: RunTables, following: Attempt | None, end_ns: int) -> int:
    """Return the first sign of the next attempt's workers, or the end of the run."""
    if following is None:
        return end_ns
    firsts = [start.number for start in following.starts.values()]
    firsts += [step.number for step in following.steps[:1]]
    firsts += [] if following.group_started is None else [following.group_started]
    return min((course.history.time_ns(number) for number in firsts), default=end_ns)


def _harm_ns(attempt: Attempt, hits: Sequence[Injection]) -> int | None:
    found = (injection.hits.get(attempt.index) for injection in hits)
    return min((harm_ns for harm_ns in found if harm_ns is not None), default=None)


def _joined(spans: Sequence[Span]) -> Iterator[Span]:
    """Join neighbours of one attempt and phase."""
    open_: Span | None = None
    for span in spans:
        if open_ and (open_.attempt, open_.phase) == (span.attempt, span.phase):
            open_ = Span(span.attempt, span.phase, open_.since_ns, span.until_ns)
            continue
        if open_:
            yield open_
        open_ = span
    if open_:
        yield open_
