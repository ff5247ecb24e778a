"""The processes that embedded runs are forked from, kept for the runs of one backend."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from chaos.model.plan import Plan
from chaos.probe.address import RunAddress
from chaos.processes.forks import ForkingProcess, WarmProcesses
from chaos.processes.start import ForkedProcess, Process, ProcessStart

# In place of a run's: its token is as long.
NOWHERE = RunAddress(Path(os.devnull), "0" * 8, "none:")
TEST_ENV = "PYTEST_CURRENT_TEST"  # pytest's: another in each test, and nothing is imported by it


class RootProcesses(WarmProcesses):
    """The roots of one backend and of all beside it; the first plan that needs one starts it.

    What an interpreter or a library reads as it starts (the hash seed, variables of the job, the
    number of threads) is the root's: jobs that differ there have a root of their own. `root`
    is the file that it executes, `build_env` returns its environment by plan and hash seed.
    """

    def __init__(self, root: Path, build_env: Callable[[Plan, str], dict[str, str]]) -> None:
        super().__init__()
        self._root = root
        self._build_env = build_env

    def warm_up(self, plan: Plan, *, hash_seed: str, log: Path) -> ForkingProcess:
        """Return the root of a plan's job, which may still be at its imports."""
        env = self._build_env(plan, hash_seed)
        settings = [f"{name}={value}" for name, value in sorted(env.items()) if name != TEST_ENV]
        start = partial(ForkingProcess, ["-u", str(self._root)], env=env, cwd=plan.cwd, log=log)
        return self.get((tuple(settings), plan.cwd), start)

    def start(self, plan: Plan, start: ProcessStart, *, hash_seed: str, log: Path) -> Process:
        """Fork a process; raises `HarnessError` if that is not possible."""
        root = self.warm_up(plan, hash_seed=hash_seed, log=log)
        return ForkedProcess(
            root.forks, start, process_name=f"the command of {Path(plan.job.source).name}"
        )
