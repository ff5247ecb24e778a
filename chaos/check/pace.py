"""The signs of life of a run: when it last got on with anything, and how long it stood still."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaos.check.attempt import Attempt
from chaos.model.event import (
    AnyEvent,
    Committed,
    Event,
    FileSaved,
    GateReached,
    GateReleased,
    ReportBegun,
    ReportReturned,
    StepDone,
    UploadEnded,
    WorkerGroupStarted,
    WorkerStarted,
)
from chaos.model.history import History

_SIGNS: tuple[type[Event], ...] = (
    StepDone,
    ReportBegun,
    ReportReturned,
    UploadEnded,
    FileSaved,
    Committed,
    GateReached,
    GateReleased,
)


@dataclass(frozen=True, slots=True)
class Pause:
    """The time between two signs of life of one attempt, by their numbers."""

    since: int
    until: int
    ns: int

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return self.ns / 1e9


def pauses(history: History, attempts: Sequence[Attempt], *, over_ns: int) -> Iterator[Pause]:
    """Give the pauses within attempts that are longer than `over_ns`.

    From an attempt's first step on: what comes before is its start. While a
    rank is held by us nobody is late.
    """
    held: set[int] = set()
    last: tuple[int, int, int] | None = None  # attempt, number, time
    first = {step.attempt: step.number for a in attempts for step in a.steps[:1]}
    for number in history.numbers_of(*_SIGNS):
        entry = history.entries[number]
        what = entry.what
        is_new = last is None or getattr(what, "attempt", last[0]) != last[0]
        if not is_new and last is not None and not held and entry.time_ns - last[2] > over_ns:
            yield Pause(last[1], number, entry.time_ns - last[2])
        if isinstance(what, GateReached):
            held.add(what.op)
        elif isinstance(what, GateReleased):
            held.discard(what.op)
        attempt = getattr(what, "attempt", -1)
        if number >= first.get(attempt, len(history)):
            last = attempt, number, entry.time_ns
            if isinstance(what, StepDone) and number == first[attempt]:
                held.clear()


def last_sign(history: History, before: int) -> tuple[int, str] | None:
    """Give the last sign of life before an event, with its number; a start counts as one."""
    for number in range(before - 1, -1, -1):
        words = sign(history.entries[number].what)
        if words is not None:
            return number, words
    return None


def sign(what: AnyEvent) -> str | None:
    """Say what an event shows to have been done, None where it shows nothing of the kind."""
    words = None
    match what:
        case StepDone():
            words = f"rank {what.rank}'s step {what.step} of epoch {what.epoch}"
        case Committed():
            words = f"the commit of epoch {what.epoch}"
        case ReportReturned():
            words = f"rank {what.rank}'s report of epoch {what.epoch}"
        case UploadEnded():
            words = f"rank {what.rank}'s upload of epoch {what.epoch}"
        case WorkerStarted():
            words = f"the start of rank {what.rank} in attempt {what.attempt}"
        case WorkerGroupStarted():
            words = f"the start of attempt {what.attempt}"
        case _:
            pass
    return words
