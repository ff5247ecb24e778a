"""Where a worker stands in training, and what watching it has cost."""

from collections.abc import Callable
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
        """Return the fields by which every event of a worker says whose it is."""
        return {"attempt": self.attempt, "rank": self.rank}

    def place(self) -> dict[str, int]:
        """Return `who` and where."""
        return {**self.who(), "epoch": self.epoch, "step": self.step}


class Span:
    """A context that adds up the nanoseconds spent in it; entered twice, they count once."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._depth = 0
        self._start_ns = 0
        self.spent_ns = 0

    def __enter__(self) -> None:
        """Begin to count."""
        if self._depth == 0:
            self._start_ns = self._now_ns()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        """Stop counting."""
        self._depth -= 1
        if self._depth == 0:
            self.spent_ns += self._now_ns() - self._start_ns


class Cost:
    """What the probe itself took since it was last asked; time at gates is not in it.

    What is spent `on_state` must lie within `watching`.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        now_ns = (clock or SystemClock()).now_ns
        self.watching = Span(now_ns)
        self.on_state = Span(now_ns)
        self.steps = 0

    def begin_anew(self) -> None:
        """Count from nothing; a span that is open goes on."""
        self.watching.spent_ns = self.on_state.spent_ns = self.steps = 0


@dataclass(frozen=True)
class Record:
    """What all that watches a rank shares: where the rank stands, and where to write."""

    cursor: Cursor
    write: Callable[[AnyEvent], object]
    failed: Callable[[str, Exception], None]
    cost: Cost = field(default_factory=Cost)
