"""Signals that end a command: Ctrl-C, SIGTERM (CI that cancels), SIGHUP (a closed terminal).

The first of them is raised as KeyboardInterrupt: the results so far are judged
and written, and the exit code is 128 plus the signal's number. Meanwhile SIGTERM
and SIGHUP have no effect, and neither has a second Ctrl-C; a further Ctrl-C ends
the process at once. A signal that was ignored when the process began (as by
nohup) stays ignored.

    importing ── ends at once        nothing was begun
    working   ── KeyboardInterrupt   once, and again only if it was swallowed
    writing   ── afterwards          `held`
    the end   ── ignored
"""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TypeAlias

_Handler: TypeAlias = Callable[[int, FrameType | None], None]

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PATIENCE = b"\nchaos: writing what was done; Ctrl-C once more leaves at once, without it\n"


class _Ending:
    """The signals that have come so far."""

    def __init__(self) -> None:
        self.first: signal.Signals | None = None
        self.is_held = False
        self._insisted = False

    def hear(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.first is not None and (self.is_held or _is_being_handled()):
            self._again(number)
            return
        self.first = self.first or signal.Signals(number)
        if not self.is_held:
            raise KeyboardInterrupt(self.first.name)

    def _again(self, number: int) -> None:
        if number != signal.SIGINT:
            return
        if self._insisted:
            os._exit(128 + number)
        self._insisted = True
        with contextlib.suppress(OSError):
            os.write(2, _PATIENCE)


_ending = _Ending()


def leave_at_once() -> None:
    """Let signals end this process without a message: it has done nothing yet."""
    _handle_by(lambda number, _: os._exit(128 + number))


def conclude() -> None:
    """End the work under way in good order at the first signal, but not in forked processes."""
    _handle_by(_ending.hear)
    os.register_at_fork(after_in_child=lambda: _handle_by(signal.SIG_DFL))


def ignore() -> None:
    """Ignore signals from now on: the command is over."""
    _handle_by(signal.SIG_IGN)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Delay signals until the context is left, after a file was written."""
    _ending.is_held, before = True, _ending.first
    try:
        yield
    finally:
        _ending.is_held = False
    if _ending.first is not None and before is None:
        raise KeyboardInterrupt(_ending.first.name)


def name() -> str:
    """Return the name of the signal that ended the command, for display."""
    first = _ending.first or signal.SIGINT
    return "Ctrl-C" if first == signal.SIGINT else first.name


def exit_code() -> int:
    """Return the exit code of a command that a signal ended."""
    return 128 + (_ending.first or signal.SIGINT)


def has_come() -> bool:
    """Return whether a signal has ended this command."""
    return _ending.first is not None


def _handle_by(handler: _Handler | signal.Handlers) -> None:
    for number in ENDING:
        if signal.getsignal(number) not in (signal.SIG_IGN, None):
            signal.signal(number, handler)


def _is_being_handled() -> bool:
    """Return whether the main thread is handling an interrupt already."""
    error = sys.exception()
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False
