"""Signals of a run's processes: those from outside that end one, and that for its stacks."""

import faulthandler
import signal
from pathlib import Path

# Sent by the kernel if memory is short, by a person, or by a batch system. A process that fails
# by itself ends by other signals: SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL.
FOREIGN = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT})
MEMORY = (
    "Where memory runs out, the kernel kills the largest process (`dmesg` shows it): run fewer "
    "jobs side by side (`--jobs 1`), or on a machine with more memory"
)


def describe_kill(process: str, code: int) -> str:
    """Return the sentence for a process that ended by a signal (a negative code)."""
    sentence = f"{process} was ended by {signal.Signals(-code).name}, and chaos did not end it"
    return f"{sentence}. {MEMORY}" if -code == signal.SIGKILL else sentence


def is_foreign(code: int) -> bool:
    """Return whether an exit code (negative codes are signals) is such a signal."""
    return -code in FOREIGN


# The answer to it is the stacks of the process's threads, in one of these files. SIGUSR1 and
# SIGUSR2 are the job's: Slurm sends them, and submitit requeues its job on the second.
STACK_SIGNAL = signal.SIGRTMIN + 8
STACKS = "STACKS"  # its name, where others are `KILL` or `TERM`
DRIVER_STACKS = "stacks-driver.txt"
START_STACKS = "stacks-start.txt"  # of a worker that does not come to its first line


def find_signal(name: str) -> int:
    """Return the number of a signal by its name."""
    return STACK_SIGNAL if name == STACKS else signal.Signals[f"SIG{name}"]


def agent_stacks(node_id: str) -> str:
    """Return the name of the file of one of torchrun's agents; the first is the run's driver."""
    return DRIVER_STACKS if node_id == "node-0" else f"stacks-{node_id}.txt"


def rank_stacks(rank: int, pid: int) -> str:
    """Return the name of a worker's file."""
    return f"stacks-rank-{rank}-{pid}.txt"


def answer_with_stacks(file: Path) -> None:
    """Answer the signal from now on, by faulthandler even if the process hangs in C++."""
    faulthandler.register(STACK_SIGNAL, file=file.open("w"), all_threads=True)
