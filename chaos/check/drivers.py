"""Two drivers of one run: which of them leads it, and which events of the other are no part of it.

A script that is started twice is right if one of its drivers writes alone: the second ends at a
lock, or the first gives way. What the other one does then (it raises, or opens worker groups that
write nothing) is its own way out, and no course of the run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from chaos.model.event import (
    Committed,
    ControllerState,
    DriverExited,
    FailureDecided,
    FaultInvoked,
    FileLoaded,
    FileRenamed,
    FileSaveBegun,
    JournalOpened,
    ReportBegun,
    WorkerGroupStarted,
)
from chaos.model.history import Entry, History
from chaos.model.plan import Plan


@dataclass(frozen=True, slots=True)
class Write:
    """A checkpoint, or a file of the job's own that both drivers know; the event it began with."""

    begun: int
    attempt: int
    what: str


@dataclass(frozen=True)
class TwoDrivers:
    """The drivers of a run since a fault started the second one.

    `second` are the attempts of the second driver. `hidden`: the numbers of the events of the
    driver that does not lead, which is the one that wrote last.
    """

    second: frozenset[int]
    writes: tuple[Write, ...]
    hidden: frozenset[int]

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
    opened = {e.attempt: n for n, e in history.of(WorkerGroupStarted)}
    second = frozenset(
        a for a, n in opened.items() if journals.get(history[n].source) == ("controller", True)
    )
    writes = tuple(sorted(_writes(history, second), key=lambda write: write.begun))
    leads = bool(writes) and writes[-1].attempt in second  # the second one does
    wrote = {write.attempt for write in writes}
    idle = {a for a, n in opened.items() if (a in second) != leads and n > since and a not in wrote}
    other = _Other(journals, is_second=not leads, second=second, idle=frozenset(idle))
    hidden = (n for n, entry in enumerate(history) if n > since and other.has(entry))
    return TwoDrivers(second, writes, frozenset(hidden))


@dataclass(frozen=True)
class _Other:
    """The driver that does not lead, by the journals of both; `idle`: its attempts without part."""

    journals: Mapping[str, tuple[str, bool]]
    is_second: bool
    second: frozenset[int]
    idle: frozenset[int]

    def has(self, entry: Entry) -> bool:
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
                is_idle = getattr(entry.what, "attempt", None) in self.idle
                return is_idle or journal == ("driver", self.is_second)


def _writes(history: History, second: frozenset[int]) -> Iterator[Write]:
    begun: dict[tuple[int, int], int] = {}
    for number, report in history.of(ReportBegun):
        begun.setdefault((report.attempt, report.epoch), number)
    for number, done in history.of(Committed):
        if done.checkpoint is not None:
            at = begun.get((done.attempt, done.epoch), number)
            yield Write(at, done.attempt, f"the checkpoint {done.checkpoint}")
    known: tuple[set[str], set[str]] = set(), set()
    files = [(n, e.attempt, e.path) for n, e in history.of(FileSaveBegun)]
    files += [(n, e.attempt, e.to) for n, e in history.of(FileRenamed)]
    for _, attempt, path in (*files, *((0, e.attempt, e.path) for _, e in history.of(FileLoaded))):
        known[attempt in second].add(path)
    for number, attempt, path in files:
        if path in known[0] and path in known[1]:
            yield Write(number, attempt, path)
