"""The processes below another, found from outside."""

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
