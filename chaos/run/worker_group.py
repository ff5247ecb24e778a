"""Who holds each rank of the attempt that runs, and whether Ray has launched it."""

from collections.abc import Mapping

from chaos.faults.world import Victim
from chaos.model.trigger import AtRecovery, AtStart, Trigger

NOBODY = 0  # a pid that no process has


class WorkerGroup:
    """The group that Ray's controller started last; guarded by the chaos controller's condition."""

    def __init__(self) -> None:
        self._holders: dict[int, Victim] = {}
        self._launched = -1

    @property
    def attempt(self) -> int:
        """The attempt that runs; 0 before there is one."""
        return max((v.attempt for v in self._holders.values()), default=0)

    def start(self, workers: Mapping[int, Victim]) -> bool:
        """Learn who holds each rank now; gives whether it is the first group."""
        is_first = not self._holders
        self._holders = dict(workers)
        return is_first

    def launch(self, attempt: int) -> None:
        """Learn that the train function was launched on every rank."""
        self._launched = max(self._launched, attempt)

    def get(self, rank: int) -> Victim | None:
        """Give who holds a rank, if anybody does."""
        return self._holders.get(rank)

    def holder(self, rank: int) -> Victim:
        """Give who holds a rank, or a victim that no process is."""
        nobody = Victim(attempt=self.attempt, rank=rank, pid=NOBODY, node_id="")
        return self._holders.get(rank, nobody)

    def is_ready(self, at: Trigger, attempt: int) -> bool:
        """Say whether an attempt has come so far that an op may strike at its place.

        At a start it is launched: a worker that Ray 2.60 loses in a launch
        costs the whole job. What is to strike in the launch waits for the group.
        """
        if isinstance(at, AtStart) and at.at_launch:
            return any(v.attempt >= attempt for v in self._holders.values())
        return not isinstance(at, AtRecovery | AtStart) or self._launched >= attempt
