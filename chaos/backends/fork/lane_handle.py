"""The harness's handle to a lane, which a zygote forks for runs one after the other."""

import select

import psutil

from chaos.backends.fork.ending import end_all, is_running, living
from chaos.backends.fork.messages import Exited, Started, StartRun
from chaos.backends.fork.zygote_handle import END_S, ZygoteHandle
from chaos.errors import HarnessError

POLL_S = 0.01


class LaneHandle:
    """A fork of the script as it stands at its `fit()`."""

    def __init__(self, zygote: ZygoteHandle) -> None:
        self.zygote = zygote
        self.pid, self._wire = zygote.fork_lane()
        self._exited: dict[int, int] = {}

    @property
    def can_be_used(self) -> bool:
        """Whether its process runs."""
        return is_running(self.pid)

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
        """Give what the lane and its children have forked; orphans are its children too."""
        return living(self.pid)

    def end(self) -> None:
        """Kill the lane and all below it."""
        end_all(self.pid)
        self.zygote.exit_code(self.pid, within_s=END_S)
        self._wire.close()

    def _receive(self) -> Started | Exited:
        try:
            message: Started | Exited = self._wire.receive()
        except EOFError as error:
            raise HarnessError("the lane that runs are forked from is gone") from error
        return message
