"""The end of a run, as one row."""

from dataclasses import dataclass
from typing import TypeVar

from chaos.model.event import (
    LATER_FIT,
    DeadlinePassed,
    DriverExited,
    Event,
    FitCalled,
    FitRaised,
    FitReturned,
    RunEnded,
    ScriptRaised,
    StartedAgain,
)
from chaos.model.history import History
from chaos.model.launcher import FACTS
from chaos.words import shortened

E = TypeVar("E", bound=Event)


@dataclass(frozen=True)
class Ending:
    """The last events of driver and harness, each with its number, where they were seen."""

    returned: tuple[int, FitReturned] | None
    raised: tuple[int, FitRaised] | None
    script_raised: tuple[int, ScriptRaised] | None
    exited: tuple[int, DriverExited] | None
    deadline: tuple[int, DeadlinePassed] | None
    ended: tuple[int, RunEnded] | None
    late: ScriptRaised | None = None

    @property
    def is_over(self) -> bool:
        """Whether the run was seen to its end: what is missing then is missing for good."""
        return self.ended is not None and not self.ended[1].interrupted

    @property
    def is_finished(self) -> bool:
        return self.returned is not None

    @property
    def after_fit(self) -> str | None:
        """A sentence on a script that failed after its `fit()`, which no check judges; or None."""
        if self.late is not None and self.late.error == LATER_FIT:
            return (
                f"{self.late.message}: the script was ended there, and that training is not "
                "watched; --fit chooses which call is (`job.fit` in a scenario)"
            )
        how = None if self.late is None else f"raised {self.late.error}: {_last_line(self.late)}"
        if how is None and self.exited is not None and self.exited[1].code != 0:
            how = f"ended with code {self.exited[1].code}"
        if how is None or self.returned is None:
            return None
        terms = FACTS[self.returned[1].launcher].words
        return f"after {terms.end}, which is no part of the training, {terms.driver} {how}"


def ending(history: History) -> Ending:
    """Return the end of a run.

    An error that a script raises after its `fit()` has returned is no part of the training: it is
    `late`, and not `script_raised`.
    """
    returned, raised = _last(history, FitReturned), _last(history, ScriptRaised)
    again = _last(history, StartedAgain)
    if raised is not None and again is not None and raised[0] < again[0]:
        raised = None  # of an earlier start, after which chaos has started the command again
    of_fit, called = _last(history, FitRaised), _last(history, FitCalled)
    if of_fit is not None and called is not None and of_fit[0] < called[0]:
        of_fit = None  # the script called `fit()` again: a retry of its own, and no end
    is_after = raised is not None and _is_after_fit(history, returned, raised)
    return Ending(
        returned=returned,
        raised=of_fit,
        script_raised=None if is_after else raised,
        exited=_last(history, DriverExited),
        deadline=_last(history, DeadlinePassed),
        ended=_last(history, RunEnded),
        late=raised[1] if raised is not None and is_after else None,
    )


def _is_after_fit(
    history: History, returned: tuple[int, FitReturned] | None, raised: tuple[int, ScriptRaised]
) -> bool:
    """Return whether a script raised after its `fit()`, and not when it was started once more."""
    if raised[1].error == LATER_FIT:
        return True
    if returned is None:
        return False
    exits = (number for number, _ in history.of(DriverExited))
    return returned[0] < raised[0] and not any(returned[0] < n < raised[0] for n in exits)


def _last_line(raised: ScriptRaised) -> str:
    lines = [line.strip() for line in raised.message.splitlines() if line.strip()]
    return shortened(lines[-1]) if lines else "no message"


def _last(history: History, kind: type[E]) -> tuple[int, E] | None:
    return next(reversed([*history.of(kind)]), None)
