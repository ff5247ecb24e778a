"""The free memory of the machine, or of the container around this process."""

from pathlib import Path

import psutil

CGROUP = Path("/sys/fs/cgroup")


def free_bytes(cgroup: Path = CGROUP) -> int:
    """Return the free bytes; a container's file cache counts as free (cgroup v2)."""
    machine = int(psutil.virtual_memory().available)
    try:
        limit = int((cgroup / "memory.max").read_text())
        used = int((cgroup / "memory.current").read_text()) - reclaimable(cgroup)
    except (OSError, ValueError):  # no cgroup v2 here, or "max": no limit
        return machine
    return max(0, min(machine, limit - used))


def reclaimable(cgroup: Path) -> int:
    """Return the bytes of file cache that the kernel would give up first."""
    lines = (cgroup / "memory.stat").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("inactive_file "))
