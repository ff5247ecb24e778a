"""What the chaos controller keeps: the holder of each rank, the gates, the events it recorded.

A rank that comes to the place of an op waits at a `Gate` until the fault is injected. One that
needs its report to stay uncommitted asks the `PollBarrier` to hold Ray's controller meanwhile.
All but `Gate` are guarded by the chaos controller's condition.
"""

import threading
from collections.abc import Callable, Mapping

from chaos.faults.order import Order
from chaos.faults.world import Victim
from chaos.model.event import AnyEvent, Committed, FaultInvoked, GateReached
from chaos.model.plan import Op
from chaos.model.trigger import AtRecovery
from chaos.plan.due import is_recovering, is_spent
from chaos.run.journal import Journal


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


class WorkerRegistry:
    """The worker that holds each rank now, and how far the start of each attempt has come.

    An attempt's group is known before its train function is launched. A worker
    that dies between the two makes Ray 2.60's controller itself fail (it waits
    for the launch outside of what it takes for a failure of workers), whatever
    the job is like: see `ray-defects/death_at_launch_not_retried`.
    """

    def __init__(self) -> None:
        self._group: dict[int, Victim] = {}
        self._launched = -1

    @property
    def attempt(self) -> int:
        """The attempt whose group was started last; 0 where none was."""
        return max((worker.attempt for worker in self._group.values()), default=0)

    def started(self, workers: Mapping[int, Victim]) -> bool:
        """Take the workers of a new attempt, and say whether they are the first."""
        is_first = not self._group
        self._group = dict(workers)
        return is_first

    def launched(self, attempt: int) -> None:
        """Take it that every rank of an attempt has begun its train function."""
        self._launched = max(self._launched, attempt)

    def holder(self, rank: int) -> Victim | None:
        """Return who holds a rank, if anybody does."""
        return self._group.get(rank)

    def on(self, node_id: str) -> Victim | None:
        """Return the worker that a node holds, the first where it holds several."""
        return next((worker for worker in self._group.values() if worker.node_id == node_id), None)

    def knows(self, attempt: int) -> bool:
        """Return whether an attempt's group is known, or that of a later one."""
        return any(worker.attempt >= attempt for worker in self._group.values())

    def has_launched(self, attempt: int) -> bool:
        """Return whether an attempt was launched on every rank."""
        return self._launched >= attempt


class PollBarrier:
    """Holds Ray's controller between two polls for the ops that ask for it."""

    def __init__(self, changed: threading.Condition, is_over: Callable[[], bool]) -> None:
        self._changed = changed
        self._is_over = is_over
        self._asked: set[int] = set()
        self._granted: set[int] = set()

    def has(self, op: int) -> bool:
        """Return whether Ray's controller is held for an op."""
        return op in self._granted

    def ask(self, op: int, *, within_s: float) -> bool:
        """Wait until Ray's controller is held for an op, and say whether it is."""
        self._asked.add(op)
        self._changed.notify_all()
        self._changed.wait_for(lambda: self._is_over() or self.has(op), timeout=within_s)
        if not self.has(op):
            self.give_up(op)
        return self.has(op)

    def stand(self, *, within_s: float) -> None:
        """Stand still, in Ray's controller, until no op needs it any longer."""
        if not self._asked:
            return
        self._changed.wait_for(self._need_none, timeout=within_s)
        self.give_up_all()

    def give_up(self, op: int) -> None:
        """Need no hold for an op any longer."""
        self._asked.discard(op)
        self._granted.discard(op)
        self._changed.notify_all()

    def give_up_all(self) -> None:
        """Need no hold at all: a rank that asked may be dead now and never come."""
        self._asked.clear()
        self._granted.clear()
        self._changed.notify_all()

    def _need_none(self) -> bool:
        """Grant what was asked for, and say whether polls may go on."""
        if self._asked - self._granted:
            self._granted |= self._asked
            self._changed.notify_all()
        return self._is_over() or not self._asked


class RecordedEvents:
    """The chaos controller's own events and the commits it was told of."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._events: list[AnyEvent] = []

    @property
    def commits(self) -> int:
        """How many epochs are committed."""
        return max((e.epoch + 1 for e in self._events if isinstance(e, Committed)), default=0)

    def add(self, event: AnyEvent) -> None:
        """Write an event down, and keep it."""
        self._journal.add(event)
        self._events.append(event)

    def add_reached(self, op: Op, worker: Victim) -> None:
        """Record that a rank stands at an op's place."""
        self.add(
            GateReached(
                op=op.index,
                attempt=worker.attempt,
                rank=worker.rank,
                pid=worker.pid,
                node_id=worker.node_id,
            )
        )

    def learn(self, event: Committed) -> None:
        """Keep a commit, which the observer has written down."""
        self._events.append(event)

    def is_spent(self, op: Op, attempt: int) -> bool:
        """Return whether an op has nothing more to do in an attempt."""
        return is_spent(op, attempt, self._events)

    def is_struck(self, op: Op, attempt: int) -> bool:
        """Return whether an op has struck an attempt."""
        return any(
            isinstance(e, FaultInvoked) and (e.op, e.attempt) == (op.index, attempt)
            for e in self._events
        )

    def is_its_attempt(self, op: Op, attempt: int) -> bool:
        """Return whether an attempt recovers from the op that this one refers to, if to any."""
        return not isinstance(op.at, AtRecovery) or is_recovering(op.at, attempt, self._events)
