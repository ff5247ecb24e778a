"""The choice of a backend by each plan's launcher: torchrun's jobs have one of their own."""

from types import TracebackType
from typing import Self

from chaos.launch.torchrun.backend import TorchrunBackend
from chaos.model.plan import Plan
from chaos.run.directory import RunDirectory
from chaos.run.ports import OpenBackend, Show


class ByLauncher:
    """A backend of Ray Train's jobs, beside which torchrun's run in its place."""

    def __init__(self, rays: OpenBackend) -> None:
        self._rays = rays
        self._torchrun = TorchrunBackend()

    def __enter__(self) -> Self:
        """Enter the backend of Ray Train's jobs."""
        self._rays.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave it, and end what torchrun's runs were forked from."""
        self._torchrun.close()
        self._rays.__exit__(kind, error, trace)

    def close(self) -> None:
        """End the processes that are kept warm."""
        self._torchrun.close()
        self._rays.close()

    def execute(self, plan: Plan, directory: RunDirectory, show: Show) -> None:
        """Execute one plan, on the backend of its launcher."""
        is_torchruns = plan.job.launcher == "torchrun"
        (self._torchrun if is_torchruns else self._rays).execute(plan, directory, show)
