"""Starts that end before their first step, as in a loop of restarts that cannot read their save.

A process is known as a start of the training at its first step. Before that it is one if its
command is that of an earlier start.
"""

import os
import socket
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from chaos.extensions.guard.folder import GuardFolder
from chaos.extensions.guard.process import GuardedCommand
from chaos.extensions.guard.records import GuardedStart, Startup
from chaos.model.paths import is_in_folder
from chaos.wording import plural

TOGETHER_S = 60.0  # between the ranks of one start
CLOCK_S = 1.0  # between the clock of a record and the kernel's, by which processes begin


class StartupRecorder:
    """The record of this process, from its first look at a save until its first step."""

    def __init__(
        self, folder: GuardFolder, command: GuardedCommand, find_rank: Callable[[], tuple[int, int]]
    ) -> None:
        self._folder, self._command, self._find_rank = folder, command, find_rank
        self._saved_paths: frozenset[str] | None = (
            None  # paths of saves; empty if it is no such start
        )
        self.record: Startup | None = None

    def record_reading(self, path: Path, began_s: float) -> None:
        """Remember a file of a save that the process begins to read."""
        if self._saved_paths is None:
            self._saved_paths = self._list_saved_paths()
        full_path = os.path.abspath(path)  # noqa: PTH100 - links stay links
        if not any(
            full_path == saved_path or is_in_folder(full_path, saved_path)
            for saved_path in self._saved_paths
        ):
            return
        startup = self.record or self._build_startup(began_s)
        if full_path not in startup.files:
            self.record = msgspec.structs.replace(startup, files=(*startup.files, full_path))
            self._folder.write_startup(self.record)

    def record_end(self, began_s: float) -> Startup | None:
        """Write that the process ended without a step; return its record, None if it is no start.

        A process that read nothing counts only if an exception ended it.
        """
        # Python sets it to the exception that ends a process (3.11, `sys.last_value`).
        error = getattr(sys, "last_value", None)
        if self.record is None and (error is None or not self._is_restart()):
            return None
        name = "" if error is None else type(error).__name__
        startup = self.record or self._build_startup(began_s)
        self.record = msgspec.structs.replace(startup, is_over=True, error=name)
        self._folder.write_startup(self.record)
        return self.record

    def remove_record(self) -> None:
        if self.record is not None:
            self._folder.remove_startup(self.record)
            self.record = None

    def _is_restart(self) -> bool:
        job = self._command.words, self._command.run
        return any(start.job == job for start in self._folder.load_starts())

    def _list_saved_paths(self) -> frozenset[str]:
        if not self._is_restart():
            return frozenset()
        return frozenset(path for save in self._folder.load_saves() for path in save.files)

    def _build_startup(self, began_s: float) -> Startup:
        rank, _ = self._find_rank()
        return Startup(rank=rank, began_s=began_s, host=socket.gethostname(), pid=os.getpid())


def find_ended_startups(folder: GuardFolder, starts: Sequence[GuardedStart]) -> list[Startup]:
    """Return the starts that ended before a step: none of those that may still make one."""
    startups = folder.load_startups()
    all_records: list[Startup | GuardedStart] = [*startups, *starts]

    def is_followed(startup: Startup) -> bool:
        return any(
            record.rank == startup.rank and record.began_s > startup.began_s
            for record in all_records
        )

    return [
        startup
        for startup in startups
        if startup.is_over or is_followed(startup) or _has_vanished(startup)
    ]


def _has_vanished(startup: Startup) -> bool:
    if startup.host != socket.gethostname():
        return False  # nothing shows it
    # A report without such a record waits for no import of psutil.
    from chaos.processes.tree import is_running

    return not is_running(startup.pid, latest_start=startup.began_s + CLOCK_S)


def is_failing(startups: Sequence[Startup], starts: Sequence[GuardedStart]) -> bool:
    """Return whether the training failed to start, and no later start has made a step."""
    failure_times = [
        startup.began_s for startup in startups if startup.error or not startup.is_over
    ]
    return bool(failure_times) and max(failure_times) > max(
        (start.began_s for start in starts), default=0.0
    )


def count_startups(startups: Sequence[Startup]) -> int:
    """Return how many starts these are: each may have a record for each of its ranks."""
    return max(Counter(startup.rank for startup in startups).values(), default=0)


def describe_startup(startup: Startup) -> str:
    """Return how a start ended, in words that follow `ended`."""
    text = "before a step"
    if startup.files:
        text += f", after reading {Path(startup.files[-1]).name}"
    if startup.error:
        return f"{text} ({startup.error})"
    return f"{text}, without an exception" if startup.is_over else text


def describe_startups(startups: Sequence[Startup]) -> list[str]:
    """Return how many starts ended before a step, a line for each way in which they did.

    A start of several ranks has a record for each. Ranks that were ended since another one failed
    add nothing.
    """
    failed_startups = [startup for startup in startups if startup.error]

    def is_ended_by_another(startup: Startup) -> bool:
        return not startup.is_over and any(
            failed_startup.rank != startup.rank
            and abs(failed_startup.began_s - startup.began_s) < TOGETHER_S
            for failed_startup in failed_startups
        )

    counts = defaultdict[str, Counter[int]](Counter)
    for startup in startups:
        if is_ended_by_another(startup):
            continue
        counts[describe_startup(startup)][startup.rank] += 1
    return [
        f"{plural(max(rank_counts.values()), 'start')} ended {text}"
        for text, rank_counts in counts.items()
    ]
