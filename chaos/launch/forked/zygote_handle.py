"""The harness's handle to a zygote, which a root process forks for each job."""

import threading
from collections.abc import Mapping
from types import MappingProxyType

from chaos.launch.environment import HASH_SEED
from chaos.launch.forked.messages import ForkZygote, ScriptFailed, ScriptReady
from chaos.launch.forked.roots import get_root
from chaos.launch.forked.settings import zygote_env
from chaos.launch.launched_run import START_S
from chaos.model.plan import Plan
from chaos.processes.forks import Forks, build_death_error
from chaos.processes.tree import is_running, kill_tree
from chaos.run.directory import RunDirectory
from chaos.run.ports import LaneFolders
from chaos.run.signals import is_foreign

END_S = 5.0
SCRIPT = "the start of the script that runs are forked from"


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
