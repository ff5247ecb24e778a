"""Signals as a shell leaves them, whatever these tests were started by."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def signals_are_heard() -> Iterator[None]:
    """Have the processes of these tests hear what `nohup` and `&` would have them ignore."""
    hangup = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGHUP, hangup)
    signal.signal(signal.SIGINT, interrupt)
