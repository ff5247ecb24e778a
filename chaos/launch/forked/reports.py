"""The order of reports and errors: reports under way are taken first, as nearly always on Ray.

Ray's controller polls its workers every 2 s. By then, a report that a rank made
before another rank failed has arrived (Ray 2.60). Here it polls a hundred times
as often, and would see the error first. So an error is held back until every rank
that still trains has handed over as many reports as the furthest of those that
failed, or for 2 s, which is Ray's time between two polls.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

WAIT_S = 2.0


@dataclass
class PendingReports:
    """The reports that one worker group has handed over, by rank."""

    report_counts: Counter[int] = field(default_factory=Counter)
    since_ns: int | None = None

    def hides_errors(self, statuses: Mapping[int, Any], now_ns: int) -> bool:
        """Record one poll; return whether its errors are to be held back for a later one.

        `statuses` are Ray's `WorkerStatus` by rank.
        """
        self.report_counts.update(
            rank for rank, status in statuses.items() if status.training_report
        )
        failed = [rank for rank, status in statuses.items() if status.error is not None]
        if not failed:
            self.since_ns = None
            return False
        self.since_ns = now_ns if self.since_ns is None else self.since_ns
        if (now_ns - self.since_ns) / 1e9 >= WAIT_S:
            return False
        furthest = max(self.report_counts[rank] for rank in failed)
        return any(statuses[rank].training_report for rank in failed) or any(
            status.running and status.error is None and self.report_counts[rank] < furthest
            for rank, status in statuses.items()
        )
