"""Ending processes that may be gone already."""

import psutil


def living(pid: int) -> list[psutil.Process]:
    """Return the descendants of a process that are alive; none if the process itself is gone."""
    try:
        found: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [p for p in found if _is_alive(p)]


def end_all(pid: int) -> None:
    """Kill a process, and then all below it, so that it cannot start more meanwhile."""
    below = living(pid)
    try:
        kill(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return
    for process in below:
        kill(process)


def kill(process: psutil.Process) -> None:
    """Kill a process that may be gone already."""
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def is_running(pid: int) -> bool:
    """Return whether a process exists and has not ended; a zombie has."""
    try:
        return _is_alive(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return False
