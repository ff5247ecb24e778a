"""The processes that embedded runs are forked from, and the jobs that cannot be."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from chaos.launch.torchrun.settings import environment_of, sees_gpu
from chaos.model.plan import Plan
from chaos.probe.address import RunAddress
from chaos.processes.forks import ForkingProcess, KeptWarm
from chaos.processes.start import ForkedProcess, Process, ProcessStart

ROOT = Path(__file__).with_name("root.py")
# In place of a run's: its token is as long.
NOWHERE = RunAddress(Path(os.devnull), "0" * 8, "none:")
OMP_ENV = "OMP_NUM_THREADS"
TEST_ENV = "PYTEST_CURRENT_TEST"  # pytest's: another in each test, and nothing is imported by it


class TorchrunRoots(KeptWarm):
    """The roots of one backend and of all beside it; the first plan that needs one starts it.

    What an interpreter or a library reads as it starts (the hash seed, variables of the job, the
    number of threads) is the root's: jobs that differ there have a root of their own.
    """

    def warm_up(self, plan: Plan, *, hash_seed: str, log: Path) -> ForkingProcess:
        """Return the root of a plan's job, which may still be at its imports."""
        env = _root_env(plan, hash_seed)
        stated = (f"{name}={value}" for name, value in sorted(env.items()) if name != TEST_ENV)
        start = partial(ForkingProcess, ["-u", str(ROOT)], env=env, cwd=plan.cwd, log=log)
        return self.get((tuple(stated), plan.cwd), start)

    def start(self, plan: Plan, start: ProcessStart, *, hash_seed: str, log: Path) -> Process:
        """Fork an agent; raises `HarnessError` if that is not possible."""
        root = self.warm_up(plan, hash_seed=hash_seed, log=log)
        return ForkedProcess(root.forks, start, what="torchrun")


def _root_env(plan: Plan, hash_seed: str) -> dict[str, str]:
    env = environment_of(plan, NOWHERE, hash_seed=hash_seed)
    if plan.job.workers > 1:  # as torchrun 2.13 does for its workers, before they import anything
        env.setdefault(OMP_ENV, "1")
    return env


def why_not_forked(env: Mapping[str, str]) -> str | None:
    """Return why a job with this environment needs processes of its own, None if it does not."""
    if "PYTHON_EXEC" in env:
        return "PYTHON_EXEC names an interpreter of its own, and forked workers have chaos's"
    if sees_gpu(env):
        return "a GPU is visible, and forked workers are for the CPU"
    return None
