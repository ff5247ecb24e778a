"""Events of the user's script around `trainer.fit()`."""

from typing import Any

import msgspec

from chaos.model.events.base import Event
from chaos.model.launcher import LAUNCHER_FACTS, Launcher
from chaos.wording import extract_last_line


class FitCalled(Event, frozen=True, kw_only=True):
    """The user's script called `trainer.fit()`; the settings that are in force."""

    trainer: str
    workers: int
    run_name: str
    storage_path: str
    settings: dict[str, Any]
    #: what the script itself has where chaos set something else
    original_settings: dict[str, Any] = msgspec.field(name="replaced")

    def _text(self) -> str:
        return f"{self.trainer}.fit() called with {self.workers} workers"


class FitReturned(Event, frozen=True, kw_only=True):
    """`fit()` returned a result."""

    metrics: dict[str, Any]
    checkpoint: str | None
    launcher: Launcher = "ray"

    def _text(self) -> str:
        return LAUNCHER_FACTS[self.launcher].words.describe_return(self.checkpoint)


class ExperimentEnded(Event, frozen=True, kw_only=True):
    """The script's `Tuner.fit()` returned."""

    #: the number that Ray Tune states it made
    trials: int

    def _text(self) -> str:
        return f"Ray Tune's experiment ended; trials that it made: {self.trials}"


class FitRaised(Event, frozen=True, kw_only=True):
    """`fit()` raised."""

    #: the exception's class
    error: str
    message: str
    launcher: Launcher = "ray"

    def _text(self) -> str:
        return (
            f"{LAUNCHER_FACTS[self.launcher].words.describe_failure(self.error)}: "
            f"{extract_last_line(self.message)}"
        )


NO_FIT, LATER_FIT = "NoFit", "LaterFit"
UNCALLED = "ended without calling trainer.fit()"  # the message of the first


class ScriptRaised(Event, frozen=True, kw_only=True):
    """The script failed outside `fit()`, or never called it (`error: NoFit`).

    `LaterFit`: it was ended where it called `fit()` once more after the one that is watched.
    """

    error: str
    message: str
    #: what of torchrun's it asked for before any `fit()`, with the place: `train.py:12 reads RANK`
    asked: str | None = None

    def _text(self) -> str:
        if self.error == LATER_FIT:
            return self.message
        return f"the script failed outside fit(): {self.error}: {extract_last_line(self.message)}"


class CommandEnded(Event, frozen=True, kw_only=True):
    """The script of a command has come to its end, in the command's own process."""

    #: the exception's class, None for none
    error: str | None = None
    message: str = ""
    #: what of torchrun's it failed for the want of, with the place: `train.py:12 needs RANK`
    asked: str | None = None

    def _text(self) -> str:
        return (
            f"the script raised {self.error}: {extract_last_line(self.message)}"
            if self.error
            else "the script ended"
        )


class AgentEnded(Event, frozen=True, kw_only=True):
    """One of torchrun's agents ended by itself."""

    node_id: str
    #: the exception's class, None for none
    error: str | None = None
    message: str = ""

    def _text(self) -> str:
        outcome = (
            f"raised {self.error}: {extract_last_line(self.message)}"
            if self.error
            else "every worker returned"
        )
        return f"torchrun's agent of {self.node_id} ended: {outcome}"


class MembershipChanged(Event, frozen=True, kw_only=True):
    """An agent ended its workers of an attempt because nodes wait to join; it costs no restart."""

    attempt: int
    node_id: str

    def _text(self) -> str:
        agent = f"torchrun's agent of {self.node_id}"
        return f"{agent} starts its workers anew after attempt {self.attempt}: nodes join"
