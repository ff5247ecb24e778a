"""Processes by their pids, any of which may be gone already: who is below whom, and who lives."""

import contextlib
import math
import signal
from collections.abc import Iterable

import psutil


def find_living_descendants(pid: int) -> list[psutil.Process]:
    """Return the descendants of a process that are alive; none if the process itself is gone."""
    try:
        descendants: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [p for p in descendants if _is_alive(p)]


def find_written_files(pids: Iterable[int]) -> set[str]:
    """Return the files that processes, by their pids, hold open for writing."""
    paths: set[str] = set()
    for pid in pids:
        with contextlib.suppress(psutil.Error, OSError):
            files = psutil.Process(pid).open_files()
            paths.update(file.path for file in files if file.mode != "r")
    return paths


def kill_tree(pid: int) -> None:
    """Kill a process, and then all below it, so that it cannot start more meanwhile."""
    descendants = find_living_descendants(pid)
    with contextlib.suppress(psutil.NoSuchProcess):
        kill(psutil.Process(pid))
    for process in descendants:
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


def is_running(pid: int, latest_start: float = math.inf) -> bool:
    """Return whether a process exists and has not ended; a zombie has.

    With a time (unix, seconds), one that began later is another process with its number.
    """
    try:
        process = psutil.Process(pid)
        return bool(process.create_time() <= latest_start) and _is_alive(process)
    except psutil.NoSuchProcess:
        return False


def find_descendant_pids(pid: int, name: str | None = None) -> list[int]:
    """Return the living processes below a process, oldest first; with a name, those that have it.

    Raises `ProcessLookupError` where that process is gone.
    """
    try:
        descendants = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess as error:
        raise ProcessLookupError(f"pid {pid}") from error
    starts_and_pids = []
    for process in descendants:
        with contextlib.suppress(psutil.NoSuchProcess):
            has_name = name is None or process.name() == name
            if has_name and process.status() != psutil.STATUS_ZOMBIE:
                starts_and_pids.append((process.create_time(), process.pid))
    return [number for _, number in sorted(starts_and_pids)]


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped by a signal, or has ended."""
    try:
        return psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def find_process_trees(pids: Iterable[int]) -> list[psutil.Process]:
    """Return the processes of some pids that live, and all below them, each once."""
    processes: dict[int, psutil.Process] = {}
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            if is_running(pid):
                processes[pid] = psutil.Process(pid)
        processes |= {process.pid: process for process in find_living_descendants(pid)}
    return [*processes.values()]


def signal_processes(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to processes, some of which may be gone."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def find_processes_by_variable(name: str, value: str) -> list[psutil.Process]:
    """Return the living processes of this host that have a variable of their environment so.

    A child has it too, even one that made a session of its own.
    """
    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(name) == value and _is_alive(process):
                processes.append(process)
    return processes


def describe_command(process: psutil.Process) -> str:
    """Return the beginning of a process's command line; raises `psutil.Error` if it is gone."""
    return " ".join(process.cmdline())[:120]
