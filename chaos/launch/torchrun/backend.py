"""The backend of jobs that torchrun starts: in real processes, or in forked ones."""

import os
from functools import partial
from pathlib import Path

from chaos.errors import UsageError
from chaos.launch.environment import HASH_SEED, OTHER_HASH_SEED
from chaos.launch.frame import carry_out
from chaos.launch.torchrun.roots import TorchrunRoots, why_not_forked
from chaos.launch.torchrun.run import TorchrunRun, started_anew
from chaos.model.plan import Plan
from chaos.processes.start import Starter
from chaos.run.directory import RunDirectory
from chaos.run.ports import ScriptBackend, Show


class TorchrunBackend(ScriptBackend):
    """A context manager: leaving it ends the processes that its runs were forked from.

    A plan's backend decides: `fork` is embedded, `torchrun` starts every process anew. Backends
    beside this one, or afresh, fork from the same processes, and end none.
    """

    def __init__(self, hash_seed: str = HASH_SEED, roots: TorchrunRoots | None = None) -> None:
        self._hash_seed = hash_seed
        self._owns = roots is None
        self._roots = roots or TorchrunRoots()

    def close(self) -> None:
        if self._owns:
            self._roots.close()

    def beside(self) -> "TorchrunBackend":
        return TorchrunBackend(self._hash_seed, self._roots)

    def afresh(self, *, other_hashes: Plan | None = None) -> "TorchrunBackend":
        """Return a backend like this one, or with another hash seed: every run is a start."""
        if other_hashes is None:
            return TorchrunBackend(HASH_SEED, self._roots)
        if other_hashes.backend == "fork":  # its imports take seconds: they begin now
            log = Path(os.devnull)
            self._roots.warm_up(other_hashes, hash_seed=OTHER_HASH_SEED, log=log)
        return TorchrunBackend(OTHER_HASH_SEED, self._roots)

    def execute(self, plan: Plan, directory: RunDirectory, show: Show) -> None:
        starter = self._starter(plan, directory)

        def once(again_after: str | None) -> str | None:
            run = TorchrunRun(plan, directory, show, again_after, self._hash_seed, starter)
            return run.execute()

        carry_out(once, directory)

    def _starter(self, plan: Plan, directory: RunDirectory) -> Starter:
        if plan.backend != "fork":
            return started_anew
        if (why := why_not_forked({**os.environ, **plan.job.env})) is not None:
            raise UsageError(why, "Add --backend torchrun: every process is started anew.")
        log = directory.logs / "root.log"
        return partial(self._roots.start, plan, hash_seed=self._hash_seed, log=log)


open_scripts = TorchrunBackend
