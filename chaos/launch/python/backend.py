"""The backend of commands that nothing but chaos starts: in real processes, or in forked ones."""

from collections.abc import Mapping
from pathlib import Path

from chaos.launch.commands.backend import CommandBackend
from chaos.launch.commands.roots import NOWHERE, Roots
from chaos.launch.environment import command_env, no_gpu_is_forked
from chaos.launch.python.process import COMMAND
from chaos.launch.python.run import PythonRun
from chaos.model.plan import Plan
from chaos.processes.start import Starter
from chaos.run.directory import RunDirectory
from chaos.run.ports import Show

ROOT = Path(__file__).with_name("root.py")


class PythonBackend(CommandBackend):
    """The backend of a plan whose job is a command of its own."""

    anew = ("-u", str(COMMAND))

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
    ) -> PythonRun:
        return PythonRun(plan, directory, show, again_after, self.hash_seed, starter)

    @staticmethod
    def why_not_forked(env: Mapping[str, str]) -> str | None:
        return no_gpu_is_forked(env)


def _root_env(plan: Plan, hash_seed: str) -> dict[str, str]:
    return command_env(plan, NOWHERE, hash_seed=hash_seed, defaults={})


open_scripts, why_not_forked = PythonBackend, PythonBackend.why_not_forked
