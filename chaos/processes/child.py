"""The first lines of a child process, and the report of its end to its parent."""

import ctypes
import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def die_with_parent(parent: int) -> None:
    """Ask the kernel to end this process when its parent, known by pid, ends, even by SIGKILL."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)  # it ended before the request


def adopt_orphans(*, wanted: bool = True) -> None:
    """Become the parent of descendants whose own parent ends, so that they can be reaped here."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(wanted))


def reap_children() -> Iterator[tuple[int, int]]:
    """Yield the pid and exit code of each child that has ended; a signal's code is negative.

    Does not wait.
    """
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, os.waitstatus_to_exitcode(status)


def redirect_streams(log: Path, *streams: int) -> None:
    """Redirect this process's stdout and stderr, or the streams of these numbers, to a log."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in streams or (1, 2):
        os.dup2(file, stream)
    os.close(file)


def draw_fresh_randomness() -> None:
    """Seed all generators as in a new process: a job without a seed must not repeat itself."""
    import numpy as np
    import torch

    random.seed()
    np.random.seed()  # noqa: NPY002 - the global generator is the one that jobs use
    torch.default_generator.seed()  # torch 2.13: from the machine, as in a new process
