"""Reports that are under way are taken before an error is told, as they nearly always are on Ray.

Ray's controller asks its workers every 2 s, and by then what a rank has
reported before another one failed has arrived (Ray 2.60). Here it asks a
hundred times as often, and would see the error first. So an error waits, in
polls that go on, until every rank that still trains has handed over as many
reports as the furthest of those that failed; or for as long as one poll takes there.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

WAIT_S = 2.0


@dataclass
class UnderWay:
    """The reports that one worker group has handed over, by rank."""

    taken: Counter[int] = field(default_factory=Counter)
    since_ns: int | None = None

    def hides_errors(self, statuses: Mapping[int, Any], now_ns: int) -> bool:
        """Take in one poll, and say whether its errors are to be told by a later one.

        `statuses` are Ray's `WorkerStatus` by rank.
        """
        self.taken.update(rank for rank, status in statuses.items() if status.training_report)
        failed = [rank for rank, status in statuses.items() if status.error is not None]
        if not failed:
            self.since_ns = None
            return False
        self.since_ns = now_ns if self.since_ns is None else self.since_ns
        if (now_ns - self.since_ns) / 1e9 >= WAIT_S:
            return False
        furthest = max(self.taken[rank] for rank in failed)
        return any(statuses[rank].training_report for rank in failed) or any(
            status.running and status.error is None and self.taken[rank] < furthest
            for rank, status in statuses.items()
        )
