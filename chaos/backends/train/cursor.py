"""Where a worker stands in training, and what watching it has cost."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from chaos.model.event import AnyEvent
from chaos.run.clock import Clock, SystemClock


@dataclass
class Cursor:
    """Counts (epoch, step) as the worker itself could: reports, and steps since the last one."""

    attempt: int
    rank: int
    epoch: int
    step: int = 0

    def who(self) -> dict[str, int]:
        """Give the fields by which every event of a worker says whose it is."""
        return {"attempt": self.attempt, "rank": self.rank}

    def place(self) -> dict[str, int]:
        """Give `who` and where."""
        return {**self.who(), "epoch": self.epoch, "step": self.step}


@dataclass
class Cost:
    """Nanoseconds that the probe itself took since they were last read; gates are not in it."""

    clock: Clock = field(default_factory=SystemClock)
    watch_ns: int = 0
    state_ns: int = 0
    steps: int = 0
    _depth: int = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count the time inside; what is inside of it already is counted once."""
        start, self._depth = self.clock.now_ns(), self._depth + 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self.watch_ns += self.clock.now_ns() - start

    @contextmanager
    def on_state(self) -> Iterator[None]:
        """Count the time inside as spent on state, too."""
        with self.watching():
            start = self.clock.now_ns()
            try:
                yield
            finally:
                self.state_ns += self.clock.now_ns() - start

    def begin_anew(self) -> None:
        """Count from nothing."""
        self.watch_ns = self.state_ns = self.steps = 0


@dataclass(frozen=True)
class Record:
    """What all that watches a rank shares: where the rank stands, and where to write."""

    cursor: Cursor
    write: Callable[[AnyEvent], object]
    failed: Callable[[str, Exception], None]
    cost: Cost = field(default_factory=Cost)
