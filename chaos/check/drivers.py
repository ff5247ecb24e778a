"""Two drivers of one run: which of them leads it, and which events of the other are no part of it.

A script that is started twice is right if one of its drivers writes alone: the second ends at a
lock, or the first gives way. What the other one does then (it raises, or opens worker groups that
write nothing) is its own way out, and no course of the run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from chaos.model.event import (
    Committed,
    ControllerState,
    DriverExited,
    FailureDecided,
    FaultInvoked,
    FileLoaded,
    FileRenamed,
    FileSaveBegun,
    FileSaved,
    FitReturned,
    JournalOpened,
    ReportBegun,
    UploadBegun,
    WorkerGroupStarted,
)
from chaos.model.history import Entry, History
from chaos.model.plan import Plan

CHAOS = "chaos"  # the journal of the chaos controller


@dataclass(frozen=True, slots=True)
class Write:
    """A checkpoint, or a file of the job's own that both drivers know; its first and last event."""

    begun: int
    done: int
    attempt: int
    what: str


@dataclass(frozen=True)
class TwoDrivers:
    """The drivers of a run since a fault started the second one.

    The one that wrote last leads, or a second one that wrote nothing if its `fit()` alone returned.
    """

    #: the attempts of the second driver
    second: frozenset[int]
    writes: tuple[Write, ...]
    #: the numbers of the events of the driver that does not lead
    hidden: frozenset[int]
    #: the number of the leading driver's start, from 0
    leads: int
    #: the second driver recorded something
    has_begun: bool

    def are_apart(self, one: int, other: int) -> bool:
        """Return whether two attempts are of different drivers."""
        return (one in self.second) != (other in self.second)


def two_drivers(plan: Plan, history: History) -> TwoDrivers | None:
    """Return the drivers of a run that had a second one; None if it had none."""
    starters = {op.index for op in plan.ops if op.fault.starts_driver}
    history = History(history.entries)  # with all events: some may be hidden already
    since = next((n for n, e in history.of(FaultInvoked) if e.op in starters), None)
    if since is None:
        return None
    journals = {
        history[n].source: (e.role, n > since)
        for n, e in history.of(JournalOpened)
        if e.role in ("driver", "controller")
    }
    groups = {e.attempt: n for n, e in history.of(WorkerGroupStarted)}
    second = frozenset(
        a for a, n in groups.items() if journals.get(history[n].source) == ("controller", True)
    )
    writes = tuple(sorted(_writes(history, second), key=lambda write: write.begun))
    leads = _second_leads(history, journals, writes, second)
    last: dict[int, int] = {}
    for write in writes:
        last[write.attempt] = max(last.get(write.attempt, since), write.done)
    others = {a: n for a, n in groups.items() if (a in second) != leads}
    other = _Other(
        journals,
        is_second=not leads,
        second=second,
        idle=frozenset(a for a, n in others.items() if n > since and a not in last),
        last={a: last.get(a, since) for a in others},
    )
    hidden = (n for n, entry in enumerate(history) if n > since and other.has(n, entry))
    has_begun = ("driver", True) in journals.values()
    return TwoDrivers(second, writes, frozenset(hidden), leads=int(leads), has_begun=has_begun)


def _second_leads(
    history: History,
    journals: Mapping[str, tuple[str, bool]],
    writes: Sequence[Write],
    second: frozenset[int],
) -> bool:
    if any(write.attempt in second for write in writes):
        return writes[-1].attempt in second
    # A job may make no checkpoint at all, or none after the one that the second began with.
    return {journals.get(history[n].source) for n, _ in history.of(FitReturned)} == {
        ("driver", True)
    }


@dataclass(frozen=True)
class _Other:
    """The driver that does not lead, by the journals of both."""

    journals: Mapping[str, tuple[str, bool]]
    is_second: bool
    second: frozenset[int]
    #: its attempts without part
    idle: frozenset[int]
    #: the last event of each of its attempts that has one
    last: Mapping[int, int]

    def has(self, number: int, entry: Entry) -> bool:
        """Return whether an event is of its own way out."""
        journal = self.journals.get(entry.source)
        match entry.what:
            case JournalOpened():
                return False
            case DriverExited(start=start):
                return (start > 0) == self.is_second
            case FailureDecided(attempt=n) if journal == ("controller", True):
                # Of a group that waits for nodes and never comes up, the attempt is the first's.
                return self.is_second or n not in self.second
            case ControllerState() | FailureDecided() if journal == ("controller", self.is_second):
                return True
            case _:
                attempt: int = getattr(entry.what, "attempt", -1)
                if attempt in self.idle or journal == ("driver", self.is_second):
                    return True
                # Events of chaos on an attempt with a part stay, such as the end of a hold.
                return number > self.last.get(attempt, number) and entry.source != CHAOS


def _writes(history: History, second: frozenset[int]) -> Iterator[Write]:
    # A rank without a part of the checkpoint may enter `report()` long before the one that saves.
    saving = {(e.attempt, e.epoch, e.rank) for _, e in history.of(UploadBegun)}
    uploaded = {(attempt, epoch) for attempt, epoch, _ in saving}
    begun: dict[tuple[int, int], int] = {}
    for number, report in history.of(ReportBegun):
        place = (report.attempt, report.epoch)
        if place not in uploaded or (*place, report.rank) in saving:
            begun.setdefault(place, number)
    for number, done in history.of(Committed):
        if done.checkpoint is not None:
            at = begun.get((done.attempt, done.epoch), number)
            yield Write(at, number, done.attempt, f"the checkpoint {done.checkpoint}")
    yield from _shared_files(history, second)


def _shared_files(history: History, second: frozenset[int]) -> Iterator[Write]:
    saves: dict[tuple[int, str], int] = {}
    files: list[Write] = []
    for number in history.numbers_of(FileSaveBegun, FileRenamed):
        match history[number].what:
            case FileSaveBegun(attempt=attempt, path=path):
                saves[attempt, path] = number
                files.append(Write(number, number, attempt, path))
            case FileRenamed(attempt=attempt, path=path, to=to):  # it ends the save that it moves
                files.append(Write(saves.get((attempt, path), number), number, attempt, to))
            case _:
                pass
    known: tuple[set[str], set[str]] = set(), set()
    seen = [(write.attempt, write.what) for write in files]
    for attempt, path in (*seen, *((e.attempt, e.path) for _, e in history.of(FileLoaded))):
        known[attempt in second].add(path)
    ends = {(e.attempt, e.path): n for n, e in history.of(FileSaved)}  # the last of each
    for write in files:
        if write.what in known[0] and write.what in known[1]:
            yield replace(write, done=max(write.done, ends.get((write.attempt, write.what), 0)))
