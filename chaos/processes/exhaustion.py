"""The end of one process when memory runs out: the largest of all runs of this harness.

When more than `RAY_memory_usage_threshold` of a node's memory is in use (0.95, Ray 2.60),
Ray's memory monitor ends a worker of it. Here runs take place side by side and
share the machine's memory: each run looks at all of them, and ends only its own processes.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from chaos.model.event import MemoryExhausted
from chaos.processes.tree import kill
from chaos.run.journal import Journal
from chaos.run.machine import CGROUP, reclaimable

END_S = 5.0
THRESHOLD_ENV = "RAY_memory_usage_threshold"


@dataclass(frozen=True)
class Inhabitants:
    """The processes of a run at this moment, and the pid of its driver."""

    processes: Callable[[], Sequence[psutil.Process]]
    driver: Callable[[], int | None]

    def candidates(self) -> list[psutil.Process]:
        """Return the processes that may be ended: not the driver, which Ray does not end either."""
        driver = self.driver()
        return [process for process in self.processes() if process.pid != driver]


class Exhaustion:
    """The memory monitor of one run; all of this process share one registry of runs."""

    _all: dict[int, Inhabitants] = {}  # noqa: RUF012 - of this process, by the run's object
    _turn = threading.Lock()

    def __init__(self) -> None:
        self._limit = threshold()

    @contextmanager
    def watching(
        self,
        processes: Callable[[], Sequence[psutil.Process]],
        driver: Callable[[], int | None],
    ) -> Iterator[None]:
        """Register a run's processes, for all runs to look at, while the context lasts."""
        with self._turn:
            self._all[id(self)] = Inhabitants(processes, driver)
        try:
            yield
        finally:
            with self._turn:
                del self._all[id(self)]

    def is_near(self) -> bool:
        """Return whether so much memory is in use that a process has to end."""
        return used_share() >= self._limit

    def end_the_largest(self, ranks: Mapping[int, int], journal: Journal) -> None:
        """End the largest process of all runs if it is of this one; `ranks` are by pid.

        One run at a time does so: before the next looks, the ended process has freed its memory.
        """
        # Runs go side by side, and the machine has one memory. Asked again under the lock, since
        # another run may have ended a process meanwhile. The largest of all runs goes,
        # and its own run records it: to the others it is no event.
        with self._turn:
            if not self.is_near():
                return
            ours = {process.pid for process in self._all[id(self)].candidates()}
            everyone = [p for run in self._all.values() for p in run.candidates()]
            most = largest(everyone)
            if most is None or most.pid not in ours:
                return  # the run that it belongs to ends it, when it looks next
            event = MemoryExhausted(pid=most.pid, rank=_rank_of(most, ranks), share=used_share())
            journal.add(event)
            kill(most)
            psutil.wait_procs([most], timeout=END_S)


def _rank_of(process: psutil.Process, ranks: Mapping[int, int]) -> int | None:
    """Return the rank of a process or of one above it: a DataLoader's worker is a rank's child."""
    try:
        family = [process, *process.parents()]
    except psutil.NoSuchProcess:
        family = [process]
    return next((ranks[one.pid] for one in family if one.pid in ranks), None)


def threshold() -> float:
    """Return the share of memory in use at which a worker is ended."""
    return float(os.environ.get(THRESHOLD_ENV, "0.95"))


def used_share(cgroup: Path = CGROUP) -> float:
    """Return the share of memory in use, of the machine or of the container (cgroup v2)."""
    machine = psutil.virtual_memory()
    share = 1 - machine.available / machine.total
    try:
        limit = int((cgroup / "memory.max").read_text())
        used = int((cgroup / "memory.current").read_text()) - reclaimable(cgroup)
    except (OSError, ValueError):  # no cgroup v2 here, or "max": no limit
        return share
    return max(share, used / limit)


def largest(processes: Sequence[psutil.Process]) -> psutil.Process | None:
    """Return the process with the most memory of its own."""
    sizes = [(_size(process), process) for process in processes]
    return max(sizes, key=lambda pair: pair[0])[1] if sizes else None


def _size(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().uss)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return 0
