"""What stands for the chaos controller behind a gate, and who asks it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from chaos.faults.order import Exhaust, Hang, Order, Raise, Slow
from chaos.faults.world import Target
from chaos.probe.gates import QUESTIONS, SocketController

NOBODY = 65534

ORDERS = [None, Raise("x"), Slow(0.5, None, 3), Hang("python"), Exhaust(7)]


class Answers:
    """Stands for the chaos controller: keeps what it was told, and gives the next order."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.orders: list[Order | None] = list(ORDERS)

    def __getattr__(self, name: str) -> Any:
        if name not in QUESTIONS:
            raise AttributeError(name)
        return lambda *arguments: self.told.append((name, *arguments))

    def await_hold(self, op: int) -> bool:
        return op == 1

    def arrive(self, op: int, target: Target) -> Order | None:
        self.told.append((op, target))
        return self.orders.pop(0)


@contextmanager
def asking(name: str) -> Iterator[SocketController]:
    controller = SocketController(name)
    try:
        yield controller
    finally:
        controller._gate.close()  # the process's, and open to its end
