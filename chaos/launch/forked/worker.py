"""A forked worker: Ray's own RayTrainWorker, served over a socket.

As on Ray, calls run one after the other in the main thread, and the train
function in a thread of its own.
"""

import itertools
import os
import queue
import socket
import threading
from concurrent.futures import Future
from typing import Any

from chaos.launch.forked import core
from chaos.launch.forked.messages import StartWorker
from chaos.processes.child import draw_fresh_randomness
from chaos.processes.wire import Wire


class WorkerServer:
    """The server of one driver's calls, until that driver is gone."""

    def __init__(self, instance: Any, wire: Wire) -> None:  # a RayTrainWorker
        self._instance = instance
        self._wire = wire
        self._calls: queue.SimpleQueue[tuple[int, str, tuple[Any, ...], dict[str, Any]]] = (
            queue.SimpleQueue()
        )
        self._open_questions: dict[int, Future[Any]] = {}
        self._numbers = itertools.count()
        core.DriverActor.ask_driver = self._ask_driver

    def serve(self) -> None:
        """Carry out calls for ever; the process ends when the driver does."""
        threading.Thread(target=self._listen, daemon=True, name="driver").start()
        while True:
            number, name, args, kwargs = self._calls.get()
            try:
                result = getattr(self._instance, name)(*args, **kwargs)
                # Sent within the `try`: a result that cannot be pickled is the caller's error, too.
                reply = ("reply", number, True, result)
                self._wire.send(reply)
            except Exception as error:  # noqa: BLE001 - it belongs to the caller
                self._wire.send(("reply", number, False, core.picklable(error)))

    def _listen(self) -> None:
        try:
            while True:
                kind, number, *rest = self._wire.receive()
                if kind == "call":
                    name, args, kwargs = rest
                    self._calls.put((number, name, args, kwargs))
                else:
                    core.set_outcome(self._open_questions.pop(number), *rest)
        except EOFError:
            os._exit(1)  # the driver is gone; nothing here may outlive it

    def _ask_driver(
        self, actor: int, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> core.Ref:
        future: Future[Any] = Future()
        number = next(self._numbers)
        self._open_questions[number] = future
        self._wire.send(("ask", number, actor, name, args, kwargs))
        return core.Ref(future)


def live_as_worker(
    spawn: StartWorker, end: socket.socket, instance: Any
) -> None:  # a RayTrainWorker
    """Become a worker, in a process that was forked for it; does not return."""
    os.environ.update(spawn.env)
    draw_fresh_randomness()
    wire = Wire(end, core.dumps)
    wire.send(os.getpid())
    WorkerServer(instance, wire).serve()
