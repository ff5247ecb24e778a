"""The state of the chaos controller: the worker of each rank, the gates, the events it recorded.

A rank that arrives at the place of an op waits at a `Gate` until the fault is injected. If its
report must stay uncommitted, it first asks the `PollBarrier` to hold Ray's controller: Ray's
controller commits a report when it polls its workers, so no commit comes between two polls.
All but `Gate` are guarded by the chaos controller's condition.
"""

import threading
from collections.abc import Callable, Mapping

from chaos.faults.order import Order
from chaos.faults.world import Target
from chaos.model.event import AnyEvent, Committed, FaultInvoked, GateReached
from chaos.model.plan import Op
from chaos.model.trigger import AtRecovery
from chaos.plan.op_state import is_recovering, is_spent
from chaos.run.journal import Journal


class Gate:
    """The gate of one op, opened once, with the order for the worker that waits, or None."""

    def __init__(self) -> None:
        self._opened = threading.Event()
        self._order: Order | None = None

    @property
    def is_open(self) -> bool:
        return self._opened.is_set()

    def open(self, order: Order | None) -> None:
        self._order = order
        self._opened.set()

    def wait(self, limit_s: float) -> Order | None:
        self._opened.wait(limit_s)
        return self._order


class WorkerRegistry:
    """The present worker of each rank, and the last attempt that was launched.

    An attempt's group is known before its train function is launched. If a worker
    dies between the two, Ray 2.60's controller itself fails, with any job: it waits
    for the launch outside of the code that handles failures of workers (see
    `ray-defects/death_at_launch_not_retried`).
    """

    def __init__(self) -> None:
        self._group: dict[int, Target] = {}
        self._launched = -1
        self._resume_epochs: dict[int, int] = {}

    @property
    def attempt(self) -> int:
        """The attempt whose group was started last; 0 if none was."""
        return max((worker.attempt for worker in self._group.values()), default=0)

    def set_group(self, workers: Mapping[int, Target]) -> bool:
        """Set the workers of a new attempt; return whether they are the first."""
        is_first = not self._group
        self._group = dict(workers)
        return is_first

    def record_launch(self, attempt: int) -> None:
        self._launched = max(self._launched, attempt)

    def record_resume(self, attempt: int, epoch: int) -> None:
        self._resume_epochs[attempt] = max(epoch, self.find_resume_epoch(attempt))

    def find_resume_epoch(self, attempt: int) -> int:
        """Return the epoch at which an attempt goes on by the job's own saves; 0: by none."""
        return self._resume_epochs.get(attempt, 0)

    def find_holder(self, rank: int) -> Target | None:
        return self._group.get(rank)

    def find_node_worker(self, node_id: str) -> Target | None:
        """Return the worker on a node, the first if it holds several."""
        return next((worker for worker in self._group.values() if worker.node_id == node_id), None)

    def knows_attempt(self, attempt: int) -> bool:
        """Return whether an attempt's group is known, or that of a later one."""
        return any(worker.attempt >= attempt for worker in self._group.values())

    def has_launched(self, attempt: int) -> bool:
        return self._launched >= attempt


class PollBarrier:
    """The hold of Ray's controller between two polls, for the ops that ask for it.

    A rank asks in one thread; Ray's controller comes to `hold_polls` in another, grants all that
    was asked for, and waits there until every such op has given its hold up:

        rank, before report()    request_hold ----> requested
        Ray's controller         hold_polls         granted; no poll, so no commit
        rank, after report()     arrive             the fault is injected
        thread of the fault      release_hold       the next poll
    """

    # `moment: reported` needs it. In Ray 2.60 a report that has returned on every rank is no
    # commit: the controller commits at its next poll. Whether a kill comes before or after that
    # poll is chance, and with it the place that a restart must go on from.

    def __init__(self, changed: threading.Condition, is_over: Callable[[], bool]) -> None:
        self._changed = changed
        self._is_over = is_over
        self._requested: set[int] = set()
        self._granted: set[int] = set()

    def has_hold(self, op: int) -> bool:
        return op in self._granted

    def request_hold(self, op: int, *, within_s: float) -> bool:
        """Wait until Ray's controller is held for an op; return whether it is."""
        self._requested.add(op)
        self._changed.notify_all()
        self._changed.wait_for(lambda: self._is_over() or self.has_hold(op), timeout=within_s)
        # What is not granted in time is taken back. The rank goes on without a hold, and nothing
        # would end one that Ray's controller granted later: every poll after it would stall.
        if not self.has_hold(op):
            self.release_hold(op)
        return self.has_hold(op)

    def hold_polls(self, *, within_s: float) -> None:
        """Wait, in Ray's controller, until no op needs the hold any longer."""
        if not self._requested:
            return
        self._changed.wait_for(self._grant_holds, timeout=within_s)
        # Also after a time-out: a rank may die between `request_hold` and its arrival.
        self.release_all()

    def release_hold(self, op: int) -> None:
        self._requested.discard(op)
        self._granted.discard(op)
        self._changed.notify_all()

    def release_all(self) -> None:
        """Drop all holds: a rank that asked may be dead, and never arrive."""
        self._requested.clear()
        self._granted.clear()
        self._changed.notify_all()

    def _grant_holds(self) -> bool:
        """Grant all holds that were asked for; return whether Ray's controller may poll."""
        # Asked again at each change of the condition: a rank that asks later is granted as well.
        if self._requested - self._granted:
            self._granted |= self._requested
            self._changed.notify_all()
        return self._is_over() or not self._requested


class RecordedEvents:
    """The chaos controller's own events, and the commits that the observer reported."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._events: list[AnyEvent] = []

    @property
    def commits(self) -> int:
        return max(
            (event.epoch + 1 for event in self._events if isinstance(event, Committed)), default=0
        )

    def add(self, event: AnyEvent) -> None:
        self._journal.add(event)
        self._events.append(event)

    def record_arrival(self, op: Op, worker: Target) -> None:
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
        """Keep a commit, which the observer has recorded."""
        self._events.append(event)

    def is_spent(self, op: Op, attempt: int) -> bool:
        """Return whether an op has nothing more to do in an attempt."""
        return is_spent(op, attempt, self._events)

    def has_fault(self, op: Op, attempt: int) -> bool:
        return any(
            isinstance(event, FaultInvoked) and (event.op, event.attempt) == (op.index, attempt)
            for event in self._events
        )

    def may_begin(self, op: Op, attempt: int) -> bool:
        """Return whether an op may begin in an attempt; only one of a recovery is bound to it."""
        return not isinstance(op.at, AtRecovery) or is_recovering(op.at, attempt, self._events)
