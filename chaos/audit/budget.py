"""How long an audit may take, and how far it is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from chaos.audit.struck import StruckRun


@dataclass(frozen=True)
class Budget:
    """The most that an audit may take, clean runs included in the seconds; None: no limit."""

    seconds: float | None = None
    runs: int | None = None

    def is_spent(self, *, seconds: float, runs: int) -> bool:
        """Say whether no further run may begin."""
        out_of_time = self.seconds is not None and seconds >= self.seconds
        return out_of_time or (self.runs is not None and runs >= self.runs)


UNLIMITED = Budget()


@dataclass(frozen=True)
class Progress:
    """How far an audit is; `left_s` is None until a run has been timed, `last` until one is over.

    `stage` is "clean runs", "strikes" or "confirmation".
    """

    stage: str
    done: int
    total: int
    left_s: float | None = None
    last: StruckRun | None = None


ShowProgress: TypeAlias = Callable[[Progress], None]


def left_s(
    limit_s: float | None, *, total: int, done: int, spent_s: float, runs_s: float
) -> float | None:
    """Estimate the seconds left from the mean of the runs so far; `limit_s` bounds them."""
    if done == 0:
        return None
    estimate = max(0, total - done) * runs_s / done
    return estimate if limit_s is None else min(estimate, max(0.0, limit_s - spent_s))
