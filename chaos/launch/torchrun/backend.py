"""The backend of jobs that torchrun starts: in real processes, or in forked ones."""

from collections.abc import Mapping
from pathlib import Path

from chaos.launch.commands.backend import CommandBackend
from chaos.launch.commands.roots import NOWHERE, Roots
from chaos.launch.environment import no_gpu_is_forked
from chaos.launch.torchrun.run import AGENT, TorchrunRun
from chaos.launch.torchrun.settings import environment_of
from chaos.model.plan import Plan
from chaos.processes.start import Starter
from chaos.run.directory import RunDirectory
from chaos.run.ports import Show

ROOT = Path(__file__).with_name("root.py")
OMP_ENV = "OMP_NUM_THREADS"


class TorchrunBackend(CommandBackend):
    """The backend of a plan that runs in torchrun's own agents."""

    anew = ("-P", "-m", AGENT)

    @classmethod
    def open_roots(cls) -> Roots:
        return Roots(ROOT, _root_env)

    def run_of(
        self,
        plan: Plan,
        directory: RunDirectory,
        show: Show,
        again_after: str | None,
        starter: Starter,
    ) -> TorchrunRun:
        return TorchrunRun(plan, directory, show, again_after, self.hash_seed, starter)

    @staticmethod
    def why_not_forked(env: Mapping[str, str]) -> str | None:
        if "PYTHON_EXEC" in env:
            return "PYTHON_EXEC names an interpreter of its own, and forked workers have chaos's"
        return no_gpu_is_forked(env)


def _root_env(plan: Plan, hash_seed: str) -> dict[str, str]:
    env = environment_of(plan, NOWHERE, hash_seed=hash_seed)
    if plan.job.workers > 1:  # as torchrun 2.13 does for its workers, before they import anything
        env.setdefault(OMP_ENV, "1")
    return env


open_scripts, why_not_forked = TorchrunBackend, TorchrunBackend.why_not_forked
