"""The processes that embedded runs are forked from, kept for the runs of one backend."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from chaos.launch.commands.shared_imports import (
    AHEAD_ENV,
    IMPORT_RECORDS_FOLDER,
    SharedImports,
    find_shared_imports,
)
from chaos.launch.environment import HASH_SEED
from chaos.model.arguments import build_command_line
from chaos.model.plan import Plan
from chaos.probe.address import RunAddress
from chaos.processes.forks import ForkingProcess, WarmProcesses
from chaos.processes.start import ForkedProcess, Process, ProcessStart
from chaos.run.directory import RunDirectory

# In place of a run's: its token is as long.
NOWHERE = RunAddress(Path(os.devnull), "0" * 8, "none:")
TEST_ENV = "PYTEST_CURRENT_TEST"  # pytest's: another in each test, and nothing is imported by it


class RootProcesses(WarmProcesses):
    """The roots of one backend and of all beside it; the first plan that needs one starts it.

    What an interpreter or a library reads as it starts (the hash seed, variables of the job, the
    number of threads) is the root's: jobs that differ there have a root of their own. So has a job
    whose libraries are imported ahead, once a run has shown which. `root` is the file that it
    executes, `build_env` returns its environment by plan and hash seed.
    """

    def __init__(self, root: Path, build_env: Callable[[Plan, str], dict[str, str]]) -> None:
        super().__init__()
        self._root = root
        self._build_env = build_env
        self._shared_imports: dict[object, SharedImports] = {}

    def warm_up(self, plan: Plan, *, hash_seed: str, log: Path) -> ForkingProcess:
        """Return the root of a plan's job, which may still be at its imports."""
        env = self._build_env(plan, hash_seed)
        # The run with other hashes is one alone: it imports for itself.
        shared = (
            self._shared_imports.get(_build_job_key(plan), SharedImports())
            if hash_seed == HASH_SEED
            else SharedImports()
        )
        settings = [f"{name}={value}" for name, value in sorted(env.items()) if name != TEST_ENV]
        if shared.imports:
            env = {**env, AHEAD_ENV: shared.to_text()}
        start = partial(ForkingProcess, ["-u", str(self._root)], env=env, cwd=plan.cwd, log=log)
        return self.get((tuple(settings), plan.cwd, shared), start)

    def learn_imports(self, plan: Plan, directory: RunDirectory) -> None:
        """Read from a run what its ranks have imported, for the job's later runs."""
        shared = find_shared_imports(directory.path / IMPORT_RECORDS_FOLDER, plan.job.workers)
        if shared is not None:
            self._shared_imports.setdefault(_build_job_key(plan), shared)

    def start(self, plan: Plan, start: ProcessStart, *, hash_seed: str, log: Path) -> Process:
        """Fork a process; raises `HarnessError` if that is not possible."""
        root = self.warm_up(plan, hash_seed=hash_seed, log=log)
        return ForkedProcess(
            root.forks, start, process_name=f"the command of {Path(plan.job.source).name}"
        )


def _build_job_key(plan: Plan) -> object:
    job = plan.job
    words, env = tuple(build_command_line(job.args)), tuple(sorted(job.env.items()))
    return job.source, job.module, words, env, job.workers, plan.cwd
