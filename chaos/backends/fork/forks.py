"""A process that forks a child for each request: its own side, and the harness's handle to it.

The root forks the start of a script so, and the start of a script its lanes. Such
a process has one thread and does nothing else; each child has a connection of its own.
"""

import itertools
import os
import select
import selectors
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from chaos.backends.fork.messages import Exited, Started
from chaos.backends.fork.wire import Wire, listen
from chaos.backends.train.lifeline import die_with_parent, ended_children
from chaos.errors import HarnessError
from chaos.run.clock import SystemClock, seconds_since

CONNECT_S = 120.0
POLL_S = 0.01

# From the name that the child is to connect to, the request to have it forked.
Request: TypeAlias = Callable[[str], object]


def fork_for_each(harness: Wire) -> Any:  # noqa: ANN401 - whatever was asked for
    """Fork for each request, for ever; gives it in the child. Ends when the harness is gone."""
    selector = selectors.DefaultSelector()
    selector.register(harness.end, selectors.EVENT_READ)
    while True:
        if selector.select(POLL_S):
            try:
                request = harness.receive()
            except EOFError:
                os._exit(0)  # what was forked here is killed by the kernel with us
            sys.stdout.flush()
            parent, pid = os.getpid(), os.fork()
            if pid == 0:
                selector.close()
                harness.close()
                die_with_parent(parent)
                return request
            harness.send(Started(pid))
        for pid, code in ended_children():
            harness.send(Exited(pid, code))


class Forks:
    """The harness's handle to such a process; `what` it is stands in its errors."""

    _numbers = itertools.count()

    def __init__(self, wire: Wire, what: str) -> None:
        self._wire = wire
        self._what = what
        self._lock = threading.Lock()
        self._exited: dict[int, int] = {}
        self._is_closed = False
        self._clock = SystemClock()

    @property
    def can_be_asked(self) -> bool:
        """Whether nothing was broken off in mid-sentence, and nothing is closed."""
        return not self._is_closed

    def fork(self, request: Request, *, log: str) -> tuple[int, Wire]:
        """Give the pid of a new child and the connection to it; `log` is where it writes."""
        name = f"chaos-fork-{os.getpid()}-{next(self._numbers)}-{os.urandom(4).hex()}"
        server = listen(name)
        with server:
            with self._lock:
                self._wire.send(request(name))
                while not isinstance(message := self._receive(), Started):
                    self._exited[message.pid] = message.code
            server.settimeout(CONNECT_S)
            try:
                end, _ = server.accept()
            except TimeoutError as error:
                raise HarnessError(f"a process that was forked does not answer; see {log}") from (
                    error
                )
        end.settimeout(None)
        return message.pid, Wire(end)

    def exit_code(self, pid: int, *, within_s: float) -> int | None:
        """Wait for a child's end and give its exit code; None where it does not come.

        Nor does it where this process itself is gone, and its children with it.
        """
        start = self._clock.now_ns()
        while not self._is_closed:
            with self._lock:
                while select.select([self._wire.end], [], [], 0)[0]:
                    try:
                        message = self._receive()
                    except HarnessError:
                        return self._exited.pop(pid, None)
                    assert isinstance(message, Exited)
                    self._exited[message.pid] = message.code
                if pid in self._exited:
                    return self._exited.pop(pid)
            if seconds_since(start, self._clock) > within_s:
                return None
            self._clock.sleep(POLL_S)
        return None

    def close(self) -> None:
        """Close the connection: nobody is asked any more."""
        self._is_closed = True
        self._wire.close()

    def _receive(self) -> Started | Exited:
        try:
            message: Started | Exited = self._wire.receive()
        except EOFError as error:
            raise HarnessError(f"{self._what} is gone") from error
        except BaseException:  # broken off: its answer would be taken for that to the next question
            self.close()
            raise
        return message
