"""The backend of jobs that torchrun starts: in real processes, or in forked ones."""

from collections.abc import Mapping
from pathlib import Path

from chaos.launch.commands.backend import CommandBackend
from chaos.launch.commands.roots import NOWHERE
from chaos.launch.environment import explain_gpu_refusal
from chaos.launch.torchrun.run import AGENT, TorchrunRun
from chaos.launch.torchrun.settings import build_environment
from chaos.model.plan import Plan

OMP_ENV = "OMP_NUM_THREADS"


class TorchrunBackend(CommandBackend):
    """The backend of a plan that runs in torchrun's own agents."""

    interpreter_words = ("-P", "-m", AGENT)
    root = Path(__file__).with_name("root.py")
    make_run = TorchrunRun

    @staticmethod
    def root_env(plan: Plan, hash_seed: str) -> dict[str, str]:
        env = build_environment(plan, NOWHERE, hash_seed=hash_seed)
        if plan.job.workers > 1:  # as torchrun 2.13 has it, before workers import anything
            env.setdefault(OMP_ENV, "1")
        return env

    @staticmethod
    def why_not_forked(env: Mapping[str, str]) -> str | None:
        if "PYTHON_EXEC" in env:
            return "PYTHON_EXEC names an interpreter of its own, and forked workers have chaos's"
        return explain_gpu_refusal(env)
