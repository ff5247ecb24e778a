"""What the harness asks of a backend, and what it gives it."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from chaos.model.history import Entry
from chaos.model.plan import Plan
from chaos.run.directory import RunDirectory

Show: TypeAlias = Callable[[Sequence[Entry]], None]


class Backend(Protocol):
    """Executes plans. What it saw is in the run directory's journals, whatever happens."""

    def execute(self, plan: Plan, directory: RunDirectory, show: Show) -> None:
        """Carry out one plan, showing new events as they come.

        Raises `ClusterError` or `HarnessError` where it cannot, and passes
        KeyboardInterrupt on after the run was ended and recorded as such.
        """

    def close(self) -> None:
        """End what is kept warm between plans."""
