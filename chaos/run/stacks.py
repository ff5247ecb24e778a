"""How a process of a run is asked, by signal, where all its threads are, and where it answers."""

import faulthandler
import signal
from pathlib import Path

STACK_SIGNAL = signal.SIGUSR2
DRIVER_STACKS = "stacks-driver.txt"
START_STACKS = "stacks-start.txt"  # of a worker that does not come to its first line


def rank_stacks(rank: int, pid: int) -> str:
    """Name the file that a worker answers in."""
    return f"stacks-rank-{rank}-{pid}.txt"


def answer_with_stacks(file: Path) -> None:
    """Let this process be asked from now on; faulthandler answers even while it hangs in C++."""
    faulthandler.register(STACK_SIGNAL, file=file.open("w"), all_threads=True)
