"""A process that forks a child for each request: its own side, and the harness's handle to it.

The root forks zygotes so, and a zygote its lanes (`launch.forked.root` has a drawing). Such a
process has one thread and does nothing else. Each child has a connection of its own to the
harness; the child's end comes along with the request.
"""

import os
import select
import selectors
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.errors import HarnessError
from chaos.processes.child import die_with_parent, reap_children
from chaos.processes.wire import Wire
from chaos.run.clock import SystemClock, elapsed_seconds
from chaos.run.signals import MEMORY, describe_kill

POLL_S = 0.01
ENDS_IN_S = 5.0  # a process that has closed its connection


@dataclass(frozen=True)
class ChildStarted:
    """The child that was asked for is forked."""

    pid: int


@dataclass(frozen=True)
class ChildExited:
    """A forked child has ended; negative codes are signals."""

    pid: int
    code: int


@contextmanager
def exit_with_harness(harness: socket.socket) -> Iterator[None]:
    """End this process if the harness ends meanwhile: it imports, and reads no socket for seconds.

    The kernel's signal at the parent's end (PR_SET_PDEATHSIG) would come when the harness's
    thread ends that started this process. The thread made here ends before any fork, which
    would not copy it.
    """
    stop, stops = os.pipe()
    ends = select.poll()
    ends.register(harness, select.POLLRDHUP)
    ends.register(stop, select.POLLIN)

    def wait() -> None:
        if any(fd == harness.fileno() for fd, _ in ends.poll()):
            os._exit(1)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    try:
        yield
    finally:
        os.close(stops)
        waiting.join()
        os.close(stop)


def serve_forks(harness: Wire) -> tuple[Any, Wire]:
    """Fork for each request, for ever; return only in a child, with its request and connection.

    The process ends when the harness is gone.
    """
    # One thread for requests and for the ends of children. A fork copies the calling thread alone:
    # a lock that another one held at that moment would stay locked in the child for ever.
    selector = selectors.DefaultSelector()
    selector.register(harness.end, selectors.EVENT_READ)
    while True:
        if selector.select(POLL_S):
            try:
                request, end = harness.receive_with_socket()
            except EOFError:
                os._exit(0)  # the kernel then kills the children, which asked it to
            assert end is not None
            # Flushed before: a copy of the buffer would be printed by the child once more.
            sys.stdout.flush()
            parent, pid = os.getpid(), os.fork()
            if pid == 0:
                # The child keeps its own connection only: with a copy of this process's it would
                # hold that open, and the harness would not see this process end. `parent` is asked
                # for before the fork, so that a parent which is gone by now is noticed.
                selector.close()
                harness.close()
                die_with_parent(parent)
                return request, Wire(end)
            end.close()  # an open copy would hide the child's end from the harness
            # Always before the Exited of this child, which is reaped below, in the same thread.
            harness.send(ChildStarted(pid))
        for pid, code in reap_children():
            harness.send(ChildExited(pid, code))


