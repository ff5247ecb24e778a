"""How a run ended, as one row."""

from dataclasses import dataclass
from typing import TypeVar

from chaos.model.event import (
    DeadlinePassed,
    DriverExited,
    Event,
    FitRaised,
    FitReturned,
    RunEnded,
    ScriptRaised,
)
from chaos.model.history import History

E = TypeVar("E", bound=Event)


@dataclass(frozen=True)
class Ending:
    """The last words of driver and harness, each with its event number, where they were seen."""

    returned: tuple[int, FitReturned] | None
    raised: tuple[int, FitRaised] | None
    script_raised: tuple[int, ScriptRaised] | None
    exited: tuple[int, DriverExited] | None
    deadline: tuple[int, DeadlinePassed] | None
    ended: tuple[int, RunEnded] | None

    @property
    def is_over(self) -> bool:
        """Whether nothing more was to come: what is missing now is missing for good."""
        return self.ended is not None and not self.ended[1].interrupted

    @property
    def is_finished(self) -> bool:
        """Whether `fit()` returned."""
        return self.returned is not None


def ending(history: History) -> Ending:
    """Find how the run ended."""
    return Ending(
        returned=_last(history, FitReturned),
        raised=_last(history, FitRaised),
        script_raised=_last(history, ScriptRaised),
        exited=_last(history, DriverExited),
        deadline=_last(history, DeadlinePassed),
        ended=_last(history, RunEnded),
    )


def _last(history: History, kind: type[E]) -> tuple[int, E] | None:
    found: tuple[int, E] | None = None
    for row in history.of(kind):
        found = row
    return found
