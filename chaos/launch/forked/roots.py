"""The processes that zygotes are forked from (see `root`), kept for all jobs of a harness."""

import atexit
from collections.abc import Callable
from functools import cache
from pathlib import Path

from chaos.launch.environment import HASH_SEED
from chaos.launch.forked.settings import zygote_env
from chaos.model.plan import Plan
from chaos.processes.forks import ForkingProcess, WarmProcesses
from chaos.run import held_folders

ROOTS = WarmProcesses()
_sweep = cache(held_folders.sweep)  # folders that killed harnesses have left behind: once


def get_root(plan: Plan, *, log: Path, hash_seed: str = HASH_SEED) -> ForkingProcess:
    """Return the root for a plan: one for all jobs that state the same environment.

    A variable that a module reads while it is imported must be set when the root starts, so a job
    with an `env` of its own has a root of its own; so has a hash seed, which Python reads only as
    it starts.
    """

    def start() -> ForkingProcess:
        _sweep()
        command, env = ["-m", "chaos.launch.forked.root"], zygote_env(plan, hash_seed)
        return ForkingProcess(command, env=env, cwd=plan.cwd, log=log)

    return ROOTS.get(_key(plan, hash_seed), start)


def end_root(plan: Plan, hash_seed: str) -> None:
    """End one root that is needed no more: it holds the memory of its imports."""
    ROOTS.end(_key(plan, hash_seed))


def _key(plan: Plan, hash_seed: str) -> object:
    return hash_seed, tuple(sorted(plan.job.env.items()))


# They end with this process however it ends; at a normal exit they are waited for.
end_roots: Callable[[], None] = ROOTS.close
atexit.register(end_roots)
