"""The place of a worker in training, and the cost of watching it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from chaos.model.event import AnyEvent
from chaos.model.places import TrainingPlace
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

    @property
    def training_place(self) -> TrainingPlace:
        return TrainingPlace(self.epoch, self.step)

    def rank_fields(self) -> dict[str, int]:
        return {"attempt": self.attempt, "rank": self.rank}

    def place_key(self) -> tuple[int, int, int]:
        """Return attempt, epoch and step: the place that all ranks share."""
        return self.attempt, self.epoch, self.step

    def place_fields(self) -> dict[str, int]:
        return {**self.rank_fields(), "epoch": self.epoch, "step": self.step}


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


class ProbeCost:
    """The time of the probe itself since `reset`, without waits at gates.

    A span `state_time` must lie within one of `watch_time`.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        now_ns = (clock or SystemClock()).now_ns
        self.watch_time = TimeSpent(now_ns)
        self.state_time = TimeSpent(now_ns)
        self.step_count = 0

    def reset(self) -> None:
        """Count from zero; an open span continues."""
        self.watch_time.spent_ns = self.state_time.spent_ns = self.step_count = 0


@dataclass(frozen=True)
class Recorder:
    """The cursor of a rank, and the functions to write events with, shared by all watchers."""

    cursor: Cursor
    write: Callable[[AnyEvent], object]
    report_failure: Callable[[str, Exception], None]
    cost: ProbeCost = field(default_factory=ProbeCost)
