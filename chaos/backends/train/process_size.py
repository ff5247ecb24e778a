"""The size of this process, as Linux counts it."""

import os
from pathlib import Path

from chaos.backends.train.cursor import Record
from chaos.model.event import ProcessSeen

_SELF = Path("/proc/self")


def process_seen(record: Record) -> ProcessSeen | None:
    """Return the size of this process at the end of an epoch; None where it cannot be read."""
    try:
        resident = int((_SELF / "statm").read_text(encoding="ascii").split()[1])
        started = [task / "children" for task in (_SELF / "task").iterdir()]
        return ProcessSeen(
            **record.cursor.who(),
            epoch=record.cursor.epoch,
            open_files=_count(_SELF / "fd") - 1,  # one of them is this look
            memory_bytes=resident * os.sysconf("SC_PAGE_SIZE"),
            children=sum(len(task.read_text(encoding="ascii").split()) for task in started),
            entries=_count(Path()),
        )
    except OSError:  # another system, or a working directory that is gone
        return None


def _count(folder: Path) -> int:
    return sum(1 for _ in folder.iterdir())
