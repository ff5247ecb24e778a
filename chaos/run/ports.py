"""What the harness asks of a backend, and what it gives it."""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol, Self, TypeAlias

from chaos.model.history import Entry
from chaos.model.plan import Plan
from chaos.run.directory import RunDirectory

Show: TypeAlias = Callable[[Sequence[Entry]], None]
Say: TypeAlias = Callable[[str], None]


def say_nothing(words: str) -> None:
    """Keep to oneself what a backend has to say beside a run's entries."""
    del words


class Backend(Protocol):
    """Executes plans. What it saw is in the run directory's journals, whatever happens."""

    def execute(self, plan: Plan, directory: RunDirectory, show: Show) -> None:
        """Carry out one plan, showing new events as they come.

        Raises `ClusterError` or `HarnessError` where it cannot, and passes
        KeyboardInterrupt on after the run was ended and recorded as such.
        """

    def close(self) -> None:
        """End what is kept warm between plans."""


class OpenBackend(Backend, Protocol):
    """A backend as a context: leaving it ends what it kept warm."""

    def __enter__(self) -> Self:
        """Start nothing yet; the first plan says what is needed."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        """End what is kept warm."""


class ScriptBackend(OpenBackend, Protocol):
    """A backend whose plans go on from one start of the job's script, up to its `fit()`."""

    def beside(self) -> OpenBackend:
        """Return one that carries out plans at the same time, from the same start."""

    def afresh(self, *, other_hashes: Plan | None = None) -> OpenBackend:
        """Return one that starts the script once more.

        With `other_hashes`, the plan that it will carry out, with another hash
        seed of Python's, as every process of a cluster has one of its own.
        """
