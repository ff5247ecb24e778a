"""Questions of a run's processes to its chaos controller, and the socket that carries them.

Any process that the job starts may ask, a DataLoader's worker too, so the socket has a name,
which every user of the machine can read. Therefore each end checks the other's user
(`SO_PEERCRED`, unix(7)) before it reads a byte. A message is a question of this list in
MessagePack, of which nothing is ever executed.
"""

import os
import socket
import struct
import threading
from collections.abc import Mapping
from typing import Any

import msgspec

from chaos.faults.order import Order
from chaos.faults.world import Target
from chaos.model.event import Committed, FailureDecided
from chaos.probe.address import ControllerPort
from chaos.processes.wire import receive_exactly

_LENGTH = struct.Struct(">I")
_CREDENTIALS = struct.Struct("3i")  # pid, user, group
LENGTH_MAX = 64 * 2**20  # the metrics of all ranks are the longest message

# By name: the types of a question's arguments, and the type of its answer.
QUESTIONS: dict[str, tuple[Any, Any]] = {
    "next_attempt": (tuple[int], int),
    "group_started": (tuple[dict[int, Target]], None),
    "group_launched": (tuple[int], None),
    "began": (tuple[int, int], None),
    "resumed": (tuple[int, int], None),
    "rendezvous_hosted": (tuple[int], None),
    "rendezvous_port": (tuple[()], int),
    "node_taken": (tuple[()], bool),
    "agent_ready": (tuple[str], None),
    "attempt_of": (tuple[int, int, int], int),
    "part_started": (tuple[int, int, dict[int, Target]], None),
    "committed": (tuple[Committed], None),
    "may_poll": (tuple[()], None),
    "await_hold": (tuple[int], bool),
    "enter_state": (tuple[int], None),
    "arrive": (tuple[int, Target], Order | None),
    "obeyed": (tuple[str], None),
    "failure_decided": (tuple[FailureDecided], None),
    "placed": (tuple[int, str], None),
    "live_nodes": (tuple[()], list[str]),
    "draining": (tuple[()], dict[str, int]),
    "preempted": (tuple[()], list[str]),
    "exhausted": (tuple[()], list[int]),
}


class StrangerError(OSError):
    """The process at the other end runs as another user."""


class GateConnection:
    """One end of a connection between a process of the job and the harness."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        _, user, _ = _CREDENTIALS.unpack(
            end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        if user != os.geteuid():
            end.close()
            raise StrangerError(f"a process of user {user} is at the other end")

    def ask(self, question: str, *arguments: Any) -> Any:  # the question's answer
        """Return the answer to one of `QUESTIONS`; raises `EOFError` if the harness is gone."""
        _, answer = QUESTIONS[question]
        self._send([question, arguments])
        return msgspec.msgpack.decode(self._receive_message(), type=answer)

    def receive_question(self) -> tuple[str, tuple[Any, ...]]:
        """Return the next question and its arguments; raises `EOFError` at the end.

        Raises `msgspec.DecodeError` for a message that is none of `QUESTIONS`.
        """
        question, raw = msgspec.msgpack.decode(
            self._receive_message(), type=tuple[str, msgspec.Raw]
        )
        if question not in QUESTIONS:
            raise msgspec.DecodeError(f"there is no question {question!r}")
        arguments, _ = QUESTIONS[question]
        values: tuple[Any, ...] = msgspec.msgpack.decode(raw, type=arguments)
        return question, values

    def answer(self, value: Any) -> None:  # of the type in `QUESTIONS`
        self._send(value)

    def close(self) -> None:
        self._end.close()

    def _send(self, message: Any) -> None:
        body = msgspec.msgpack.encode(message)
        self._end.sendall(_LENGTH.pack(len(body)) + body)

    def _receive_message(self) -> bytes:
        (length,) = _LENGTH.unpack(receive_exactly(self._end, _LENGTH.size))
        if length > LENGTH_MAX:
            raise msgspec.DecodeError(f"{length} bytes are more than any question has")
        return receive_exactly(self._end, length)


def listen(name: str) -> socket.socket:
    """Listen at a name in the abstract namespace, which needs no file and no port."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(f"\0{name}")
    server.listen(128)
    return server


def connect(name: str) -> GateConnection:
    """Connect to a listener's name; raises `OSError` if no process of this user listens."""
    end = socket.socket(socket.AF_UNIX)
    end.connect(f"\0{name}")
    return GateConnection(end)


class SocketController(ControllerPort):
    """The port over a socket, one question at a time."""

    def __init__(self, name: str) -> None:
        self._gate = connect(name)
        self._lock = threading.Lock()

    def ask(self, question: str, *arguments: object) -> Any:  # the question's answer
        with self._lock:
            return self._gate.ask(question, *arguments)

    def group_started(self, group: Mapping[int, tuple[Target, Any]]) -> None:
        """Report the worker of each rank; its handle stays in this process."""
        self.ask("group_started", {rank: target for rank, (target, _) in group.items()})
