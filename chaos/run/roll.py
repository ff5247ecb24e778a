"""Who holds each rank now, and how far the start of each attempt has come."""

from collections.abc import Mapping

from chaos.faults.world import Victim


class Roll:
    """Told by the observer; guarded by the chaos controller's condition.

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
