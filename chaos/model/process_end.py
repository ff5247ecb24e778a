"""The ends of processes, as recorded failures have them: one form, written and read here."""

import re

_SIGNAL = re.compile(r"ended by (SIG\w+)")
_END = re.compile(r"ended by |exit code ")
ENDED_BY_FAULT = "ended by a fault"


def describe_signal_end(signal_name: str) -> str:
    """Return the error of a process that a signal such as `SIGKILL` has ended."""
    return f"ended by {signal_name}"


def describe_exit_code(code: int) -> str:
    """Return the error of a process that ended by itself, of which no more is known."""
    return f"exit code {code}"


def find_end_signal(error: str) -> str | None:
    """Return the signal that a process was ended by, if that is its error."""
    match = _SIGNAL.match(error)
    return None if match is None else match[1]


def is_process_end(error: str) -> bool:
    """Return whether an error names the end of a process, and no exception."""
    return _END.match(error) is not None
