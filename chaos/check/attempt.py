"""The life of one worker group, as a row."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Self

from chaos.check.steps import NO_STEPS, Steps, steps_by_attempt
from chaos.model.event import (
    CheckpointRead,
    Committed,
    EpochEnded,
    FailureDecided,
    NoticeGiven,
    ReportBegun,
    Repositioned,
    ResumeEvidence,
    WorkerGroupStarted,
    WorkerPlace,
    WorkerStarted,
    resume_grounds,
)
from chaos.model.history import History
from chaos.model.places import START, AttemptRank, Place, RankEpoch


@dataclass(frozen=True, slots=True)
class Resumed:
    """The place at which a rank resumed, and the evidence."""

    place: Place
    by: ResumeEvidence
    #: the places that fit equally well
    others: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Commit:
    """A report that Ray's controller recorded."""

    number: int
    attempt: int
    epoch: int
    checkpoint: str | None
    #: of all ranks; only rank 0's where `of_survivors`: Ray 2.60 does not show whose the others
    #: are, and always waits for rank 0
    metrics: tuple[dict[str, object], ...]
    #: it did not wait for the ranks of a node that was announced to go
    #: (`relax_collectives_on_preemption`)
    of_survivors: bool = False
    #: the place where the content of the checkpoint was saved, if that was not at the report
    older: Place | None = None

    @property
    def goes_on(self) -> Place:
        """The place at which a restart from its checkpoint continues."""
        return self.older or Place(self.epoch + 1, 0)


@dataclass(frozen=True, slots=True)
class Start:
    """A rank that is ready to train: the checkpoint it was handed, and its place."""

    number: int
    rank: int
    checkpoint: str | None
    epoch: int
    #: it continues after this step of `epoch`
    step: int = 0
    #: the file that gave its place, if one did
    path: str | None = None
    #: whether it had found its place; otherwise it made no step
    settled: bool = True
    #: the evidence for the place, None where a first step that would show it was not seen
    by: ResumeEvidence | None = None
    #: the place is not the one of the checkpoint that it was handed
    moved: bool = False
    #: the places that fit as well
    others: tuple[Place, ...] = ()

    @property
    def place(self) -> Place:
        """The place from which it continues."""
        return Place(self.epoch, self.step)

    def resumed(
        self,
        epoch: int,
        step: int,
        by: ResumeEvidence,
        *,
        path: str | None = None,
        others: tuple[Place, ...] = (),
    ) -> Self:
        """Return the start at the place at which it resumed."""
        place = Place(epoch, step)
        moved = self.moved or self.place != place
        at = replace(self, epoch=epoch, step=step, moved=moved)
        return replace(at, path=path, by=by, others=others)

    @property
    def is_later(self) -> bool:
        """Whether it was seen to continue from a place after the beginning, whatever it read."""
        return self.by not in (None, "commit", "nothing") and self.place > START


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision of Ray's controller on a failure."""

    number: int
    event: FailureDecided


@dataclass(frozen=True)
class Attempt:
    """All events that carry one attempt's index, whenever they were written.

    Stragglers of an ended attempt belong to it.
    """

    index: int
    #: the number of its WorkerGroupStarted, None if that was not seen
    group_started: int | None
    places: tuple[WorkerPlace, ...]
    starts: Mapping[int, Start]
    steps: Steps
    commits: tuple[Commit, ...]
    #: the (rank, epoch) that entered `report()` or, without one, ended with a save of the job's own
    reported: frozenset[RankEpoch]
    #: the ranks that read their checkpoint
    asked: frozenset[int]
    decisions: tuple[Decision, ...]
    #: commits from before it trained anything; they end no epoch
    early: tuple[Commit, ...] = ()

    @property
    def epoch(self) -> int | None:
        """The earliest epoch of its ranks; None if none has started."""
        return None if self.place is None else self.place.epoch

    @property
    def size(self) -> int:
        """Its number of workers."""
        return len(self.places) or len(self.starts)

    @cached_property
    def place(self) -> Place | None:
        """The earliest place of its ranks."""
        return min((start.place for start in self.starts.values() if start.settled), default=None)

    def resumed_at(self, rank: int) -> Place | None:
        """Return where a rank continues; the earliest place of all where its own is not known."""
        start = self.starts.get(rank)
        return start.place if start is not None and start.settled else self.place

    @property
    def grounds(self) -> str:
        """The evidence for its place, in words; empty where none of its ranks made a step."""
        settled = [start for start in self.starts.values() if start.by is not None]
        first = min(settled, key=lambda start: start.place, default=None)
        return "" if first is None or first.by is None else resume_grounds(first.by, first.path)

    def steps_of(self, rank: int, epoch: int) -> Steps:
        """Return the steps of one rank in one epoch."""
        return self.steps.by_epoch.get(RankEpoch(rank, epoch), NO_STEPS)

    @property
    def first_steps(self) -> Mapping[int, int]:
        """The number of each rank's first step."""
        return {rank: steps[0].number for rank, steps in self.steps.by_rank.items()}

    def ended_epoch(self, rank: int, epoch: int) -> bool:
        """Return whether a rank has made every step of an epoch in this attempt."""
        return (rank, epoch) in self.reported or any(c.epoch == epoch for c in self.commits)


