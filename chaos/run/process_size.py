"""The size of this process, as Linux counts it."""

import os
from pathlib import Path

from chaos.record import Record

_SELF = Path("/proc/self")
_HELPERS = (b"resource_tracker", b"forkserver", b"compile_worker")


class ProcessSize(Record):
    """The size of a process: descriptors, resident bytes, living children, names in its folder."""

    open_files: int
    memory_bytes: int
    children: int
    entries: int
    #: the children without helpers that Python and torch start by themselves
    job_children: int = 0


def process_size() -> ProcessSize | None:
    """Return the size of this process; None where it cannot be read."""
    try:
        resident = int((_SELF / "statm").read_text(encoding="ascii").split()[1])
        tasks = [task / "children" for task in (_SELF / "task").iterdir()]
        children = [pid for task in tasks for pid in task.read_text(encoding="ascii").split()]
        return ProcessSize(
            open_files=_count(_SELF / "fd") - 1,  # one of them is this look
            memory_bytes=resident * os.sysconf("SC_PAGE_SIZE"),
            children=len(children),
            entries=_count(Path()),
            job_children=sum(not _is_helper(pid) for pid in children),
        )
    except OSError:  # another system, or a working directory that is gone
        return None


def _is_helper(pid: str) -> bool:
    """Return whether a child trains nothing: a tracker of Python's, a compiler of torch's."""
    try:
        command = Path("/proc", pid, "cmdline").read_bytes()
    except OSError:  # it has ended
        return True
    return any(name in command for name in _HELPERS)


def _count(folder: Path) -> int:
    return sum(1 for _ in folder.iterdir())
