"""The harness's side of the gates: answers drivers and workers, a thread per connection."""

import socket
import threading
from collections.abc import Callable
from typing import Any

from chaos.backends.fork.wire import Wire, listen
from chaos.backends.fork.world import ForkWorld
from chaos.faults.world import Victim
from chaos.run.controller import ChaosController


class GateServer:
    """Serves one run's chaos controller at a name until it is closed."""

    def __init__(self, name: str, controller: ChaosController, world: ForkWorld) -> None:
        self._controller = controller
        self._world = world
        self._methods: dict[str, Callable[..., Any]] = {
            "group_started": self._group_started,
            "group_launched": controller.group_launched,
            "committed": controller.committed,
            "may_poll": controller.may_poll,
            "await_hold": controller.await_hold,
            "enter_state": controller.enter_state,
            "arrive": controller.arrive,
            "obeyed": world.obeyed,
            "failure_decided": world.failure_decided,
            "live_nodes": world.live_nodes,
            "draining": world.draining,
            "preempted": world.preempted,
            "exhausted": world.exhausted,
        }
        self._server = listen(name)
        threading.Thread(target=self._accept, daemon=True, name="gates").start()

    def close(self) -> None:
        """Stop answering; those who still ask see the end of their connection."""
        # shutdown, because a thread that waits in accept() would keep a closed socket alive
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                end, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(Wire(end),), daemon=True).start()

    def _answer(self, wire: Wire) -> None:
        try:
            while True:
                method, arguments = wire.receive()
                wire.send(self._methods[method](*arguments))
        except (EOFError, OSError):
            wire.close()

    def _group_started(self, group: dict[int, Victim]) -> None:
        self._world.learn_group(group)
        self._controller.group_started(group)
