"""The harness's handle to a lane, a fork of a zygote for runs one after the other."""

import select

from chaos.launch.forked.messages import ForkLane, StartRun, WorkerKilled
from chaos.launch.forked.zygote_handle import END_S, ZygoteHandle
from chaos.processes.forks import ChildExited, ChildStarted, build_death_error
from chaos.processes.tree import is_running, kill_tree
from chaos.run.ports import LaneFolders

POLL_S = 0.01
LANE = "the process that a lane's runs are forked from"


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
