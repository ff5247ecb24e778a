"""The harness's handles to the processes that a run is forked from: root, zygote and lane.

`root` has a drawing of them.
"""

import atexit
import os
import select
import threading
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from chaos.launch.environment import HASH_SEED, ON_THE_CPU
from chaos.launch.forked.messages import (
    ForkLane,
    ForkZygote,
    ScriptFailed,
    ScriptReady,
    StartRun,
    WorkerKilled,
)
from chaos.launch.launched_run import START_S
from chaos.launch.raytrain import CALLBACK
from chaos.launch.raytrain.compat import CALLBACKS_ENV
from chaos.model.plan import Plan
from chaos.processes.forks import (
    ChildExited,
    ChildStarted,
    ForkingProcess,
    Forks,
    WarmProcesses,
    build_death_error,
)
from chaos.processes.tree import is_running, kill_tree
from chaos.registry import EXTENSIONS_ENV, EXTENSIONS_OFF
from chaos.run import held_folders
from chaos.run.directory import RunDirectory
from chaos.run.ports import LaneFolders
from chaos.run.signals import is_foreign

END_S = 5.0
SCRIPT = "the start of the script that runs are forked from"
POLL_S = 0.01
LANE = "the process that a lane's runs are forked from"
# Read by Ray Train. Polls are frequent, because all processes are on this machine.
TRAIN_ENV = {
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.01",
    "RAY_TRAIN_PREEMPTION_POLL_INTERVAL_S": "0.05",
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "5",
    "RAY_TRAIN_METRICS_ENABLED": "0",
    "RAY_TRAIN_ENABLE_CONTROLLER_STRUCTURED_LOGGING": "0",
    "RAY_TRAIN_ENABLE_WORKER_STRUCTURED_LOGGING": "0",
    "RAY_TRAIN_ENABLE_PRINT_PATCH": "0",
    "TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S": "1",
    "OMP_NUM_THREADS": "1",  # as for a worker of one CPU: its resources change no sum
    "GLOO_SOCKET_IFNAME": "lo",
    **ON_THE_CPU,
}


def zygote_env(plan: Plan, hash_seed: str = HASH_SEED) -> dict[str, str]:
    """Return the environment of a plan's zygote, the user's own settings first."""
    user_env = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
    callbacks = [user_env.get(CALLBACKS_ENV, ""), CALLBACK]
    return {
        **TRAIN_ENV,
        "PYTHONHASHSEED": hash_seed,
        **user_env,
        "CUDA_VISIBLE_DEVICES": "",  # training is on the CPU, and torch reports no GPU
        "PYTHONUNBUFFERED": "1",
        EXTENSIONS_ENV: EXTENSIONS_OFF,
        CALLBACKS_ENV: ",".join(name for name in callbacks if name),
        **plan.job.env,
    }


# -- the root --------------------------------------------------------------------------------------

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

    return ROOTS.get(_build_root_key(plan, hash_seed), start)


def end_root(plan: Plan, hash_seed: str) -> None:
    """End one root that is needed no more: it holds the memory of its imports."""
    ROOTS.end(_build_root_key(plan, hash_seed))


def _build_root_key(plan: Plan, hash_seed: str) -> object:
    return hash_seed, tuple(sorted(plan.job.env.items()))


# They end with this process however it ends; at a normal exit they are waited for.
end_roots: Callable[[], None] = ROOTS.close
atexit.register(end_roots)


# -- the zygote ------------------------------------------------------------------------------------


