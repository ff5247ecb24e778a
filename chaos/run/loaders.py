"""The processes of data loaders, found from outside."""

import contextlib

import psutil

# torch 2.13 gives this name to each, whatever started it.
NAME = "pt_data_worker"


def loader_pids(pid: int) -> list[int]:
    """Return the living processes of torch's data loaders below a process, oldest first.

    Raises `ProcessLookupError` where that process is gone.
    """
    try:
        below = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess as error:
        raise ProcessLookupError(f"pid {pid}") from error
    found = []
    for process in below:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.name() == NAME and process.status() != psutil.STATUS_ZOMBIE:
                found.append((process.create_time(), process.pid))
    return [number for _, number in sorted(found)]
