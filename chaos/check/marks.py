"""The moments at which a run is seen to get on, each with what the time before it was spent on."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from chaos.check.attempt import Attempt
from chaos.check.strikes import Strike
from chaos.check.trial import Course
from chaos.model.event import (
    ControllerState,
    Event,
    FaultHealed,
    FaultInvoked,
    GateReached,
    GateReleased,
    ReportBegun,
    ReportReturned,
    StepDone,
)
from chaos.model.history import History

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
    """A moment; `phase`: what the time since the one before was spent on."""

    time_ns: int
    phase: Spent
    is_step: bool = False


def marks(course: Course, strikes: Sequence[Strike]) -> Mapping[int, Sequence[Mark]]:
    """Give every attempt's marks in order of time, by its index."""
    survivors = {step.number for step in course.lineage.all_steps()}
    kept = {(commit.attempt, commit.epoch) for commit in course.lineage.commits}
    last = course.attempts[-1].index if course.attempts else 0
    reader = _Reader(
        survivors, kept, last, {s.op.index for s in strikes if s.op.fault.stops_progress}
    )
    entries = course.history.entries
    for number in course.history.numbers_of(*_KINDS):
        reader.read(number, entries[number].time_ns, entries[number].what)
    return reader.found


class _Reader:
    def __init__(
        self,
        survivors: set[int],
        kept: set[tuple[int, int]],
        last: int,
        standstills: Collection[int],
    ) -> None:
        self.survivors, self.kept, self.last = survivors, kept, last
        self.standstills = standstills
        self.found: dict[int, list[Mark]] = {}
        self.of_steps: dict[int, Spent] = {}
        self.struck: dict[int, int] = {}

    def read(self, number: int, time_ns: int, what: Event) -> None:
        """Take one event in; of a strike the attempt that it struck is remembered."""
        match what:
            case StepDone():
                phase: Spent = "productive" if number in self.survivors else "replay"
                self.of_steps[what.attempt] = phase
                self._add(what.attempt, Mark(time_ns, phase, is_step=True))
            case ReportBegun():
                self._add(what.attempt, Mark(time_ns, self._of_report(what)))
            case ReportReturned():
                self._add(what.attempt, Mark(time_ns, "checkpoint"))
            case GateReached():
                self._add(what.attempt, Mark(time_ns, self._latest(what.attempt)))
            case GateReleased():
                self._add(what.attempt, Mark(time_ns, "other"))
            case FaultInvoked():
                self.struck[what.op] = what.attempt
                self._add(what.attempt, Mark(time_ns, "other"))
            case FaultHealed() if what.op in self.struck:
                attempt = self.struck[what.op]
                stood = what.op in self.standstills
                self._add(attempt, Mark(time_ns, "other" if stood else self._latest(attempt)))
            case _:
                pass

    def _add(self, attempt: int, mark: Mark) -> None:
        self.found.setdefault(attempt, []).append(mark)

    def _latest(self, attempt: int) -> Spent:
        return self.of_steps.get(attempt, "productive")

    def _of_report(self, begun: ReportBegun) -> Spent:
        """Say what led to a report: as its steps were, or as its commit where there are none."""
        if begun.attempt in self.of_steps:
            return self.of_steps[begun.attempt]
        is_last = begun.attempt == self.last
        return "productive" if is_last or (begun.attempt, begun.epoch) in self.kept else "replay"


def scheduled_ns(history: History, *, since_ns: int, before_ns: int | None) -> int | None:
    """Give when Ray's controller last went over to scheduling in a stretch, None if never."""
    found = (
        history.time_ns(number)
        for number, seen in history.of(ControllerState)
        if seen.state == "SCHEDULING"
    )
    within = [ns for ns in found if ns >= since_ns and (before_ns is None or ns <= before_ns)]
    return max(within, default=None)


def launched_ns(history: History, attempt: Attempt, *, before_ns: int) -> int | None:
    """Give when an attempt's train functions began: the controller says RUNNING, all are ready."""
    opened = -1 if attempt.opened is None else attempt.opened
    states = (
        history.time_ns(number)
        for number, seen in history.of(ControllerState)
        if seen.state == "RUNNING" and number > opened
    )
    running_ns = next((ns for ns in states if ns <= before_ns), None)
    ready = [history.time_ns(start.number) for start in attempt.starts.values()]
    known = [ns for ns in (running_ns, *ready) if ns is not None]
    return max(known, default=None)