class ZygoteHandle:
    """One zygote; all its forks share the part of the script before `fit()`.

    `extra_env` are variables of its own, which are none of the job's. It is in `view`, if
    there is one.
    """

    def __init__(  # noqa: PLR0913 - what a start of a script may differ in
        self,
        job: tuple[str, ...],
        plan: Plan,
        directory: RunDirectory,
        *,
        hash_seed: str = HASH_SEED,
        limit_s: float | None = None,
        extra_env: Mapping[str, str] = MappingProxyType({}),
        view: LaneFolders | None = None,
    ) -> None:
        self.job = job
        root = get_root(plan, log=directory.logs / "root.log", hash_seed=hash_seed)
        self._root = root.forks
        log, env = str(directory.logs / "zygote.log"), {**zygote_env(plan, hash_seed), **extra_env}
        holder = None if view is None else view.pid
        request = ForkZygote(str(directory.path), plan.cwd, log, env, holder)
        self.pid, self._wire = self._root.fork(request)
        self.forks = Forks(self._wire, lambda: build_death_error(SCRIPT))  # its lanes
        self._limit_s = plan.limits.run_s + START_S if limit_s is None else limit_s
        self._limit_note = "" if limit_s else f" (limits.run_s and {START_S:g} s more)"
        self._lock = threading.Lock()
        self._is_ready = False
        self._has_failed = False

    @property
    def can_be_used(self) -> bool:
        """Whether it runs, has not failed, and its connection is intact."""
        return not self._has_failed and self.forks.is_usable and is_running(self.pid)

    def await_fit(self) -> ScriptFailed | None:
        """Wait until the script has called `fit()`; return the reason if it does not."""
        with self._lock:
            if self._is_ready:
                return None
            try:
                message = self._receive()
            except BaseException:
                self._has_failed = True
                raise
            self._is_ready = isinstance(message, ScriptReady)
            self._has_failed = not self._is_ready
            return None if isinstance(message, ScriptReady) else message

    def end(self) -> None:
        kill_tree(self.pid)
        self._root.exit_code(self.pid, within_s=END_S)
        self.forks.close()

    def _receive(self) -> ScriptReady | ScriptFailed:
        self._wire.end.settimeout(self._limit_s)
        try:
            message: ScriptReady | ScriptFailed = self._wire.receive()
        except TimeoutError:
            return ScriptFailed(
                "TimeoutError",
                f"the script did not come to its fit() within {self._limit_s:g} s"
                f"{self._limit_note}; have its data prepared beforehand",
            )
        except EOFError:
            code = self._root.exit_code(self.pid, within_s=END_S)
            if code is None or is_foreign(code):  # None: the root is gone, and its forks with it
                raise build_death_error(SCRIPT, code) from None
            return ScriptFailed("Exited", f"the script ended its process with code {code}")
        self._wire.end.settimeout(None)
        return message


# -- the lane --------------------------------------------------------------------------------------


class LaneHandle:
    """One lane, by its pid and the connection to it."""

    def __init__(self, zygote: ZygoteHandle, view: LaneFolders | None = None) -> None:
        self.zygote = zygote
        request = ForkLane(None if view is None else view.pid)
        self.pid, self._wire = zygote.forks.fork(request)
        self._exited: dict[int, int] = {}
        self._killed: list[WorkerKilled] = []

    @property
    def can_be_used(self) -> bool:
        return is_running(self.pid)

    def start(self, request: StartRun) -> int:
        try:
            self._wire.send(request)
        except OSError as error:
            raise build_death_error(LANE) from error
        while not isinstance(message := self._receive(), ChildStarted):
            self._record_message(message)
        return message.pid

    def exit_code(self, pid: int) -> int | None:
        if pid not in self._exited and select.select([self._wire.end], [], [], POLL_S)[0]:
            self._record_message(self._receive())
        return self._exited.pop(pid, None)

    def take_killed_workers(self) -> list[WorkerKilled]:
        """Return the workers reported, since the last call, as killed by a foreign signal."""
        killed_workers, self._killed = self._killed, []
        return killed_workers

    def end(self) -> None:
        kill_tree(self.pid)
        self.zygote.forks.exit_code(self.pid, within_s=END_S)
        self._wire.close()

    def _record_message(self, message: ChildStarted | ChildExited | WorkerKilled) -> None:
        if isinstance(message, WorkerKilled):
            self._killed.append(message)
        else:
            assert isinstance(message, ChildExited)
            self._exited[message.pid] = message.code

    def _receive(self) -> ChildStarted | ChildExited | WorkerKilled:
        try:
            message: ChildStarted | ChildExited | WorkerKilled = self._wire.receive()
        except EOFError as error:
            raise build_death_error(LANE, self._signal()) from error
        return message

    def _signal(self) -> int | None:
        """Return the signal, negative, that has ended the lane; None if it is unknown."""
        code = self.zygote.forks.exit_code(self.pid, within_s=END_S)
        return code if code is not None and code < 0 else None
