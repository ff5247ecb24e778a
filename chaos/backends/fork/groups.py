"""What a worker has started ends with it, as on Ray: a process group per worker.

Ray puts each worker into a process group of its own and, once the worker has
ended, however it did, sends the group SIGTERM and 200 ms later SIGKILL (Ray
2.60, RAY_process_group_cleanup_enabled, on since 2.57; ray-project/ray#64407).
A DataLoader's workers end so, which would else look for their parent every 5 s.
Whoever makes a session of its own is out of the group, there and here.
"""

import os
import signal

from chaos.run.clock import Clock, seconds_since

GRACE_S = 0.2


class ProcessGroups:
    """The groups of one parent's children, each named by its leader's pid."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._leaders: set[int] = set()
        self._asked_ns: dict[int, int] = {}

    def add(self, pid: int) -> None:
        """Know a child that leads a group of its own."""
        self._leaders.add(pid)

    def ended(self, pid: int) -> bool:
        """Ask the rest of the group to end where this is a leader, and return whether it is."""
        if pid not in self._leaders:
            return False
        self._leaders.remove(pid)
        if _signal(pid, signal.SIGTERM):
            self._asked_ns[pid] = self._clock.now_ns()
        return True

    def kill_the_late(self) -> None:
        """Kill those that were asked and are still there."""
        for pid, since_ns in list(self._asked_ns.items()):
            if seconds_since(since_ns, self._clock) >= GRACE_S:
                del self._asked_ns[pid]
                _signal(pid, signal.SIGKILL)


def _signal(group: int, number: int) -> bool:
    """Signal a group; False where nobody is left in it."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True
