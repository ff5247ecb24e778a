"""The backend of commands that nothing but chaos starts: in real processes, or in forked ones."""

from collections.abc import Mapping
from pathlib import Path

from chaos.launch.commands.backend import CommandBackend
from chaos.launch.commands.roots import NOWHERE
from chaos.launch.environment import command_env, explain_gpu_refusal
from chaos.launch.python.process import COMMAND
from chaos.launch.python.run import PythonRun
from chaos.model.plan import Plan


class PythonBackend(CommandBackend):
    """The backend of a plan whose job is a command of its own."""

    interpreter_words = ("-u", str(COMMAND))
    root = Path(__file__).with_name("root.py")
    make_run = PythonRun

    @staticmethod
    def root_env(plan: Plan, hash_seed: str) -> dict[str, str]:
        return command_env(plan, NOWHERE, hash_seed=hash_seed, defaults={})

    @staticmethod
    def why_not_forked(env: Mapping[str, str]) -> str | None:
        return explain_gpu_refusal(env)
