"""The harness's handle to a zygote, which a root process forks for each job."""

import select

import psutil

from chaos.backends.fork.messages import Exited, Failed, Ready, Started, StartRun
from chaos.backends.fork.root_handle import root_for
from chaos.errors import HarnessError
from chaos.model.plan import Plan
from chaos.run.directory import RunDirectory

POLL_S = 0.01
READY_S = 120.0
END_S = 5.0


class ZygoteHandle:
    """The harness's handle to a zygote."""

    def __init__(self, job: tuple[str, ...], plan: Plan, directory: RunDirectory) -> None:
        self.job = job
        self.is_ready = False
        self._root = root_for(plan, log=directory.logs / "root.log")
        self.pid, self._wire = self._root.fork_zygote(plan, directory)
        self._exited: dict[int, int] = {}

    def await_fit(self) -> Failed | None:
        """Wait until the script has called `fit()`; gives the reason where it has not."""
        if self.is_ready:
            return None
        self._wire.end.settimeout(READY_S)
        try:
            message = self._wire.receive()
        except EOFError:
            code = self._root.exit_code(self.pid, within_s=END_S)
            return Failed("Exited", f"the script ended its process with code {code}")
        self.is_ready = isinstance(message, Ready)
        return None if isinstance(message, Ready) else message

    def start(self, request: StartRun) -> int:
        """Have a driver forked; gives its pid."""
        self._wire.send(request)
        while not isinstance(message := self._receive(), Started):
            self._exited[message.pid] = message.code
        return message.pid

    def exit_code(self, pid: int) -> int | None:
        """Give a driver's exit code, or None while it runs."""
        if pid not in self._exited and select.select([self._wire.end], [], [], POLL_S)[0]:
            message = self._receive()
            assert isinstance(message, Exited)
            self._exited[message.pid] = message.code
        return self._exited.pop(pid, None)

    def descendants(self) -> list[psutil.Process]:
        """Give what the zygote and its children have forked; orphans are its children too."""
        found: list[psutil.Process] = psutil.Process(self.pid).children(recursive=True)
        return [p for p in found if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]

    def end(self) -> None:
        """Kill the zygote and all below it."""
        try:
            zygote = psutil.Process(self.pid)
            below = self.descendants()
        except psutil.NoSuchProcess:
            below = []
        else:
            kill(zygote)
        for process in below:
            kill(process)
        self._root.exit_code(self.pid, within_s=END_S)
        self._wire.close()

    def _receive(self) -> Started | Exited:
        try:
            message: Started | Exited = self._wire.receive()
        except EOFError as error:
            raise HarnessError("the zygote is gone or does not answer") from error
        return message


def kill(process: psutil.Process) -> None:
    """Kill a process that may be gone already."""
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return
