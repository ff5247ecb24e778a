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

from chaos.guard.folder import Folder
from chaos.guard.process import Command
from chaos.guard.records import Start, Startup
from chaos.model.paths import is_below
from chaos.words import plural

TOGETHER_S = 60.0  # between the ranks of one start
CLOCK_S = 1.0  # between the clock of a record and the kernel's, by which processes begin


class OwnStartup:
    """The record of this process, from its first look at a save until its first step."""

    def __init__(
        self, folder: Folder, command: Command, seat: Callable[[], tuple[int, int]]
    ) -> None:
        self._folder, self._command, self._seat = folder, command, seat
        self._saved: frozenset[str] | None = None  # paths of saves; empty if it is no such start
        self.record: Startup | None = None

    def begins_to_read(self, path: Path, began_s: float) -> None:
        """Remember a file of a save that the process begins to read."""
        if self._saved is None:
            self._saved = self._paths_of_saves()
        own = os.path.abspath(path)  # noqa: PTH100 - links stay links
        if not any(own == saved or is_below(own, saved) for saved in self._saved):
            return
        known = self.record or self._begun(began_s)
        if own not in known.files:
            self.record = msgspec.structs.replace(known, files=(*known.files, own))
            self._folder.keep_startup(self.record)

    def ended(self, began_s: float) -> Startup | None:
        """Write that the process ended without a step; return its record, None if it is no start.

        A process that read nothing counts only if an exception ended it.
        """
        # Python sets it to the exception that ends a process (3.11, `sys.last_value`).
        error = getattr(sys, "last_value", None)
        if self.record is None and (error is None or not self._is_restart()):
            return None
        name = "" if error is None else type(error).__name__
        known = self.record or self._begun(began_s)
        self.record = msgspec.structs.replace(known, is_over=True, error=name)
        self._folder.keep_startup(self.record)
        return self.record

    def made_a_step(self) -> None:
        if self.record is not None:
            self._folder.remove_startup(self.record)
            self.record = None

    def _is_restart(self) -> bool:
        job = self._command.words, self._command.run
        return any(start.job == job for start in self._folder.starts())

    def _paths_of_saves(self) -> frozenset[str]:
        if not self._is_restart():
            return frozenset()
        return frozenset(path for save in self._folder.saves() for path in save.files)

    def _begun(self, began_s: float) -> Startup:
        rank, _ = self._seat()
        return Startup(rank=rank, began_s=began_s, host=socket.gethostname(), pid=os.getpid())


def ended_startups(folder: Folder, starts: Sequence[Start]) -> list[Startup]:
    """Return the starts that ended before a step: none of those that may still make one."""
    startups = folder.startups()
    every: list[Startup | Start] = [*startups, *starts]

    def is_followed(one: Startup) -> bool:
        return any(o.rank == one.rank and o.began_s > one.began_s for o in every)

    return [one for one in startups if one.is_over or is_followed(one) or _has_gone(one)]


def _has_gone(one: Startup) -> bool:
    if one.host != socket.gethostname():
        return False  # nothing shows it
    # A report without such a record waits for no import of psutil.
    from chaos.processes.tree import is_running

    return not is_running(one.pid, begun_by=one.began_s + CLOCK_S)


def is_failing(startups: Sequence[Startup], starts: Sequence[Start]) -> bool:
    """Return whether the training failed to start, and no later start has made a step."""
    failed = [one.began_s for one in startups if one.error or not one.is_over]
    return bool(failed) and max(failed) > max((start.began_s for start in starts), default=0.0)


def count_startups(startups: Sequence[Startup]) -> int:
    """Return how many starts these are: each may have a record for each of its ranks."""
    return max(Counter(one.rank for one in startups).values(), default=0)


def describe_startup(one: Startup) -> str:
    """Return how a start ended, in words that follow `ended`."""
    text = "before a step"
    if one.files:
        text += f", after reading {Path(one.files[-1]).name}"
    if one.error:
        return f"{text} ({one.error})"
    return f"{text}, without an exception" if one.is_over else text


def describe_startups(startups: Sequence[Startup]) -> list[str]:
    """Return how many starts ended before a step, a line for each way in which they did.

    A start of several ranks has a record for each. Ranks that were ended since another one failed
    add nothing.
    """
    failed = [one for one in startups if one.error]

    def is_ended_by_another(one: Startup) -> bool:
        return not one.is_over and any(
            other.rank != one.rank and abs(other.began_s - one.began_s) < TOGETHER_S
            for other in failed
        )

    counts = defaultdict[str, Counter[int]](Counter)
    for one in startups:
        if is_ended_by_another(one):
            continue
        counts[describe_startup(one)][one.rank] += 1
    return [
        f"{plural(max(of_ranks.values()), 'start')} ended {text}"
        for text, of_ranks in counts.items()
    ]
