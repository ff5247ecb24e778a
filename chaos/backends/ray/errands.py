"""What a fault needs done by the harness, whose main thread alone may start Ray's processes."""

from queue import Empty, Queue
from typing import Any, Literal, TypeAlias

from chaos.run.clock import Clock, seconds_since

POLL_S = 0.05
GcsErrand: TypeAlias = Literal["end", "start"]


class Capacity:
    """Nodes that a fault has asked for, and those that the harness has started for it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wanted = 0
        self._came: dict[str, Any] = {}

    def ask(self, count: int, *, within_s: float) -> dict[str, Any]:
        """Wait for `count` new nodes; gives their agents, fewer where time runs out."""
        start = self._clock.now_ns()
        self._wanted += count
        while len(self._came) < count and seconds_since(start, self._clock) < within_s:
            self._clock.sleep(POLL_S)
        came, self._came = self._came, {}
        return came

    def take_order(self) -> int:
        """Give how many nodes are to be started, once."""
        wanted, self._wanted = self._wanted, 0
        return wanted

    def deliver(self, agents: dict[str, Any]) -> None:
        """Take the agents of nodes that have joined."""
        self._came = {**self._came, **agents}


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
        """Give what is to be done, once."""
        errand, self._errand = self._errand, None
        return errand

    def done(self, pid: int) -> None:
        """Learn that it is done."""
        self._pids.put(pid)
