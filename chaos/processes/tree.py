"""Processes by their pids, any of which may be gone already: who is below whom, and who lives."""

import contextlib
import math
import signal
from collections.abc import Iterable

import psutil


def living(pid: int) -> list[psutil.Process]:
    """Return the descendants of a process that are alive; none if the process itself is gone."""
    try:
        found: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [p for p in found if _is_alive(p)]


def written_by(pids: Iterable[int]) -> set[str]:
    """Return the files that processes, by their pids, hold open for writing."""
    found: set[str] = set()
    for pid in pids:
        with contextlib.suppress(psutil.Error, OSError):
            files = psutil.Process(pid).open_files()
            found.update(file.path for file in files if file.mode != "r")
    return found


def end_all(pid: int) -> None:
    """Kill a process, and then all below it, so that it cannot start more meanwhile."""
    below = living(pid)
    with contextlib.suppress(psutil.NoSuchProcess):
        kill(psutil.Process(pid))
    for process in below:
        kill(process)


def kill(process: psutil.Process) -> None:
    """Kill a process that may be gone already, or be another user's, which a job may start."""
    with contextlib.suppress(psutil.Error):
        process.kill()


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def is_running(pid: int, begun_by: float = math.inf) -> bool:
    """Return whether a process exists and has not ended; a zombie has.

    With a time (unix, seconds), one that began later is another process with its number.
    """
    try:
        process = psutil.Process(pid)
        return bool(process.create_time() <= begun_by) and _is_alive(process)
    except psutil.NoSuchProcess:
        return False


def pids_below(pid: int, name: str | None = None) -> list[int]:
    """Return the living processes below a process, oldest first; with a name, those that have it.

    Raises `ProcessLookupError` where that process is gone.
    """
    try:
        below = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess as error:
        raise ProcessLookupError(f"pid {pid}") from error
    found = []
    for process in below:
        with contextlib.suppress(psutil.NoSuchProcess):
            is_named = name is None or process.name() == name
            if is_named and process.status() != psutil.STATUS_ZOMBIE:
                found.append((process.create_time(), process.pid))
    return [number for _, number in sorted(found)]


def stands_still(pid: int) -> bool:
    """Return whether a process is stopped by a signal, or has ended."""
    try:
        return psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def all_of(pids: Iterable[int]) -> list[psutil.Process]:
    """Return the processes of some pids that live, and all below them, each once."""
    found: dict[int, psutil.Process] = {}
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            if is_running(pid):
                found[pid] = psutil.Process(pid)
        found |= {process.pid: process for process in living(pid)}
    return [*found.values()]


def signal_all(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to processes, some of which may be gone."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def with_variable(name: str, value: str) -> list[psutil.Process]:
    """Return the living processes of this host that have a variable of their environment so.

    A child has it too, even one that made a session of its own.
    """
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(name) == value and _is_alive(process):
                found.append(process)
    return found


def command_of(process: psutil.Process) -> str:
    """Return the beginning of a process's command line; raises `psutil.Error` if it is gone."""
    return " ".join(process.cmdline())[:120]
