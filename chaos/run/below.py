"""Processes of a run, seen from outside: those below another, and those that stand still."""

import contextlib

import psutil


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
