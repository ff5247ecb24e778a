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
from chaos.model.launcher import LAUNCHER_FACTS
from chaos.wording import shorten_text

E = TypeVar("E", bound=Event)


@dataclass(frozen=True)
class RunEnding:
    """The last events of driver and harness, each with its number, where they were seen."""

    fit_return: tuple[int, FitReturned] | None
    fit_error: tuple[int, FitRaised] | None
    script_error: tuple[int, ScriptRaised] | None
    driver_exit: tuple[int, DriverExited] | None
    deadline: tuple[int, DeadlinePassed] | None
    run_end: tuple[int, RunEnded] | None
    late_error: ScriptRaised | None = None

    @property
    def has_run_end(self) -> bool:
        """Whether the run was seen to its end: what is missing then is missing for good."""
        return self.run_end is not None and not self.run_end[1].interrupted

    @property
    def is_finished(self) -> bool:
        return self.fit_return is not None

    @property
    def late_failure(self) -> str | None:
        """A sentence on a script that failed after its `fit()`, which no check judges; or None."""
        if self.late_error is not None and self.late_error.error == LATER_FIT:
            return (
                f"{self.late_error.message}: the script was ended there, and that training is not "
                "watched; --fit chooses which call is (`job.fit` in a scenario)"
            )
        failure_text = (
            None
            if self.late_error is None
            else f"raised {self.late_error.error}: {_find_final_line(self.late_error)}"
        )
        if failure_text is None and self.driver_exit is not None and self.driver_exit[1].code != 0:
            failure_text = f"ended with code {self.driver_exit[1].code}"
        if failure_text is None or self.fit_return is None:
            return None
        terms = LAUNCHER_FACTS[self.fit_return[1].launcher].words
        return (
            f"after {terms.training_end}, which is no part of the training, {terms.driver} "
            f"{failure_text}"
        )


def find_ending(history: History) -> RunEnding:
    """Return the end of a run.

    An error that a script raises after its `fit()` has returned is no part of the training: it is
    `late_failure`, and not `script_error`.
    """
    fit_return, script_error = (
        _find_latest_event(history, FitReturned),
        _find_latest_event(history, ScriptRaised),
    )
    command_restart = _find_latest_event(history, StartedAgain)
    if (
        script_error is not None
        and command_restart is not None
        and script_error[0] < command_restart[0]
    ):
        script_error = None  # of an earlier start, after which chaos has started the command again
    fit_error, fit_call = (
        _find_latest_event(history, FitRaised),
        _find_latest_event(history, FitCalled),
    )
    if fit_error is not None and fit_call is not None and fit_error[0] < fit_call[0]:
        fit_error = None  # the script called `fit()` again: a retry of its own, and no end
    is_late = script_error is not None and _is_late_error(history, fit_return, script_error)
    return RunEnding(
        fit_return=fit_return,
        fit_error=fit_error,
        script_error=None if is_late else script_error,
        driver_exit=_find_latest_event(history, DriverExited),
        deadline=_find_latest_event(history, DeadlinePassed),
        run_end=_find_latest_event(history, RunEnded),
        late_error=script_error[1] if script_error is not None and is_late else None,
    )


def _is_late_error(
    history: History,
    fit_return: tuple[int, FitReturned] | None,
    script_error: tuple[int, ScriptRaised],
) -> bool:
    """Return whether a script raised after its `fit()`, and not when it was started once more."""
    if script_error[1].error == LATER_FIT:
        return True
    if fit_return is None:
        return False
    exit_numbers = (number for number, _ in history.select_events(DriverExited))
    return fit_return[0] < script_error[0] and not any(
        fit_return[0] < n < script_error[0] for n in exit_numbers
    )


def _find_final_line(script_error: ScriptRaised) -> str:
    lines = [line.strip() for line in script_error.message.splitlines() if line.strip()]
    return shorten_text(lines[-1]) if lines else "no message"


def _find_latest_event(history: History, kind: type[E]) -> tuple[int, E] | None:
    return next(reversed([*history.select_events(kind)]), None)
