"""The share of memory in use, and the largest process: as for Ray's memory monitor.

When more than `RAY_memory_usage_threshold` of a node's memory is in use (0.95,
Ray 2.60), Ray's monitor kills a worker. The embedded backend kills the largest
process of its runs, before the kernel kills another one.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import psutil

from chaos.run.machine import CGROUP, reclaimable

THRESHOLD_ENV = "RAY_memory_usage_threshold"


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
