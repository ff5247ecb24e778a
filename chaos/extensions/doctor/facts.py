"""The facts about this machine, or the container, that a run depends on; judged elsewhere."""

import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psutil

from chaos import __version__
from chaos.installation import find_installation
from chaos.model.launcher import LAUNCHER_FACTS
from chaos.model.machine import LauncherPrograms
from chaos.run.clock import Clock
from chaos.run.machine import find_package_version, find_version

GIB = 1024**3
SHM = Path("/dev/shm")  # noqa: S108 - where Ray keeps its objects on Linux
# The packages of each extra of chaos, each by its names: the first has the version. An extra is
# installed if all its packages are.
EXTRAS: dict[str, tuple[tuple[str, ...], ...]] = {
    "search": (("hypothesis",),),
    "metrics": (("ray",), ("opencensus",)),  # of ray[default] in 2.60, which no other extra has
    "reclaim-aws": (("boto3",),),
    "reclaim-azure": (("azure-identity",), ("azure-mgmt-compute",), ("azure-mgmt-network",)),
    "reclaim-google": (("google-cloud-compute",),),
    "reclaim-kubernetes": (("kubernetes",),),
}
# Those of the jobs in `scenarios`, which only a clone has.
OF_SCENARIOS: dict[str, tuple[tuple[str, ...], ...]] = {
    "examples": (("scikit-learn",),),
    "lightgbm": (("lightgbm",), ("scikit-learn",)),
    "lightning": (("lightning",), ("scikit-learn",)),
    "tensorflow": (("tensorflow", "tensorflow-cpu"), ("tf-keras",), ("scikit-learn",)),
    "transformers": (("transformers",), ("accelerate",), ("scikit-learn",)),
    "xgboost": (("xgboost-cpu", "xgboost"), ("scikit-learn",)),
}
_WAIT_S = 10.0


@dataclass(frozen=True)
class Machine:
    """Plain values; sizes in GiB. A version is None where the package is not installed."""

    #: the version, and where it was installed from
    chaos: str
    system: str
    python: tuple[int, int]
    ray: str | None
    torch: str | None
    launchers: tuple[LauncherPrograms, ...]
    #: of chaos, by name
    extras: dict[str, str | None]
    cpus: int
    memory_free: float
    shm_free: float | None
    disk_free: float
    disk_used: float
    can_write: bool
    can_listen: bool
    can_signal: bool
    #: None where lanes can have views of their own (`processes.view`)
    view_problem: str | None
    clock_back_ns: int


def collect_machine_facts(reports: Path, clock: Clock, why_no_views: str | None) -> Machine:
    """Return the facts about the machine, and about the folder for runs."""
    existing_folder = _find_existing_folder(reports)
    disk = shutil.disk_usage(existing_folder)
    return Machine(
        chaos=f"{__version__}, from {find_installation()}",
        system=platform.system(),
        python=(sys.version_info.major, sys.version_info.minor),
        ray=find_package_version("ray"),
        torch=find_package_version("torch"),
        launchers=tuple(filter(None, (f.list_programs() for f in LAUNCHER_FACTS.values()))),
        extras={extra: find_version(packages) for extra, packages in _list_extras().items()},
        cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1,
        memory_free=psutil.virtual_memory().available / GIB,
        shm_free=shutil.disk_usage(SHM).free / GIB if SHM.is_dir() else None,
        disk_free=disk.free / GIB,
        disk_used=disk.used / disk.total if disk.total else 1.0,
        can_write=_can_write(existing_folder),
        can_listen=_can_listen(),
        can_signal=_can_signal(),
        view_problem=why_no_views,
        clock_back_ns=_find_clock_setback(clock),
    )


def _list_extras() -> dict[str, tuple[tuple[str, ...], ...]]:
    is_clone = Path("scenarios", "jobs").is_dir()
    return {**EXTRAS, **(OF_SCENARIOS if is_clone else {})}


def _find_existing_folder(path: Path) -> Path:
    """Return the nearest folder that exists: none is made here."""
    path = path.resolve()
    return next(folder for folder in (path, *path.parents) if folder.is_dir())


def _can_write(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError:
        return False
    return True


def _can_listen() -> bool:
    """Return whether two ports of this host can be listened on and reached."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            with socket.create_connection(server.getsockname(), timeout=_WAIT_S):
                pass
            with socket.create_server(("127.0.0.1", 0)):
                pass
    except OSError:
        return False
    return True


def _can_signal() -> bool:
    """Return whether a child process can be stopped and killed."""
    child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    try:
        os.kill(child.pid, signal.SIGSTOP)
        os.kill(child.pid, signal.SIGKILL)
        return child.wait(timeout=_WAIT_S) == -signal.SIGKILL
    except (OSError, subprocess.TimeoutExpired):
        return False
    finally:
        if child.poll() is None:
            child.kill()
        if child.stdin:
            child.stdin.close()
        child.wait()


def _find_clock_setback(clock: Clock) -> int:
    """Return the largest step back, in many readings, of the clock that orders histories."""
    times = [clock.now_ns() for _ in range(10_000)]
    return max(0, *(earlier_ns - later_ns for earlier_ns, later_ns in pairwise(times)))
