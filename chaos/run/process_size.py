"""The size of this process, as Linux counts it."""

import os
from pathlib import Path

from chaos.record import Record

_SELF = Path("/proc/self")


class ProcessSize(Record):
    """The size of a process: descriptors, resident bytes, living children, names in its folder."""

    open_files: int
    memory_bytes: int
    children: int
    entries: int


def process_size() -> ProcessSize | None:
    """Return the size of this process; None where it cannot be read."""
    try:
        resident = int((_SELF / "statm").read_text(encoding="ascii").split()[1])
        started = [task / "children" for task in (_SELF / "task").iterdir()]
        return ProcessSize(
            open_files=_count(_SELF / "fd") - 1,  # one of them is this look
            memory_bytes=resident * os.sysconf("SC_PAGE_SIZE"),
            children=sum(len(task.read_text(encoding="ascii").split()) for task in started),
            entries=_count(Path()),
        )
    except OSError:  # another system, or a working directory that is gone
        return None


def _count(folder: Path) -> int:
    return sum(1 for _ in folder.iterdir())
