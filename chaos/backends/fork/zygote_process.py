"""The harness's handle to a zygote: starts it, has it fork drivers, ends it."""

import contextlib
import os
import select
import socket
import subprocess
import sys

import psutil

from chaos.backends.fork.messages import Exited, Failed, Ready, Started, StartRun
from chaos.backends.fork.settings import zygote_env
from chaos.backends.fork.wire import Wire
from chaos.errors import HarnessError
from chaos.model.plan import Plan
from chaos.run.directory import RunDirectory

POLL_S = 0.01
READY_S = 120.0


class ZygoteProcess:
    """The harness's handle to a zygote."""

    def __init__(self, job: tuple[str, ...], plan: Plan, directory: RunDirectory) -> None:
        self.job = job
        self.is_ready = False
        ours, theirs = socket.socketpair()
        words = [str(directory.path), str(os.getpid()), str(theirs.fileno())]
        log = (directory.logs / "zygote.log").open("wb")
        with log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "chaos.backends.fork.zygote", *words],
                env=zygote_env(plan),
                cwd=plan.cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        theirs.close()
        self._wire = Wire(ours)
        self._exited: dict[int, int] = {}

    @property
    def pid(self) -> int:
        """The zygote's own pid."""
        return self._process.pid

    def await_fit(self) -> Failed | None:
        """Wait until the script has called `fit()`; gives the reason where it has not."""
        if self.is_ready:
            return None
        self._wire.end.settimeout(READY_S)
        try:
            message = self._wire.receive()
        except EOFError:
            code = self._process.wait()
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
        below = self.descendants() if self._process.poll() is None else []
        self._process.kill()
        for process in below:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()
        self._wire.close()

    def _receive(self) -> Started | Exited:
        try:
            message: Started | Exited = self._wire.receive()
        except EOFError as error:
            raise HarnessError("the zygote is gone or does not answer") from error
        return message
