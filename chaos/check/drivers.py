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
from chaos.model.history import History, JournalEntry
from chaos.model.plan import Plan

CHAOS = "chaos"  # the journal of the chaos controller


@dataclass(frozen=True, slots=True)
class DriverWrite:
    """A checkpoint, or a file of the job's own that both drivers know; its first and last event."""

    begin_number: int
    end_number: int
    attempt: int
    target: str


@dataclass(frozen=True)
class ConcurrentDrivers:
    """The drivers of a run since a fault started the second one.

    The one that wrote last leads, or a second one that wrote nothing if its `fit()` alone returned.
    """

    #: the attempts of the second driver
    second_attempts: frozenset[int]
    writes: tuple[DriverWrite, ...]
    #: the numbers of the events of the driver that does not lead
    hidden_events: frozenset[int]
    #: the number of the leading driver's start, from 0
    leading_start: int
    #: the second driver recorded something
    has_second_events: bool

    def has_different_drivers(self, first_attempt: int, second_attempt: int) -> bool:
        """Return whether two attempts are of different drivers."""
        return (first_attempt in self.second_attempts) != (second_attempt in self.second_attempts)


def find_driver_pair(plan: Plan, history: History) -> ConcurrentDrivers | None:
    """Return the drivers of a run that had a second one; None if it had none."""
    starting_ops = {op.index for op in plan.ops if op.fault.starts_driver}
    history = History(history.entries)  # with all events: some may be hidden already
    start_number = next(
        (n for n, event in history.select_events(FaultInvoked) if event.op in starting_ops), None
    )
    if start_number is None:
        return None
    journals = {
        history[n].source: (event.role, n > start_number)
        for n, event in history.select_events(JournalOpened)
        if event.role in ("driver", "controller")
    }
    group_numbers = {event.attempt: n for n, event in history.select_events(WorkerGroupStarted)}
    second_attempts = frozenset(
        attempt
        for attempt, n in group_numbers.items()
        if journals.get(history[n].source) == ("controller", True)
    )
    writes = tuple(
        sorted(_find_writes(history, second_attempts), key=lambda write: write.begin_number)
    )
    is_second_leading = _has_leading_second(history, journals, writes, second_attempts)
    final_writes: dict[int, int] = {}
    for write in writes:
        final_writes[write.attempt] = max(
            final_writes.get(write.attempt, start_number), write.end_number
        )
    trailing_attempts = {
        attempt: n
        for attempt, n in group_numbers.items()
        if (attempt in second_attempts) != is_second_leading
    }
    trailing_driver = _TrailingDriver(
        journals,
        is_second=not is_second_leading,
        second_attempts=second_attempts,
        idle_attempts=frozenset(
            attempt
            for attempt, n in trailing_attempts.items()
            if n > start_number and attempt not in final_writes
        ),
        final_events={
            attempt: final_writes.get(attempt, start_number) for attempt in trailing_attempts
        },
    )
    hidden_events = (
        n
        for n, entry in enumerate(history)
        if n > start_number and trailing_driver.has_event(n, entry)
    )
    has_second_events = ("driver", True) in journals.values()
    return ConcurrentDrivers(
        second_attempts,
        writes,
        frozenset(hidden_events),
        leading_start=int(is_second_leading),
        has_second_events=has_second_events,
    )


def _has_leading_second(
    history: History,
    journals: Mapping[str, tuple[str, bool]],
    writes: Sequence[DriverWrite],
    second_attempts: frozenset[int],
) -> bool:
    if any(write.attempt in second_attempts for write in writes):
        return writes[-1].attempt in second_attempts
    # A job may make no checkpoint at all, or none after the one that the second began with.
    return {journals.get(history[n].source) for n, _ in history.select_events(FitReturned)} == {
        ("driver", True)
    }


@dataclass(frozen=True)
class _TrailingDriver:
    """The driver that does not lead, by the journals of both."""

    journals: Mapping[str, tuple[str, bool]]
    is_second: bool
    second_attempts: frozenset[int]
    #: its attempts without part
    idle_attempts: frozenset[int]
    #: the last event of each of its attempts that has one
    final_events: Mapping[int, int]

    def has_event(self, number: int, entry: JournalEntry) -> bool:
        """Return whether an event is of its own way out."""
        journal = self.journals.get(entry.source)
        match entry.event:
            case JournalOpened():
                return False
            case DriverExited(start=start):
                return (start > 0) == self.is_second
            case FailureDecided(attempt=n) if journal == ("controller", True):
                # Of a group that waits for nodes and never comes up, the attempt is the first's.
                return self.is_second or n not in self.second_attempts
            case ControllerState() | FailureDecided() if journal == ("controller", self.is_second):
                return True
            case _:
                attempt: int = getattr(entry.event, "attempt", -1)
                if attempt in self.idle_attempts or journal == ("driver", self.is_second):
                    return True
                # Events of chaos on an attempt with a part stay, such as the end of a hold.
                return number > self.final_events.get(attempt, number) and entry.source != CHAOS


def _find_writes(history: History, second_attempts: frozenset[int]) -> Iterator[DriverWrite]:
    # A rank without a part of the checkpoint may enter `report()` long before the one that saves.
    upload_ranks = {
        (event.attempt, event.epoch, event.rank) for _, event in history.select_events(UploadBegun)
    }
    upload_epochs = {(attempt, epoch) for attempt, epoch, _ in upload_ranks}
    report_numbers: dict[tuple[int, int], int] = {}
    for number, report in history.select_events(ReportBegun):
        attempt_epoch = (report.attempt, report.epoch)
        if attempt_epoch not in upload_epochs or (*attempt_epoch, report.rank) in upload_ranks:
            report_numbers.setdefault(attempt_epoch, number)
    for number, commit in history.select_events(Committed):
        if commit.checkpoint is not None:
            begin_number = report_numbers.get((commit.attempt, commit.epoch), number)
            yield DriverWrite(
                begin_number, number, commit.attempt, f"the checkpoint {commit.checkpoint}"
            )
    yield from _find_shared_files(history, second_attempts)


def _find_shared_files(history: History, second_attempts: frozenset[int]) -> Iterator[DriverWrite]:
    begin_numbers: dict[tuple[int, str], int] = {}
    file_writes: list[DriverWrite] = []
    for number in history.select_numbers(FileSaveBegun, FileRenamed):
        match history[number].event:
            case FileSaveBegun(attempt=attempt, path=path):
                begin_numbers[attempt, path] = number
                file_writes.append(DriverWrite(number, number, attempt, path))
            case FileRenamed(attempt=attempt, path=path, to=to):  # it ends the save that it moves
                file_writes.append(
                    DriverWrite(begin_numbers.get((attempt, path), number), number, attempt, to)
                )
            case _:
                pass
    known_paths: tuple[set[str], set[str]] = set(), set()
    written_paths = [(write.attempt, write.target) for write in file_writes]
    for attempt, path in (
        *written_paths,
        *((event.attempt, event.path) for _, event in history.select_events(FileLoaded)),
    ):
        known_paths[attempt in second_attempts].add(path)
    end_numbers = {
        (event.attempt, event.path): n for n, event in history.select_events(FileSaved)
    }  # the last of each
    for write in file_writes:
        if write.target in known_paths[0] and write.target in known_paths[1]:
            yield replace(
                write,
                end_number=max(write.end_number, end_numbers.get((write.attempt, write.target), 0)),
            )
