"""Signals that end a command: Ctrl-C, SIGTERM (CI that cancels), SIGHUP (a closed terminal).

The first of them is raised as KeyboardInterrupt: the results so far are judged
and written, and the exit code is 128 plus the signal's number. Meanwhile SIGTERM
and SIGHUP have no effect, and neither has a second Ctrl-C; a further Ctrl-C ends
the process at once. A signal that was ignored when the process began (as by
nohup) stays ignored.

    importing ── ends at once        nothing was begun
    working   ── KeyboardInterrupt   once, and again only if it was swallowed
    writing   ── afterwards          `delay_signals`
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
_WAIT_MESSAGE = b"\nchaos: writing what was done; Ctrl-C once more leaves at once, without it\n"


class _SignalCount:
    """The signals that have come so far."""

    def __init__(self) -> None:
        self.first_signal: signal.Signals | None = None
        self.is_held = False
        self._has_insisted = False

    def handle_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.first_signal is not None and (self.is_held or _is_handling()):
            self._handle_repeat(number)
            return
        self.first_signal = self.first_signal or signal.Signals(number)
        if not self.is_held:
            raise KeyboardInterrupt(self.first_signal.name)

    def _handle_repeat(self, number: int) -> None:
        if number != signal.SIGINT:
            return
        if self._has_insisted:
            os._exit(128 + number)
        self._has_insisted = True
        with contextlib.suppress(OSError):
            os.write(2, _WAIT_MESSAGE)


_ending = _SignalCount()


def exit_when_signalled() -> None:
    """Let signals end this process without a message: it has done nothing yet."""
    _set_handler(lambda number, _: os._exit(128 + number))


def interrupt_when_signalled() -> None:
    """End the work under way in good order at the first signal, but not in forked processes."""
    _set_handler(_ending.handle_signal)
    os.register_at_fork(after_in_child=lambda: _set_handler(signal.SIG_DFL))


def ignore_signals() -> None:
    """Ignore signals from now on: the command is over."""
    _set_handler(signal.SIG_IGN)


@contextlib.contextmanager
def delay_signals() -> Iterator[None]:
    """Delay signals until the context is left, after a file was written."""
    _ending.is_held, earlier_signal = True, _ending.first_signal
    try:
        yield
    finally:
        _ending.is_held = False
    if _ending.first_signal is not None and earlier_signal is None:
        raise KeyboardInterrupt(_ending.first_signal.name)


def describe_signal() -> str:
    """Return the name of the signal that ended the command, for display."""
    first_signal = _ending.first_signal or signal.SIGINT
    return "Ctrl-C" if first_signal == signal.SIGINT else first_signal.name


def exit_code() -> int:
    """Return the exit code of a command that a signal ended."""
    return 128 + (_ending.first_signal or signal.SIGINT)


def has_signal() -> bool:
    """Return whether a signal has ended this command."""
    return _ending.first_signal is not None


def _set_handler(handler: _Handler | signal.Handlers) -> None:
    for number in ENDING:
        if signal.getsignal(number) not in (signal.SIG_IGN, None):
            signal.signal(number, handler)


def _is_handling() -> bool:
    """Return whether the main thread is handling an interrupt already."""
    error = sys.exception()
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False
