"""Parent and child processes: children end with their parent, and their ends are reported."""

import ctypes
import os
import signal
import sys
from collections.abc import Iterator

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def die_with_parent(parent: int) -> None:
    """Ask the kernel to end this process when its parent, known by pid, ends, even by SIGKILL."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)  # it ended before the request


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that they can be reaped here."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def ended_children() -> Iterator[tuple[int, int]]:
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
