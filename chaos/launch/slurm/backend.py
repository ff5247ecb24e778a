"""The backend of scripts for `sbatch`: each run has a Slurm of its own, or a job on another one."""

from functools import partial
from typing import Self

from chaos.errors import NoViewError
from chaos.launch.commands.backend import started_anew
from chaos.launch.environment import HASH_SEED, OTHER_HASH_SEED
from chaos.launch.frame import carry_out
from chaos.launch.slurm import existing
from chaos.launch.slurm.run import SlurmRun
from chaos.model.plan import Plan
from chaos.run.directory import RunDirectory
from chaos.run.ports import ScriptBackend, Show, View


class SlurmBackend(ScriptBackend):
    """The backend of a plan that runs under Slurm: nothing is kept between two runs."""

    def __init__(self, hash_seed: str = HASH_SEED) -> None:
        self.hash_seed = hash_seed

    def beside(self, view: View | None = None) -> Self:
        if view is not None:
            raise NoViewError("Slurm starts the processes itself")
        return type(self)(self.hash_seed)

    def afresh(self, *, other_hashes: Plan | None = None) -> Self:
        return type(self)(HASH_SEED if other_hashes is None else OTHER_HASH_SEED)

    def close(self) -> None:
        """Keep nothing between plans, and end nothing."""

    def execute(self, plan: Plan, directory: RunDirectory, show: Show) -> None:
        def once(again_after: str | None) -> str | None:
            starter = partial(started_anew, ())
            run = SlurmRun(plan, directory, show, again_after, self.hash_seed, starter)
            return run.execute()

        carry_out(once, directory)


def why_not_forked(env: object) -> str | None:
    """Return that workers under Slurm are started by its daemons, whatever the environment."""
    del env
    return "Slurm starts the workers of a script for sbatch itself"


open_scripts = SlurmBackend
nodes_at = existing.nodes_at
