"""The harness's handle to the process that zygotes are forked from (see `root`)."""

import atexit
import threading
from pathlib import Path
from typing import TypeAlias

from chaos.launch.environment import HASH_SEED
from chaos.launch.forked.messages import ForkZygote
from chaos.launch.forked.settings import zygote_env
from chaos.model.plan import Plan
from chaos.processes.forks import ForkingProcess
from chaos.processes.wire import Wire
from chaos.run import leavings
from chaos.run.directory import RunDirectory


class RootHandle:
    """One root process. It ends by itself when this process ends, for whatever reason.

    All that is forked from it has its hash seed, which Python reads only as it starts.
    """

    def __init__(self, plan: Plan, *, log: Path, hash_seed: str = HASH_SEED) -> None:
        self._hash_seed = hash_seed
        command, env = ["-m", "chaos.launch.forked.root"], zygote_env(plan, hash_seed)
        self._process = ForkingProcess(command, env=env, cwd=plan.cwd, log=log)

    @property
    def is_alive(self) -> bool:
        """Whether the process runs, and answers requests."""
        return self._process.is_alive

    def fork_zygote(self, plan: Plan, directory: RunDirectory) -> tuple[int, Wire]:
        """Return the pid of a new zygote and the connection to it."""
        log, env = str(directory.logs / "zygote.log"), zygote_env(plan, self._hash_seed)
        request = ForkZygote(str(directory.path), plan.cwd, log, env)
        return self._process.forks.fork(request)

    def exit_code(self, pid: int, *, within_s: float) -> int | None:
        """Wait for a zygote's end and return its exit code; None if it does not end in time."""
        return self._process.forks.exit_code(pid, within_s=within_s)

    def end(self) -> None:
        """End the process, and with it all that was forked from it."""
        self._process.end()


_Key: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]
_roots: dict[_Key, RootHandle] = {}
_guard = threading.Lock()


def root_for(plan: Plan, *, log: Path, hash_seed: str = HASH_SEED) -> RootHandle:
    """Return the root for a plan: one for all jobs that state the same environment.

    A variable that a module reads while it is imported must be set when the root
    starts, so a job with an `env` of its own has a root of its own.
    """
    key = _key(plan, hash_seed)
    with _guard:
        root = _roots.get(key)
        if root is not None and not root.is_alive:
            root.end()  # its end of the connection is still open
            root = None
        if root is None:
            if not _roots:
                leavings.sweep()  # folders that killed harnesses have left behind
            root = _roots[key] = RootHandle(plan, log=log, hash_seed=hash_seed)
        return root


def end_root(plan: Plan, hash_seed: str) -> None:
    """End one root that is needed no more: it holds the memory of its imports."""
    with _guard:
        root = _roots.pop(_key(plan, hash_seed), None)
        if root is not None:
            root.end()


def _key(plan: Plan, hash_seed: str) -> _Key:
    return hash_seed, tuple(sorted(plan.job.env.items()))


def end_roots() -> None:
    """End all roots; the next plan starts a new one."""
    with _guard:
        for root in _roots.values():
            root.end()
        _roots.clear()


# They end with this process however it ends; at a normal exit they are waited for.
atexit.register(end_roots)
