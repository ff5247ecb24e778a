"""What the chaos controller has recorded, and what follows from it for an op."""

from collections.abc import Sequence

from chaos.faults.world import Victim
from chaos.model.event import AnyEvent, Committed, FaultInvoked
from chaos.model.plan import Op
from chaos.model.trigger import AtRecovery
from chaos.plan.due import is_recovering, is_spent
from chaos.run.journal import Journal


class Recorded:
    """The controller's own events and the commits it was told of, oldest first."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._events: list[AnyEvent] = []

    @property
    def events(self) -> Sequence[AnyEvent]:
        """All of them."""
        return self._events

    @property
    def commits(self) -> int:
        """How many epochs are committed."""
        return max((e.epoch + 1 for e in self._events if isinstance(e, Committed)), default=0)

    def add(self, event: AnyEvent) -> None:
        """Write an event down, and keep it."""
        self._journal.add(event)
        self._events.append(event)

    def learn(self, event: Committed) -> None:
        """Keep a commit, which the observer has written down."""
        self._events.append(event)

    def is_spent(self, op: Op, attempt: int) -> bool:
        """Return whether an op has nothing more to do in an attempt."""
        return is_spent(op, attempt, self._events)

    def is_struck(self, op: Op, victim: Victim) -> bool:
        """Return whether an op has struck the attempt of a victim."""
        return any(
            isinstance(e, FaultInvoked) and (e.op, e.attempt) == (op.index, victim.attempt)
            for e in self._events
        )

    def is_its_attempt(self, op: Op, attempt: int) -> bool:
        """Return whether an attempt recovers from the op that this one refers to, if to any."""
        return not isinstance(op.at, AtRecovery) or is_recovering(op.at, attempt, self._events)
