"""A baseline moved to the reports of another run, for a job that reports by the clock.

An epoch lies between two reports. Where these come by the clock, epoch 3, step 2 is another moment
of training in every run. The number of steps that a rank has made in all is the same measure in
every run:

    baseline   |1 2 3 4 5|6 7 8|9 10 ...      its step 7 is step 2 of epoch 1,
    run        |1 2 3|4 5 6 7|8 9 10 ...      and step 4 of epoch 1 on the run's reports

So every event of the baseline gets the place that the run has after as many steps.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import msgspec

from chaos.model.event import (
    AnyEvent,
    Committed,
    EpochEnded,
    FileCopied,
    FileRenamed,
    FileSaveBegun,
    FileSaved,
    FileWritten,
    LossResolved,
    ReportBegun,
    ReportReturned,
    StateSeen,
    StepDone,
    UploadBegun,
    UploadEnded,
    ValidationBegun,
)
from chaos.model.history import Baseline, History
from chaos.model.places import TrainingPlace
from chaos.resume.attempt import build_attempts
from chaos.resume.lineage import build_lineage

_STEP_EVENTS = (
    StepDone
    | LossResolved
    | FileCopied
    | FileSaveBegun
    | FileSaved
    | FileWritten
    | FileRenamed
    | ValidationBegun
)
_REPORT_EVENTS = EpochEnded | ReportBegun | ReportReturned | UploadBegun | UploadEnded

BY_REPORTS = frozenset({"metrics", "artifacts", "selection"})
WHY_NOT = "the job reports or saves at other steps in every run, and these are not compared"


@dataclass(frozen=True)
class ReportGrid:
    """The places of reports: the number of steps of each rank before each epoch, and in all."""

    cumulative_steps: Mapping[int, Sequence[int]]

    @classmethod
    def from_history(cls, history: History) -> "ReportGrid":
        """Return the grid of the surviving part of a run."""
        surviving_lineage = build_lineage(build_attempts(history))
        count = 1 + max((epoch for _, epoch in surviving_lineage.steps), default=-1)
        return cls(
            {
                rank: tuple(
                    accumulate(
                        (surviving_lineage.count_steps(rank, e) for e in range(count)), initial=0
                    )
                )
                for rank in surviving_lineage.ranks
            }
        )

    def count_steps(self, rank: int, epoch: int, step: int = 0) -> int:
        """Return the number of steps of a rank that are done at a place."""
        cumulative_steps = self._find_row(rank)
        return cumulative_steps[min(epoch, len(cumulative_steps) - 1)] + step

    def find_head(self, rank: int, step_count: int) -> TrainingPlace:
        """Return the place from which a rank continues after so many steps."""
        return self._find_place(
            rank, step_count, bisect_right(self._find_row(rank), step_count) - 1
        )

    def find_end(self, rank: int, step_count: int) -> TrainingPlace:
        """Return the place of the last of so many steps."""
        return self._find_place(rank, step_count, bisect_left(self._find_row(rank), step_count) - 1)

    def _find_place(self, rank: int, step_count: int, epoch: int) -> TrainingPlace:
        """Return a place within the known epochs: surplus steps belong to the last one."""
        cumulative_steps = self._find_row(rank)
        known_epoch = min(max(epoch, 0), len(cumulative_steps) - 2)
        return TrainingPlace(known_epoch, step_count - cumulative_steps[known_epoch])

    def _find_row(self, rank: int) -> Sequence[int]:
        """Return a rank's row; a rank without steps, as of a wider group, has the first row."""
        return self.cumulative_steps.get(rank) or next(iter(self.cumulative_steps.values()))


def regrid_baseline(baseline: History, run: History) -> History:
    """Return a baseline, and its repeats, with its steps at the places of a run."""
    grid = ReportGrid.from_history(run)
    if not isinstance(baseline, Baseline):
        return _regrid_history(baseline, grid)
    return Baseline([_regrid_history(history, grid) for history in baseline.runs])


def _regrid_history(history: History, target_grid: ReportGrid) -> History:
    source_grid = ReportGrid.from_history(history)
    if not source_grid.cumulative_steps or not target_grid.cumulative_steps:
        return history  # without any step, only reports have a place
    entries = []
    for entry in history:
        place_fields = _find_place_fields(entry.event, source_grid, target_grid)
        event = (
            msgspec.structs.replace(entry.event, **place_fields) if place_fields else entry.event
        )
        entries.append(msgspec.structs.replace(entry, event=event) if place_fields else entry)
    return History(entries, torn=history.torn)


def _find_place_fields(
    event: AnyEvent, source_grid: ReportGrid, target_grid: ReportGrid
) -> dict[str, int]:
    """Return the fields of an event's new place; empty where it has no place in training."""
    if isinstance(event, StateSeen | _STEP_EVENTS):
        step_count = source_grid.count_steps(event.rank, event.epoch, event.step)
        # At the border of two epochs there are two places for one number of steps. A state at an
        # entry belongs to the epoch that follows, any other event to the one that ends.
        is_next = event.step == 0 or (isinstance(event, StateSeen) and event.moment == "entered")
        epoch, step = (target_grid.find_head if is_next else target_grid.find_end)(
            event.rank, step_count
        )
        return {"epoch": epoch, "step": step}
    if isinstance(event, Committed | _REPORT_EVENTS):
        rank = 0 if isinstance(event, Committed) else event.rank
        return {
            "epoch": target_grid.find_end(rank, source_grid.count_steps(rank, event.epoch + 1))[0]
        }
    return {}
