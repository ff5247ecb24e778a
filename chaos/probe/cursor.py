"""The place of a worker in training, and the cost of watching it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from chaos.model.event import AnyEvent
from chaos.run.clock import Clock, SystemClock


@dataclass
class Cursor:
    """The place of a rank."""

    attempt: int
    rank: int
    #: counts reports
    epoch: int
    #: optimizer steps since the last report
    step: int = 0

    def who(self) -> dict[str, int]:
        return {"attempt": self.attempt, "rank": self.rank}

    def numbers(self) -> tuple[int, int, int]:
        """Return attempt, epoch and step: the place that all ranks share."""
        return self.attempt, self.epoch, self.step

    def place(self) -> dict[str, int]:
        return {**self.who(), "epoch": self.epoch, "step": self.step}


class TimeSpent:
    """A context that adds up the nanoseconds spent in it; a nested entry counts once."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._depth = 0
        self._start_ns = 0
        self.spent_ns = 0

    def __enter__(self) -> None:
        if self._depth == 0:
            self._start_ns = self._now_ns()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.spent_ns += self._now_ns() - self._start_ns


class Cost:
    """The time of the probe itself since `begin_anew`, without waits at gates.

    A span `on_state` must lie within one of `watching`.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        now_ns = (clock or SystemClock()).now_ns
        self.watching = TimeSpent(now_ns)
        self.on_state = TimeSpent(now_ns)
        self.steps = 0

    def begin_anew(self) -> None:
        """Count from zero; an open span continues."""
        self.watching.spent_ns = self.on_state.spent_ns = self.steps = 0


@dataclass(frozen=True)
class Recorder:
    """The cursor of a rank, and the functions to write events with, shared by all watchers."""

    cursor: Cursor
    write: Callable[[AnyEvent], object]
    failed: Callable[[str, Exception], None]
    cost: Cost = field(default_factory=Cost)
