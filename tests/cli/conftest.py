"""Signals as a shell leaves them, whatever these tests were started by."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def hangups_are_heard() -> Iterator[None]:
    """Have the processes of these tests hear SIGHUP, which `nohup` has them ignore."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
