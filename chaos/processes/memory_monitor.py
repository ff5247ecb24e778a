"""The end of one process when memory runs out: the largest of all runs of this harness.

When more than `RAY_memory_usage_threshold` of a node's memory is in use (0.95, Ray 2.60),
Ray's memory monitor ends a worker of it. Here runs take place side by side and
share the machine's memory: each run looks at all of them, and ends only its own processes.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from chaos.model.event import MemoryExhausted
from chaos.processes.tree import kill
from chaos.run.journal import Journal
from chaos.run.machine import CGROUP, container_memory

END_S = 5.0
THRESHOLD_ENV = "RAY_memory_usage_threshold"


class MemoryMonitor:
    """The memory monitor of one run; all of this process share one registry of runs."""

    _monitors: list["MemoryMonitor"] = []  # noqa: RUF012 - of this process
    _lock = threading.Lock()

    def __init__(self) -> None:
        self._limit = float(os.environ.get(THRESHOLD_ENV, "0.95"))

    @contextmanager
    def watch_processes(
        self,
        processes: Callable[[], Sequence[psutil.Process]],
        driver: Callable[[], int | None],
    ) -> Iterator[None]:
        """Register a run's processes, for all runs to look at, while the context lasts."""
        self._processes, self._driver = processes, driver
        with self._lock:
            self._monitors.append(self)
        try:
            yield
        finally:
            with self._lock:
                self._monitors.remove(self)

    def is_memory_low(self) -> bool:
        return measure_used_share() >= self._limit

    def kill_largest(self, ranks: Mapping[int, int], journal: Journal) -> None:
        """End the largest process of all runs if it is of this one; `ranks` are by pid.

        One run at a time does so: before the next looks, the ended process has freed its memory.
        """
        # Runs go side by side, and the machine has one memory. Asked again under the lock, since
        # another run may have ended a process meanwhile. The largest of all runs goes,
        # and its own run records it: to the others it is no event.
        with self._lock:
            if not self.is_memory_low():
                return
            own_pids = {process.pid for process in self.find_candidates()}
            all_candidates = [p for run in self._monitors for p in run.find_candidates()]
            largest_process = find_largest(all_candidates)
            if largest_process is None or largest_process.pid not in own_pids:
                return  # the run that it belongs to ends it, when it looks next
            event = MemoryExhausted(
                pid=largest_process.pid,
                rank=_find_rank(largest_process, ranks),
                share=measure_used_share(),
            )
            journal.add(event)
            kill(largest_process)
            psutil.wait_procs([largest_process], timeout=END_S)

    def find_candidates(self) -> list[psutil.Process]:
        """Return the processes that may be ended: not the driver, which Ray does not end either."""
        driver = self._driver()
        return [process for process in self._processes() if process.pid != driver]


def _find_rank(process: psutil.Process, ranks: Mapping[int, int]) -> int | None:
    """Return the rank of a process or of one above it: a DataLoader's worker is a rank's child."""
    try:
        ancestry = [process, *process.parents()]
    except psutil.NoSuchProcess:
        ancestry = [process]
    return next((ranks[relative.pid] for relative in ancestry if relative.pid in ranks), None)


def measure_used_share(cgroup: Path = CGROUP) -> float:
    """Return the share of memory in use, of the machine or of the container (cgroup v2)."""
    machine = psutil.virtual_memory()
    share = 1 - machine.available / machine.total
    container = container_memory(cgroup)
    return share if container is None else max(share, container.used / container.limit)


def find_largest(processes: Sequence[psutil.Process]) -> psutil.Process | None:
    """Return the process with the most memory of its own."""
    sizes = [(_measure_size(process), process) for process in processes]
    return max(sizes, key=lambda pair: pair[0])[1] if sizes else None


def _measure_size(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().uss)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return 0
