"""The interface between the harness and a backend."""

from collections.abc import Callable, Sequence
from typing import ParamSpec, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

from chaos.model.history import Baseline, JournalEntry
from chaos.model.plan import Plan
from chaos.run.directory import RunDirectory

ShowEntries: TypeAlias = Callable[[Sequence[JournalEntry]], None]
Say: TypeAlias = Callable[[str], None]
P = ParamSpec("P")
R = TypeVar("R")
W = TypeVar("W")
# A function of a module's, called with a run's folder, its time in seconds, the baseline, and words
# that are passed on.
Judge: TypeAlias = Callable[[RunDirectory, float, Baseline, W], R]


class Announcer(Protocol):
    """The place of lines for people: a console, or what a program does with them."""

    def say(self, text: str) -> None:
        """Show a line."""

    def warn(self, text: str) -> None:
        """Show a line that is a warning."""


class LaneFolders(Protocol):
    """The folders that a job writes in, as one lane alone sees them (see `processes.view`)."""

    @property
    def pid(self) -> int:
        """The process that holds it open, by which others enter it."""

    def covers(self, path: str) -> bool:
        """Return whether what is written under a path is seen in this view alone."""

    def call(self, function: Callable[P, R], *words: P.args, **keywords: P.kwargs) -> R:
        """Return what a function of a module's returns in the view; raises what it raises."""


def call_in_view(
    view: LaneFolders | None, function: Callable[P, R], *words: P.args, **keywords: P.kwargs
) -> R:
    """Return what a function returns in a view, or here if there is none."""
    if view is None:
        return function(*words, **keywords)
    return view.call(function, *words, **keywords)


class Backend(Protocol):
    """An executor of plans. Its events are in the run directory's journals, after any error too."""

    def execute(self, plan: Plan, directory: RunDirectory, show: ShowEntries) -> None:
        """Execute one plan, and show new events as they come.

        Raises `ClusterError` or `HarnessError` if it cannot, and passes
        KeyboardInterrupt on after the run was ended and recorded as such.
        """

    def close(self) -> None:
        """End the processes that are kept warm between plans."""


@runtime_checkable
class JudgingBackend(Backend, Protocol):
    """A backend elsewhere that has a run judged where it was executed."""

    def execute_and_judge(
        self,
        directory: RunDirectory,
        judge: Judge[W, R],
        baseline: Baseline,
        words: W,
    ) -> R:
        """Execute the plan in a folder; return what `judge` returns of the run's folder elsewhere.

        The folder here gets history, verdict and logs. Raises what `execute` and `judge` raise.
        """


class OpenBackend(Backend, Protocol):
    """A backend as a context manager: leaving it ends the processes that it keeps warm."""

    def __enter__(self) -> Self:
        """Start nothing yet: the first plan states what is needed."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ScriptBackend(OpenBackend, Protocol):
    """A backend whose plans share one start of the job's script, up to its `fit()`."""

    def open_parallel(self, view: LaneFolders | None = None) -> OpenBackend:
        """Return a backend that executes plans at the same time, from the same start.

        In a view, its processes see their own files in some folders. Raises `NoViewError` if what
        was started before writes there as well.
        """

    def open_fresh(self, *, reseeded_plan: Plan | None = None) -> OpenBackend:
        """Return a backend that starts the script once more.

        `reseeded_plan` is the plan that it will execute with another hash seed of
        Python, as every process of a cluster has a hash seed of its own.
        """
