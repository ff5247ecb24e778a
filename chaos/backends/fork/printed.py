"""The output of a forked process, in the run's log."""

import os
from pathlib import Path


def write_to(log: Path, *streams: int) -> None:
    """Redirect this process's stdout and stderr, or the streams of these numbers, to a log."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in streams or (1, 2):
        os.dup2(file, stream)
    os.close(file)
