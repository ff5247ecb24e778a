"""The harness's handle to the process that zygotes are forked from."""

import atexit
import itertools
import os
import select
import socket
import subprocess
import sys
import threading
from pathlib import Path

from chaos.backends.fork.messages import Exited, ForkZygote, Started
from chaos.backends.fork.settings import zygote_env
from chaos.backends.fork.wire import Wire, listen
from chaos.errors import HarnessError
from chaos.model.plan import Plan
from chaos.run.clock import SystemClock, seconds_since
from chaos.run.directory import RunDirectory

CONNECT_S = 120.0
POLL_S = 0.01


class RootHandle:
    """One root process. It ends by itself when this process does, however that ends."""

    _numbers = itertools.count()

    def __init__(self, plan: Plan, *, log: Path) -> None:
        ours, theirs = socket.socketpair()
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "chaos.backends.fork.root", str(theirs.fileno())],
                env=zygote_env(plan),
                cwd=plan.cwd,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        theirs.close()
        self._log = log
        self._wire = Wire(ours)
        self._lock = threading.Lock()
        self._exited: dict[int, int] = {}
        self._has_ended = False
        self._clock = SystemClock()

    @property
    def is_alive(self) -> bool:
        """Whether the process runs, and can be talked to."""
        return not self._has_ended and self._process.poll() is None

    def fork_zygote(self, plan: Plan, directory: RunDirectory) -> tuple[int, Wire]:
        """Give the pid of a new zygote and the connection to it."""
        name = f"chaos-zygote-{os.getpid()}-{next(self._numbers)}-{os.urandom(4).hex()}"
        log = str(directory.logs / "zygote.log")
        server = listen(name)
        with server:
            with self._lock:
                self._wire.send(
                    ForkZygote(name, str(directory.path), plan.cwd, log, zygote_env(plan))
                )
                while not isinstance(message := self._receive(), Started):
                    self._exited[message.pid] = message.code
            server.settimeout(CONNECT_S)
            try:
                end, _ = server.accept()
            except TimeoutError as error:
                raise HarnessError(f"the zygote does not answer; see {log}") from error
        end.settimeout(None)
        return message.pid, Wire(end)

    def exit_code(self, pid: int, *, within_s: float) -> int | None:
        """Wait for a zygote's end and give its exit code; None where it does not come."""
        start = self._clock.now_ns()
        while not self._has_ended:
            with self._lock:
                while select.select([self._wire.end], [], [], 0)[0]:
                    message = self._receive()
                    assert isinstance(message, Exited)
                    self._exited[message.pid] = message.code
                if pid in self._exited:
                    return self._exited.pop(pid)
            if seconds_since(start, self._clock) > within_s:
                return None
            self._clock.sleep(POLL_S)
        return None

    def _receive(self) -> Started | Exited:
        try:
            message: Started | Exited = self._wire.receive()
        except EOFError as error:
            raise HarnessError(
                f"the process that jobs are forked from is gone; see {self._log}"
            ) from error
        except BaseException:  # broken off: its answer would be taken for that to the next question
            self.end()
            raise
        return message

    def end(self) -> None:
        """End the process, and with it all that was forked from it."""
        self._has_ended = True
        self._process.kill()
        self._process.wait()
        self._wire.close()


_roots: dict[tuple[tuple[str, str], ...], RootHandle] = {}
_guard = threading.Lock()


def root_for(plan: Plan, *, log: Path) -> RootHandle:
    """Give the root for a plan: one for all jobs that ask for the same environment.

    What a module reads from the environment while it is imported must be there
    when the root starts, so jobs with an `env` of their own have one of their own.
    """
    key = tuple(sorted(plan.job.env.items()))
    with _guard:
        root = _roots.get(key)
        if root is not None and not root.is_alive:
            root.end()  # its end of the connection is still open
            root = None
        if root is None:
            root = _roots[key] = RootHandle(plan, log=log)
        return root


def end_roots() -> None:
    """End all roots; the next plan starts a new one."""
    with _guard:
        for root in _roots.values():
            root.end()
        _roots.clear()


# They end with this process however it ends; where it ends in good order, they are waited for.
atexit.register(end_roots)
