"""The harness's side of the gates: answers drivers and workers, a thread per connection."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from chaos.faults.world import Target
from chaos.launch.process_world import ProcessWorld
from chaos.launch.world import build_answers
from chaos.probe.gates import GateConnection, StrangerError, listen
from chaos.run.controller import ChaosController

# Until the next `accept` after one that failed, as where no file descriptor is left for a while.
RETRY_S = 0.05


class GateServer:
    """The server of one run's chaos controller, at a name, until it is closed."""

    def __init__(self, name: str, controller: ChaosController, world: ProcessWorld) -> None:
        self._controller = controller
        self._world = world
        self._answers: dict[str, Callable[..., Any]] = {
            **build_answers(controller, world),
            "group_started": self._group_started,
            "placed": world.assign_node,
            "live_nodes": world.live_nodes,
            "draining": world.draining,
            "preempted": world.preempted,
            "exhausted": world.exhausted,
        }
        self._closed = threading.Event()
        self._server = listen(name)
        threading.Thread(target=self._accept, daemon=True, name="gates").start()

    def close(self) -> None:
        """Stop answering; a process that still asks sees the end of its connection."""
        self._closed.set()
        # shutdown, because a thread that waits in accept() would keep a closed socket alive
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        """Accept until closed; a failure of one connection does not stop the next."""
        while not self._closed.is_set():
            try:
                end, _ = self._server.accept()
            except OSError:  # closed, or out of file descriptors for a while
                self._closed.wait(RETRY_S)
                continue
            try:
                gate = GateConnection(end)
                threading.Thread(target=self._answer, args=(gate,), daemon=True).start()
            except StrangerError:
                continue  # closed unread
            except RuntimeError:  # no more threads: the other process sees the end at once
                end.close()

    def _answer(self, gate: GateConnection) -> None:
        try:
            with suppress(EOFError, OSError, msgspec.DecodeError):
                while True:
                    question, arguments = gate.receive_question()
                    gate.answer(self._answers[question](*arguments))
        finally:
            gate.close()

    def _group_started(self, group: dict[int, Target]) -> None:
        self._world.learn_group(group)
        self._controller.group_started(group)
