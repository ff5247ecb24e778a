"""Processes that are ended by a signal from outside of chaos and of the job."""

import signal

# Sent by the kernel if memory is short, by a person, or by a batch system. A process that fails
# by itself ends by other signals: SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL.
FOREIGN = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT})
MEMORY = (
    "Where memory runs out, the kernel kills the largest process (`dmesg` shows it): run fewer "
    "jobs side by side (`--jobs 1`), or on a machine with more memory"
)


def killed(what: str, code: int) -> str:
    """Return the sentence for a process that ended by a signal (a negative code)."""
    return f"{what} was ended by {signal.Signals(-code).name}, and chaos did not end it. {MEMORY}"


def is_foreign(code: int) -> bool:
    """Return whether an exit code (negative codes are signals) is such a signal."""
    return -code in FOREIGN