class Forks:
    """The harness's handle to such a process; `build_error` returns the error for an ended one."""

    def __init__(self, wire: Wire, build_error: Callable[[], HarnessError]) -> None:
        self._wire = wire
        self._build_error = build_error
        self._lock = threading.Lock()
        self._exited: dict[int, int] = {}
        self._is_closed = False
        self._clock = SystemClock()

    @property
    def is_usable(self) -> bool:
        """Whether the connection is open, and no message was left half read."""
        return not self._is_closed

    def fork(self, request: object) -> tuple[int, Wire]:
        """Return the pid of a new child and the connection to it, which ends when the child does.

        Raises `HarnessError` if the process that forks is gone.
        """
        own_end, child_end = socket.socketpair()
        try:
            # The lock is kept from the request to its answer: threads of the harness, one per lane,
            # may ask the same process, and the next Started on the wire must be the asker's own.
            # What comes before it are ends of other children, kept for `exit_code`.
            with child_end, self._lock:
                self._send(request, child_end)
                while not isinstance(message := self._receive(), ChildStarted):
                    self._exited[message.pid] = message.code
        except BaseException:
            own_end.close()
            raise
        return message.pid, Wire(own_end)

    def exit_code(self, pid: int, *, within_s: float) -> int | None:
        """Wait for a child's end and return its exit code; None if it does not end in time.

        None also if the process that forks is gone, and its children with it.
        """
        start = self._clock.now_ns()
        while not self._is_closed:
            with self._lock:
                # Reports of other children come first, and are kept until they are asked for.
                while select.select([self._wire.end], [], [], 0)[0]:
                    try:
                        message = self._receive()
                    except HarnessError:
                        return self._exited.pop(pid, None)
                    assert isinstance(message, ChildExited)
                    self._exited[message.pid] = message.code
                if pid in self._exited:
                    return self._exited.pop(pid)
            if elapsed_seconds(start, self._clock) > within_s:
                return None
            self._clock.sleep(POLL_S)
        return None

    def close(self) -> None:
        self._is_closed = True
        self._wire.close()

    def _send(self, request: object, passed_socket: socket.socket) -> None:
        try:
            self._wire.send(request, passed_socket=passed_socket)
        except OSError as error:
            raise self._build_error() from error

    def _receive(self) -> ChildStarted | ChildExited:
        try:
            message: ChildStarted | ChildExited = self._wire.receive()
        except EOFError as error:
            raise self._build_error() from error
        except BaseException:  # half read: the rest would be taken for the next answer
            self.close()
            raise
        return message


class ForkingProcess:
    """A new interpreter that forks on request. It ends by itself when this process ends.

    `command` are the interpreter's arguments; the number of its socket follows them.
    """

    def __init__(
        self, command: Sequence[str], *, env: Mapping[str, str], cwd: str, log: Path
    ) -> None:
        own_end, child_end = socket.socketpair()
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, *command, str(child_end.fileno())],
                env=env,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                pass_fds=[child_end.fileno()],
                start_new_session=True,
            )
        child_end.close()
        self._log = log
        self.forks = Forks(Wire(own_end), self._build_error)

    @property
    def is_alive(self) -> bool:
        return self.forks.is_usable and self._process.poll() is None

    def end(self) -> None:
        """End the process, and with it all that was forked from it."""
        self._process.kill()
        self._process.wait()
        self.forks.close()

    def _build_error(self) -> HarnessError:
        process_name = f"the process that jobs are forked from (it wrote to {self._log})"
        try:
            code = self._process.wait(ENDS_IN_S)
        except subprocess.TimeoutExpired:
            return build_death_error(process_name)
        if code < 0:
            return build_death_error(process_name, code)
        log_lines = self._log.read_text(encoding="utf-8", errors="replace").split("\n")
        last_line = next(
            (line for line in reversed(log_lines) if line.strip()), "it printed nothing"
        )
        return HarnessError(
            f"{process_name} ended by itself, with exit code {code}: {last_line.strip()}"
        )


class WarmProcesses:
    """Processes that fork on request, by a key: what they were started with, and cannot change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: dict[object, ForkingProcess] = {}

    def get(self, key: object, start: Callable[[], ForkingProcess]) -> ForkingProcess:
        """Return the process of a key, which may still be at its imports; start it if need be."""
        with self._lock:
            process = self._processes.get(key)
            if process is not None and not process.is_alive:
                process.end()  # its end of the connection is still open
                process = None
            if process is None:
                process = self._processes[key] = start()
            return process

    def end(self, key: object) -> None:
        """End the process of a key, if there is one: it holds the memory of its imports."""
        with self._lock:
            process = self._processes.pop(key, None)
            if process is not None:
                process.end()

    def close(self) -> None:
        """End all, and what was forked from them; a key may be asked for again."""
        with self._lock:
            for process in self._processes.values():
                process.end()
            self._processes.clear()


def build_death_error(process_name: str, code: int | None = None) -> HarnessError:
    """Return the error for a process of chaos that ended too early; a negative code is a signal."""
    text = f"{process_name} is gone, and chaos did not end it. {MEMORY}"
    return HarnessError(text if code is None else describe_kill(process_name, code))
