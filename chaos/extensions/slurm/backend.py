"""The backend of scripts for `sbatch`: each run has a Slurm of its own, or a job on another one."""

from functools import partial
from typing import Self

from chaos.errors import NoViewError
from chaos.extensions.slurm.run import SlurmRun
from chaos.launch.commands.backend import start_interpreter
from chaos.launch.environment import HASH_SEED, OTHER_HASH_SEED
from chaos.launch.launched_run import execute_with_retry
from chaos.model.plan import Plan
from chaos.run.directory import RunDirectory
from chaos.run.ports import LaneFolders, ScriptBackend, ShowEntries


class SlurmBackend(ScriptBackend):
    """The backend of a plan that runs under Slurm: nothing is kept between two runs."""

    def __init__(self, hash_seed: str = HASH_SEED) -> None:
        self.hash_seed = hash_seed

    def open_parallel(self, view: LaneFolders | None = None) -> Self:
        if view is not None:
            raise NoViewError("Slurm starts the processes itself")
        return type(self)(self.hash_seed)

    def open_fresh(self, *, reseeded_plan: Plan | None = None) -> Self:
        return type(self)(HASH_SEED if reseeded_plan is None else OTHER_HASH_SEED)

    def close(self) -> None:
        """Keep nothing between plans, and end nothing."""

    def execute(self, plan: Plan, directory: RunDirectory, show: ShowEntries) -> None:
        def execute_run(retry_reason: str | None) -> str | None:
            starter = partial(start_interpreter, ())
            run = SlurmRun(plan, directory, show, retry_reason, self.hash_seed, starter)
            return run.execute()

        execute_with_retry(execute_run, directory)
