"""The activity of processes at a moment, by /proc: their processor time, and their threads."""

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from chaos.processes.tree import find_process_trees

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
#: of a thread that computes, waits for a core, or waits for a disk
_BUSY = frozenset("RD")
#: the kernel's function in which `time.sleep` waits
_SLEEP = "hrtimer_nanosleep"


@dataclass(frozen=True)
class Activity:
    """One process at a moment."""

    #: the processor time of all its threads since it began
    cpu_s: float
    #: whether a thread of it computes, or would if the machine let it
    is_busy: bool = False
    #: by thread, how often it has waited for something and was woken since it began
    wakes: dict[int, int] = field(default_factory=dict)
    #: the threads that wait for the clock alone
    sleepers: frozenset[int] = frozenset()


def measure_activities(pids: Iterable[int]) -> dict[int, Activity]:
    """Return the activity of processes and of all below them, of those that live."""
    activities: dict[int, Activity] = {}
    for process in find_process_trees(pids):
        with contextlib.suppress(OSError, ValueError, IndexError):
            activities[process.pid] = _measure_activity(process.pid)
    return activities


def _measure_activity(pid: int) -> Activity:
    folder = Path("/proc", str(pid))
    user, system = _parse_stat(folder)[11:13]
    is_busy, wakes, sleepers = False, dict[int, int](), set[int]()
    for task in (folder / "task").iterdir():
        with contextlib.suppress(OSError):  # a thread may end meanwhile
            thread = int(task.name)
            is_busy = is_busy or _parse_stat(task)[0] in _BUSY
            wakes[thread] = _count_wakes(task)
            if (task / "wchan").read_text() == _SLEEP:
                sleepers.add(thread)
    cpu_s = (int(user) + int(system)) / _TICKS_PER_S
    return Activity(cpu_s, is_busy, wakes, frozenset(sleepers))


def _parse_stat(folder: Path) -> list[str]:
    """Return the fields of a `stat` from the state on: a command's name may have spaces in it."""
    return (folder / "stat").read_text().rpartition(")")[2].split()


def _count_wakes(task: Path) -> int:
    lines = (task / "status").read_text().splitlines()
    name = "voluntary_ctxt_switches:"
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)
