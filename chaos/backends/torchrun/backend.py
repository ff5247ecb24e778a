"""The backend that starts jobs by torchrun: real processes, on this machine, one run at a time."""

from types import TracebackType
from typing import Self

from chaos.backends.torchrun.execution import Run
from chaos.backends.torchrun.settings import HASH_SEED, OTHER_HASH_SEED
from chaos.model.plan import Plan
from chaos.run.directory import RunDirectory
from chaos.run.ports import Show


class TorchrunBackend:
    """A context manager that keeps nothing warm: every run starts torchrun anew."""

    def __init__(self, hash_seed: str = HASH_SEED) -> None:
        self._hash_seed = hash_seed

    def __enter__(self) -> Self:
        """Start nothing: each run does."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing is kept warm."""

    def close(self) -> None:
        """Nothing is kept warm."""

    def beside(self) -> "TorchrunBackend":
        """Return a backend that executes plans at the same time."""
        return TorchrunBackend(self._hash_seed)

    def afresh(self, *, other_hashes: Plan | None = None) -> "TorchrunBackend":
        """Return a backend like this one, or with another hash seed: every run is a start."""
        return TorchrunBackend(HASH_SEED if other_hashes is None else OTHER_HASH_SEED)

    def execute(self, plan: Plan, directory: RunDirectory, show: Show) -> None:
        """Execute a plan; all that was recorded is in the directory's journals.

        Executes it once more if something other than chaos and the job disturbed the run.
        """
        run = Run(plan, directory, show, self._hash_seed)
        run.execute()
        if run.disturbed_by is not None:
            directory.set_aside()
            again = Run(plan, directory, show, self._hash_seed, run.disturbed_by)
            again.execute()
