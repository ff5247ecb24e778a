"""The harness's handle to a zygote, which a root process forks for each job."""

import threading
from collections.abc import Mapping
from types import MappingProxyType

from chaos.launch.environment import HASH_SEED
from chaos.launch.forked.messages import Failed, ForkZygote, Ready
from chaos.launch.forked.roots import root_for
from chaos.launch.forked.settings import zygote_env
from chaos.launch.frame import START_S
from chaos.model.plan import Plan
from chaos.processes.forks import Forks, gone
from chaos.processes.tree import end_all, is_running
from chaos.run.directory import RunDirectory
from chaos.run.ports import View
from chaos.run.signals import is_foreign

END_S = 5.0
SCRIPT = "the start of the script that runs are forked from"


class ZygoteHandle:
    """One zygote; all its forks share the part of the script before `fit()`.

    `more` are variables of its own, which are none of the job's. It is in `view`, if there is one.
    """

    def __init__(  # noqa: PLR0913 - what a start of a script may differ in
        self,
        job: tuple[str, ...],
        plan: Plan,
        directory: RunDirectory,
        *,
        hash_seed: str = HASH_SEED,
        limit_s: float | None = None,
        more: Mapping[str, str] = MappingProxyType({}),
        view: View | None = None,
    ) -> None:
        self.job = job
        root = root_for(plan, log=directory.logs / "root.log", hash_seed=hash_seed)
        self._root = root.forks
        log, env = str(directory.logs / "zygote.log"), {**zygote_env(plan, hash_seed), **more}
        holder = None if view is None else view.pid
        request = ForkZygote(str(directory.path), plan.cwd, log, env, holder)
        self.pid, self._wire = self._root.fork(request)
        self.forks = Forks(self._wire, lambda: gone(SCRIPT))  # its lanes
        self._limit_s = plan.limits.run_s + START_S if limit_s is None else limit_s
        self._why = "" if limit_s else f" (limits.run_s and {START_S:g} s more)"
        self._turn = threading.Lock()
        self._is_ready = False
        self._is_spent = False

    @property
    def can_be_used(self) -> bool:
        """Whether it runs, has not failed, and its connection is intact."""
        return not self._is_spent and self.forks.can_be_asked and is_running(self.pid)

    def await_fit(self) -> Failed | None:
        """Wait until the script has called `fit()`; return the reason if it does not."""
        with self._turn:
            if self._is_ready:
                return None
            try:
                message = self._receive()
            except BaseException:
                self._is_spent = True
                raise
            self._is_ready = isinstance(message, Ready)
            self._is_spent = not self._is_ready
            return None if isinstance(message, Ready) else message

    def end(self) -> None:
        end_all(self.pid)
        self._root.exit_code(self.pid, within_s=END_S)
        self.forks.close()

    def _receive(self) -> Ready | Failed:
        self._wire.end.settimeout(self._limit_s)
        try:
            message: Ready | Failed = self._wire.receive()
        except TimeoutError:
            return Failed(
                "TimeoutError",
                f"the script did not come to its fit() within {self._limit_s:g} s{self._why}; "
                "have its data prepared beforehand",
            )
        except EOFError:
            code = self._root.exit_code(self.pid, within_s=END_S)
            if code is None or is_foreign(code):  # None: the root is gone, and its forks with it
                raise gone(SCRIPT, code) from None
            return Failed("Exited", f"the script ended its process with code {code}")
        self._wire.end.settimeout(None)
        return message
