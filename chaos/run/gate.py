"""Where a worker waits until a strike lets it go."""

import threading

from chaos.faults.order import Order
from chaos.faults.world import Victim
from chaos.model.event import GateReached
from chaos.model.plan import Op


class Gate:
    """Opened once, with what the worker that waits is to do to itself."""

    def __init__(self) -> None:
        self._opened = threading.Event()
        self._order: Order | None = None

    @property
    def is_open(self) -> bool:
        """Whether the worker may go on."""
        return self._opened.is_set()

    def open(self, order: Order | None) -> None:
        """Let the worker go on."""
        self._order = order
        self._opened.set()

    def wait(self, limit_s: float) -> Order | None:
        """Wait until the gate is open; gives the order."""
        self._opened.wait(limit_s)
        return self._order


def gate_reached(op: Op, victim: Victim) -> GateReached:
    """Return the event of a rank that stands at an op's place."""
    return GateReached(
        op=op.index,
        attempt=victim.attempt,
        rank=victim.rank,
        pid=victim.pid,
        node_id=victim.node_id,
    )