def attempts(
    history: History,
    epochs: int | None = None,
    found: Mapping[AttemptRank, Resumed] = MappingProxyType({}),
) -> tuple[Attempt, ...]:
    """Sort a history's events by the attempt they carry, oldest attempt first.

    `epochs`: the number of epochs of the job without faults, where that is known. `found`: where
    a rank of an attempt resumed, if no event tells it.
    """
    rows: dict[int, _Rows] = {}
    _add_controllers(history, rows)
    _add_workers(history, rows)
    for (index, rank), evidence in found.items():
        starts = rows[index].starts
        starts[rank] = starts[rank].resumed(*evidence.place, evidence.by, others=evidence.others)
    for index, steps in steps_by_attempt(history).items():
        rows.setdefault(index, _Rows()).steps = steps
    # The place at a rank's start is preliminary where Ray handed it nothing: its first step shows
    # where it resumed. A rank that made none may have ended before that.
    if not any(done.checkpoint is not None for _, done in history.of(Committed)):
        for index, row in rows.items():
            if index > 0:
                row.settle()
    # A report is early if it comes before its attempt's first step. In attempts after the last one
    # that trained, no step follows, and such reports may be those of the last epochs.
    last = max((index for index, row in rows.items() if row.steps), default=-1)
    for index, row in rows.items():
        if row.early and index > last:
            row.count_early(epochs)
    every = (row.attempt(index) for index, row in sorted(rows.items()))
    return tuple(
        a for a in every if a.group_started is not None or a.starts or a.steps or a.commits
    )


@dataclass
class _Rows:
    group_started: int | None = None
    places: tuple[WorkerPlace, ...] = ()
    starts: dict[int, Start] = field(default_factory=dict)
    steps: Steps = NO_STEPS
    commits: list[Commit] = field(default_factory=list)
    reported: set[RankEpoch] = field(default_factory=set)
    asked: set[int] = field(default_factory=set)
    decisions: list[Decision] = field(default_factory=list)
    early: list[Commit] = field(default_factory=list)

    def attempt(self, index: int) -> Attempt:
        return Attempt(
            index=index,
            group_started=self.group_started,
            places=self.places,
            starts=self.starts,
            steps=self.steps,
            commits=self._placed_commits(),
            reported=frozenset(self.reported),
            asked=frozenset(self.asked),
            decisions=tuple(self.decisions),
            early=tuple(self.early),
        )

    def count_early(self, epochs: int | None) -> None:
        """Count early reports as ends of epochs, in an attempt that trained nothing.

        Where the number of `epochs` is known, only the last reports count: with nothing left to
        train, a job validates as at every start, and then reports its final result.
        """
        # A report before the first step of an attempt is one of two things that look alike: a job
        # that validates at every start, which ends no epoch, or the last reports of a job that was
        # ended between its last step and its end. What tells them apart is how many are due: the
        # baseline's number of epochs less those before this attempt. Counted from the end, since a
        # validation comes first.
        first = min((start.epoch for start in self.starts.values()), default=0)
        every = sorted([*self.early, *self.commits], key=lambda commit: commit.number)
        due = len(every) if epochs is None else max(epochs - first, 0)
        split = max(len(every) - due, 0)
        self.early, ended = every[:split], every[split:]
        self.commits = [replace(c, epoch=first + index) for index, c in enumerate(ended)]

    def settle(self) -> None:
        """Mark the ranks that had yet to find their place."""
        trained = {step.rank for step in self.steps}
        for rank, start in self.starts.items():
            if start.by is None and rank not in trained:
                self.starts[rank] = replace(start, settled=False)

    def _placed_commits(self) -> tuple[Commit, ...]:
        """Count commits from the place at which the ranks continued."""
        moved = any(start.moved for start in self.starts.values())
        if not moved or not self.commits or not self.reported:
            return tuple(self.commits)
        # Ray's controller does not know of files of the job's own, and counts on from its commits:
        # a job that resumed from its own file two epochs earlier reports those epochs again, and
        # Ray numbers them as new ones. Checks compare epoch with epoch, so one count must win, and
        # it is the ranks', whose place their first step has shown. The first report of the attempt
        # shows by how many epochs the two differ.
        by = min(epoch for _, epoch in self.reported) - self.commits[0].epoch
        return tuple(replace(commit, epoch=commit.epoch + by) for commit in self.commits)


def _add_controllers(history: History, rows: dict[int, _Rows]) -> None:
    for number, group_started in history.of(WorkerGroupStarted):
        row = rows.setdefault(group_started.attempt, _Rows())
        row.group_started, row.places = number, group_started.workers
    notices = {notice.node_id: number for number, notice in history.of(NoticeGiven)}
    for number, done in history.of(Committed):
        row = rows.setdefault(done.attempt, _Rows())
        doomed = any(notices.get(place.node_id, number) < number for place in row.places)
        fewer = doomed and 0 < len(done.metrics) < len(row.places)
        metrics = done.metrics[:1] if fewer else done.metrics
        commit = Commit(
            number, done.attempt, done.epoch, done.checkpoint, metrics, fewer, done.goes_on
        )
        (row.early if done.early else row.commits).append(commit)
    for number, decided in history.of(FailureDecided):
        rows.setdefault(decided.attempt, _Rows()).decisions.append(Decision(number, decided))


def _add_workers(history: History, rows: dict[int, _Rows]) -> None:
    for number, e in history.of(WorkerStarted):
        start = Start(number, e.rank, e.checkpoint, e.epoch, e.step)
        rows.setdefault(e.attempt, _Rows()).starts[e.rank] = start
    for _, found in history.of(Repositioned):
        starts = rows.setdefault(found.attempt, _Rows()).starts
        if found.rank in starts:
            starts[found.rank] = starts[found.rank].resumed(
                found.epoch, found.step, found.by, path=found.path, others=found.others
            )
    for _, begun in history.of(ReportBegun):
        rows.setdefault(begun.attempt, _Rows()).reported.add(RankEpoch(begun.rank, begun.epoch))
    for _, ended in history.of(EpochEnded):
        rows.setdefault(ended.attempt, _Rows()).reported.add(RankEpoch(ended.rank, ended.epoch))
    for _, read in history.of(CheckpointRead):
        rows.setdefault(read.attempt, _Rows()).asked.add(read.rank)
