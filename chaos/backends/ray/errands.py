"""What a fault needs done by the harness, whose main thread alone may start Ray's processes."""

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
        """Take the agents of the nodes that have joined."""
        self._came.put(agents)

    def came(self, *, within_s: float) -> dict[str, Any]:
        """Wait for them; gives their agents, none where time runs out."""
        try:
            return self._came.get(timeout=within_s)
        except Empty:
            return {}


class Capacity:
    """Orders for nodes, which the harness fills one after another: each gets its own."""

    def __init__(self) -> None:
        self._waiting: Queue[NodeOrder] = Queue()
        self._in_hand: NodeOrder | None = None

    def order(self, count: int) -> NodeOrder:
        """Ask for nodes."""
        asked = NodeOrder(count)
        self._waiting.put(asked)
        return asked

    def take_order(self) -> int:
        """Return how many nodes are to be started for the next order, 0 where there is none."""
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
    """The end and the new start of the GCS, which the head's starter alone can bring about."""

    def __init__(self) -> None:
        self._errand: GcsErrand | None = None
        self._pids: Queue[int] = Queue()

    def ask(self, errand: GcsErrand, *, within_s: float) -> int | None:
        """Wait until it is done; gives the pid that ended or began, None where time runs out."""
        self._errand = errand
        try:
            return self._pids.get(timeout=within_s)
        except Empty:
            return None

    def take_errand(self) -> GcsErrand | None:
        """Return what is to be done, once."""
        errand, self._errand = self._errand, None
        return errand

    def done(self, pid: int) -> None:
        """Learn that it is done."""
        self._pids.put(pid)
