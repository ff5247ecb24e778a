"""The resources of this machine, or of the container, and what is installed on it."""

import importlib.util
import math
import os
import shutil
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import psutil

CGROUP = Path("/sys/fs/cgroup")


def free_bytes(cgroup: Path = CGROUP) -> int:
    """Return the free bytes; a container's file cache counts as free (cgroup v2)."""
    machine, container = int(psutil.virtual_memory().available), container_memory(cgroup)
    return machine if container is None else max(0, min(machine, container.limit - container.used))


class ContainerMemory(NamedTuple):
    """The memory of a container in bytes: what it may use, and what it does, without file cache."""

    limit: int
    used: int


def container_memory(cgroup: Path) -> ContainerMemory | None:
    """Return the memory of this container (cgroup v2); None where it has no limit."""
    try:
        limit = int((cgroup / "memory.max").read_text())
        lines = (cgroup / "memory.stat").read_text().splitlines()
        # The kernel gives these up first.
        cached = sum(int(line.split()[1]) for line in lines if line.startswith("inactive_file "))
        return ContainerMemory(limit, int((cgroup / "memory.current").read_text()) - cached)
    except (OSError, ValueError):  # no cgroup v2 here, or "max"
        return None


def find_missing_programs(names: Sequence[str]) -> tuple[str, ...]:
    """Return the programs that are not installed."""
    return tuple(name for name in names if shutil.which(name, path=build_sbin_path()) is None)


def build_sbin_path() -> str:
    """Return the PATH with the folders of daemons, which a user's own PATH may lack."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin"])


def has_ray() -> bool:
    """Return whether Ray is installed; it is not imported."""
    return importlib.util.find_spec("ray") is not None


def find_version(packages: Sequence[Sequence[str]]) -> str | None:
    """Return the version of the first package, None if any of them is missing."""
    versions = [next(filter(None, map(find_package_version, names)), None) for names in packages]
    return versions[0] if all(versions) else None


def find_package_version(package: str) -> str | None:
    """Return the version of an installed package; None without it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def usable_cpus(cgroup: Path = CGROUP) -> int:
    """Return the number of CPUs, at most those pinned and those of the quota (cgroup v2)."""
    pinned = len(os.sched_getaffinity(0))
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
        return max(1, min(pinned, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # no cgroup v2 here, or "max": no limit
        return pinned
