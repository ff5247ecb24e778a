"""The signal by which a process of a run writes the stacks of its threads, and the files."""

import faulthandler
import signal
from pathlib import Path

STACK_SIGNAL = signal.SIGUSR2
DRIVER_STACKS = "stacks-driver.txt"
START_STACKS = "stacks-start.txt"  # of a worker that does not come to its first line


def rank_stacks(rank: int, pid: int) -> str:
    """Return the name of a worker's file."""
    return f"stacks-rank-{rank}-{pid}.txt"


def answer_with_stacks(file: Path) -> None:
    """Answer the signal from now on, by faulthandler even if the process hangs in C++."""
    faulthandler.register(STACK_SIGNAL, file=file.open("w"), all_threads=True)
