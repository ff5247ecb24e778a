"""The only reader of time."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

_STAMP = "%Y%m%dT%H%M%S"


class Clock(Protocol):
    """Time, passed in so that code that depends on it can be tested."""

    def now_ns(self) -> int:
        """Return monotonic nanoseconds, comparable between processes of one host."""

    def wall_ns(self) -> int:
        """Return nanoseconds since 1970, for display and to compare hosts."""

    def sleep(self, seconds: float) -> None:
        """Sleep for so many seconds."""


class SystemClock:
    """The host's own clocks."""

    def now_ns(self) -> int:
        """Return CLOCK_MONOTONIC, which all processes of a Linux host share."""
        return time.monotonic_ns()  # noqa: TID251 - this is the one place

    def thread_ns(self) -> int:
        """Return the nanoseconds that this thread has had of a processor."""
        return time.thread_time_ns()

    def wall_ns(self) -> int:
        return time.time_ns()  # noqa: TID251 - this is the one place

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def elapsed_seconds(start_ns: int, clock: Clock) -> float:
    """Return the seconds that have passed since `start_ns` (monotonic)."""
    return (clock.now_ns() - start_ns) / 1e9


def await_condition(
    is_met: Callable[[], bool], clock: Clock, *, within_s: float, poll_s: float
) -> bool:
    """Wait until a condition holds, at most so many seconds; return whether it does."""
    start = clock.now_ns()
    while not is_met():
        if elapsed_seconds(start, clock) > within_s:
            return False
        clock.sleep(poll_s)
    return True


def format_iso(text: str) -> str:
    """Return a moment of `format_stamp` by ISO 8601, `2026-11-21T01:45:00Z`; other text as is."""
    try:
        moment = datetime.strptime(text, _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return text
    return moment.isoformat().replace("+00:00", "Z")


def format_stamp(wall_ns: int) -> str:
    """Return a moment as a folder name, in UTC: `20261121T014500`."""
    return datetime.fromtimestamp(wall_ns / 1e9, UTC).strftime(_STAMP)
