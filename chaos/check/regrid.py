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

from chaos.check.attempt import attempts
from chaos.check.lineage import lineage
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
from chaos.model.places import Place

_AT_STEP = (
    StepDone
    | LossResolved
    | FileCopied
    | FileSaveBegun
    | FileSaved
    | FileWritten
    | FileRenamed
    | ValidationBegun
)
_OF_REPORT = EpochEnded | ReportBegun | ReportReturned | UploadBegun | UploadEnded

BY_REPORTS = frozenset({"metrics", "artifacts", "selection"})
WHY_NOT = "the job reports or saves at other steps in every run, and these are not compared"


@dataclass(frozen=True)
class Grid:
    """The places of reports: the number of steps of each rank before each epoch, and in all."""

    before: Mapping[int, Sequence[int]]

    @classmethod
    def of(cls, history: History) -> "Grid":
        """Return the grid of the surviving part of a run."""
        survived = lineage(attempts(history))
        count = 1 + max((epoch for _, epoch in survived.steps), default=-1)
        return cls(
            {
                rank: tuple(accumulate((survived.count(rank, e) for e in range(count)), initial=0))
                for rank in survived.ranks
            }
        )

    def done_at(self, rank: int, epoch: int, step: int = 0) -> int:
        """Return the number of steps of a rank that are done at a place."""
        before = self._of(rank)
        return before[min(epoch, len(before) - 1)] + step

    def head(self, rank: int, done: int) -> Place:
        """Return the place from which a rank continues after so many steps."""
        return self._place(rank, done, bisect_right(self._of(rank), done) - 1)

    def end(self, rank: int, done: int) -> Place:
        """Return the place of the last of so many steps."""
        return self._place(rank, done, bisect_left(self._of(rank), done) - 1)

    def _place(self, rank: int, done: int, epoch: int) -> Place:
        """Return a place within the known epochs: surplus steps belong to the last one."""
        before = self._of(rank)
        within = min(max(epoch, 0), len(before) - 2)
        return Place(within, done - before[within])

    def _of(self, rank: int) -> Sequence[int]:
        """Return a rank's row; a rank without steps, as of a wider group, has the first row."""
        return self.before.get(rank) or next(iter(self.before.values()))


def relaid(baseline: History, run: History) -> History:
    """Return a baseline, and its repeats, with its steps at the places of a run."""
    grid = Grid.of(run)
    if not isinstance(baseline, Baseline):
        return _relaid(baseline, grid)
    return Baseline([_relaid(history, grid) for history in baseline.runs])


def _relaid(history: History, grid: Grid) -> History:
    own = Grid.of(history)
    if not own.before or not grid.before:
        return history  # without any step, only reports have a place
    entries = []
    for entry in history:
        place = _place(entry.what, own, grid)
        what = msgspec.structs.replace(entry.what, **place) if place else entry.what
        entries.append(msgspec.structs.replace(entry, what=what) if place else entry)
    return History(entries, torn=history.torn)


def _place(what: AnyEvent, own: Grid, grid: Grid) -> dict[str, int]:
    """Return the fields of an event's new place; empty where it has no place in training."""
    if isinstance(what, StateSeen | _AT_STEP):
        done = own.done_at(what.rank, what.epoch, what.step)
        # At the border of two epochs there are two places for one number of steps. A state at an
        # entry belongs to the epoch that follows, any other event to the one that ends.
        is_next = what.step == 0 or (isinstance(what, StateSeen) and what.moment == "entered")
        epoch, step = (grid.head if is_next else grid.end)(what.rank, done)
        return {"epoch": epoch, "step": step}
    if isinstance(what, Committed | _OF_REPORT):
        rank = 0 if isinstance(what, Committed) else what.rank
        return {"epoch": grid.end(rank, own.done_at(rank, what.epoch + 1))[0]}
    return {}
