"""Tasks of a fault for the harness, whose main thread alone may start Ray's processes."""

from queue import Empty, Queue
from typing import Any, Literal, TypeAlias

GcsErrand: TypeAlias = Literal["end", "start"]


class NodeOrder:
    """Nodes that one fault has asked for; `is_taken` once the harness has begun to start them."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.is_taken = False
        self._came: Queue[dict[str, Any]] = Queue()

    def fill(self, agents: dict[str, Any]) -> None:
        """Set the agents of the nodes that have joined."""
        self._came.put(agents)

    def came(self, *, within_s: float) -> dict[str, Any]:
        """Wait for the nodes; return their agents, none if time runs out."""
        try:
            return self._came.get(timeout=within_s)
        except Empty:
            return {}


class Capacity:
    """Orders for nodes, which the harness fills one after another, each with nodes of its own."""

    def __init__(self) -> None:
        self._waiting: Queue[NodeOrder] = Queue()
        self._in_hand: NodeOrder | None = None

    def order(self, count: int) -> NodeOrder:
        """Add an order for nodes."""
        asked = NodeOrder(count)
        self._waiting.put(asked)
        return asked

    def take_order(self) -> int:
        """Return the number of nodes of the next order, 0 if there is none."""
        try:
            self._in_hand = self._waiting.get_nowait()
        except Empty:
            return 0
        self._in_hand.is_taken = True
        return self._in_hand.count

    def deliver(self, agents: dict[str, Any]) -> None:
        """Fill the order that was taken last."""
        if self._in_hand is not None:
            self._in_hand.fill(agents)


class Gcs:
    """The end and the new start of the GCS, which only the process that started the head can do."""

    def __init__(self) -> None:
        self._errand: GcsErrand | None = None
        self._pids: Queue[int] = Queue()

    def ask(self, errand: GcsErrand, *, within_s: float) -> int | None:
        """Wait until it is done; return the pid that ended or began, None if time runs out."""
        self._errand = errand
        try:
            return self._pids.get(timeout=within_s)
        except Empty:
            return None

    def take_errand(self) -> GcsErrand | None:
        """Return the task, only once."""
        errand, self._errand = self._errand, None
        return errand

    def done(self, pid: int) -> None:
        """Note that the task is done."""
        self._pids.put(pid)
