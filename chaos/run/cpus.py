"""The number of CPUs that this process may use, on the machine or in its container."""

import math
import os
from pathlib import Path

from chaos.run.free_memory import CGROUP


def usable_cpus(cgroup: Path = CGROUP) -> int:
    """Return the number of CPUs, at most those pinned and those of the quota (cgroup v2)."""
    pinned = len(os.sched_getaffinity(0))
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
        return max(1, min(pinned, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # no cgroup v2 here, or "max": no limit
        return pinned
