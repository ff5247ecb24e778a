"""Processes that end by a signal which neither chaos nor the job has sent."""

import signal

# Sent by the kernel where memory is short, by a person, or by a batch system. A process that fails
# by itself ends by others: SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL.
FOREIGN = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT})
MEMORY = (
    "Where memory runs out, the kernel kills the largest process (`dmesg` shows it): run fewer "
    "jobs side by side (`--jobs 1`), or on a machine with more memory"
)


def killed(what: str, code: int) -> str:
    """Return the sentence for a process that ended so."""
    return f"{what} was ended by {signal.Signals(-code).name}, and chaos did not end it. {MEMORY}"


def is_foreign(code: int) -> bool:
    """Return whether an exit code (negative codes are signals) is that of a process killed so."""
    return -code in FOREIGN
