"""The signs of life of a run: when it last got on with anything, and how long it stood still."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from chaos.check.attempt import Attempt
from chaos.model.event import (
    AnyEvent,
    Committed,
    Event,
    FileSaved,
    FitCalled,
    FitRaised,
    FitReturned,
    GateReached,
    GateReleased,
    ReportBegun,
    ReportReturned,
    StepDone,
    TrainFnEnded,
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
    TrainFnEnded,
    FitReturned,
    FitRaised,
)
_END = (TrainFnEnded, FitReturned, FitRaised)

# Between two steps of an epoch; around its reports, evaluations and saves; after the last of them.
Where: TypeAlias = Literal["within an epoch", "between epochs", "at the end"]


@dataclass(frozen=True, slots=True)
class Pause:
    """The time between two signs of life of one attempt, by their numbers."""

    since: int
    until: int
    ns: int
    attempt: int
    where: Where

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return self.ns / 1e9


def pauses(history: History, attempts: Sequence[Attempt], *, over_ns: int) -> Iterator[Pause]:
    """Give the pauses within attempts that are longer than `over_ns`.

    From an attempt's first step on, up to the end of `fit()`: what comes
    before is its start. While a rank is held by us nobody is late.
    """
    entries = history.entries
    numbers = history.numbers_of(*_SIGNS)
    times = [entries[number].time_ns for number in numbers]
    first = {a.index: a.steps[0].number for a in attempts if a.steps}
    holds = list(_holds(history, first.values()))
    for at, (since_ns, until_ns) in enumerate(pairwise(times)):
        if until_ns - since_ns <= over_ns:
            continue
        since, until = numbers[at], numbers[at + 1]
        attempt = getattr(entries[since].what, "attempt", -1)
        is_one = getattr(entries[until].what, "attempt", attempt) == attempt
        is_held = any(begin <= since < end for begin, end in holds)
        if is_one and not is_held and since >= first.get(attempt, len(history)):
            where = _where(entries[since].what, entries[until].what)
            yield Pause(since, until, until_ns - since_ns, attempt, where)


def _where(since: AnyEvent, until: AnyEvent) -> Where:
    if isinstance(until, _END):
        return "at the end"
    steps = isinstance(since, StepDone) and isinstance(until, StepDone)
    is_one = steps and getattr(since, "epoch", None) == getattr(until, "epoch", None)
    return "within an epoch" if is_one else "between epochs"


def start_s(history: History, attempts: Sequence[Attempt]) -> float | None:
    """Give how long a run took from `fit()`, or its first worker group, to its first step."""
    first = next((a for a in attempts if a.steps), None)
    if first is None:
        return None
    called = next((number for number, _ in history.of(FitCalled)), first.opened)
    if called is None:
        return None
    return (history.time_ns(first.steps[0].number) - history.time_ns(called)) / 1e9


def _holds(history: History, firsts: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Give from where to where each rank was held: until the next attempt at the latest."""
    released = {gate.op: number for number, gate in history.of(GateReleased)}
    for number, gate in history.of(GateReached):
        over = min((first for first in firsts if first > number), default=len(history))
        yield number, min(released.get(gate.op, over), over)


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
