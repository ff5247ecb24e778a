"""A process group per worker, which ends with the worker, as on Ray.

Ray puts each worker into a process group of its own. Once the worker has ended,
for whatever reason, Ray sends the group SIGTERM and 200 ms later SIGKILL (Ray
2.60, RAY_process_group_cleanup_enabled, on since 2.57; ray-project/ray#64407).
So a DataLoader's workers end, which otherwise look for their parent every 5 s.
A process that makes a session of its own leaves the group, there and here.
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
        """Add a child that leads a group of its own."""
        self._leaders.add(pid)

    def ended(self, pid: int) -> bool:
        """Return whether an ended child was a leader; if so, send the rest of its group SIGTERM."""
        if pid not in self._leaders:
            return False
        self._leaders.remove(pid)
        if _signal(pid, signal.SIGTERM):
            self._asked_ns[pid] = self._clock.now_ns()
        return True

    def kill_the_late(self) -> None:
        """Kill the groups whose SIGTERM was sent `GRACE_S` ago."""
        for pid, since_ns in list(self._asked_ns.items()):
            if seconds_since(since_ns, self._clock) >= GRACE_S:
                del self._asked_ns[pid]
                _signal(pid, signal.SIGKILL)


def _signal(group: int, number: int) -> bool:
    """Signal a group; return whether a process was left in it."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True
