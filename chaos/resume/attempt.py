"""The life of one worker group, as a row."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Self

from chaos.model.event import (
    CheckpointRead,
    Committed,
    DeadlinePassed,
    EpochEnded,
    FailureDecided,
    NoticeGiven,
    ReportBegun,
    Repositioned,
    ResumeEvidence,
    RunEnded,
    WorkerGroupStarted,
    WorkerPlace,
    WorkerStarted,
    describe_resume_evidence,
)
from chaos.model.history import History
from chaos.model.places import START, AttemptRank, RankEpoch, TrainingPlace
from chaos.resume.steps import NO_STEPS, Steps, group_steps_by_attempt


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The place at which a rank resumed, and the evidence."""

    training_place: TrainingPlace
    evidence: ResumeEvidence
    #: the places that fit equally well
    alternatives: tuple[TrainingPlace, ...] = ()


@dataclass(frozen=True, slots=True)
class Commit:
    """A report that Ray's controller recorded."""

    number: int
    attempt: int
    epoch: int
    checkpoint: str | None
    #: of all ranks; only rank 0's where `has_only_rank_0`: Ray 2.60 does not show whose the
    #: others are, and always waits for rank 0
    metrics: tuple[dict[str, object], ...]
    #: it did not wait for the ranks of a node that was announced to go
    #: (`relax_collectives_on_preemption`)
    has_only_rank_0: bool = False
    #: the place where the content of the checkpoint was saved, if that was not at the report
    saved_place: TrainingPlace | None = None

    @property
    def resume_place(self) -> TrainingPlace:
        """The place at which a restart from its checkpoint continues."""
        return self.saved_place or TrainingPlace(self.epoch + 1, 0)


@dataclass(frozen=True, slots=True)
class RankStart:
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
    is_settled: bool = True
    #: the evidence for the place, None where a first step that would show it was not seen
    evidence: ResumeEvidence | None = None
    #: the place is not the one of the checkpoint that it was handed
    has_moved: bool = False
    #: the places that fit as well
    alternatives: tuple[TrainingPlace, ...] = ()

    @property
    def training_place(self) -> TrainingPlace:
        """The place from which it continues."""
        return TrainingPlace(self.epoch, self.step)

    def relocate(
        self,
        epoch: int,
        step: int,
        evidence: ResumeEvidence,
        *,
        path: str | None = None,
        alternatives: tuple[TrainingPlace, ...] = (),
    ) -> Self:
        """Return the start at the place at which it resumed."""
        training_place = TrainingPlace(epoch, step)
        has_moved = self.has_moved or self.training_place != training_place
        relocated_start = replace(self, epoch=epoch, step=step, has_moved=has_moved)
        return replace(relocated_start, path=path, evidence=evidence, alternatives=alternatives)

    @property
    def is_mid_training(self) -> bool:
        """Whether it was seen to continue from a place after the beginning, whatever it read."""
        return self.evidence not in (None, "commit", "nothing") and self.training_place > START


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
    worker_locations: tuple[WorkerPlace, ...]
    starts: Mapping[int, RankStart]
    steps: Steps
    commits: tuple[Commit, ...]
    #: the (rank, epoch) that entered `report()` or, without one, ended with a save of the job's own
    reported_epochs: frozenset[RankEpoch]
    #: the ranks that read their checkpoint
    reading_ranks: frozenset[int]
    decisions: tuple[Decision, ...]
    #: commits from before it trained anything; they end no epoch
    early_commits: tuple[Commit, ...] = ()

    @property
    def epoch(self) -> int | None:
        """The earliest epoch of its ranks; None if none has started."""
        return None if self.training_place is None else self.training_place.epoch

    @property
    def worker_count(self) -> int:
        """Its number of workers."""
        return len(self.worker_locations) or len(self.starts)

    @cached_property
    def training_place(self) -> TrainingPlace | None:
        """The earliest place of its ranks."""
        return min(
            (start.training_place for start in self.starts.values() if start.is_settled),
            default=None,
        )

    def find_resume_place(self, rank: int) -> TrainingPlace | None:
        """Return where a rank continues; the earliest place of all where its own is not known."""
        start = self.starts.get(rank)
        return (
            start.training_place if start is not None and start.is_settled else self.training_place
        )

    @property
    def grounds(self) -> str:
        """The evidence for its place, in words; empty where none of its ranks made a step."""
        settled_starts = [start for start in self.starts.values() if start.evidence is not None]
        first_start = min(settled_starts, key=lambda start: start.training_place, default=None)
        return (
            ""
            if first_start is None or first_start.evidence is None
            else describe_resume_evidence(first_start.evidence, first_start.path)
        )

    def select_steps(self, rank: int, epoch: int) -> Steps:
        """Return the steps of one rank in one epoch."""
        return self.steps.steps_by_epoch.get(RankEpoch(rank, epoch), NO_STEPS)

    @property
    def first_step_event_numbers(self) -> Mapping[int, int]:
        """The number of each rank's first step."""
        return {rank: steps[0].number for rank, steps in self.steps.steps_by_rank.items()}

    def has_finished_epoch(self, rank: int, epoch: int) -> bool:
        """Return whether a rank has made every step of an epoch in this attempt."""
        return (rank, epoch) in self.reported_epochs or any(c.epoch == epoch for c in self.commits)


def build_attempts(
    history: History,
    epoch_count: int | None = None,
    resume_points: Mapping[AttemptRank, ResumePoint] = MappingProxyType({}),
) -> tuple[Attempt, ...]:
    """Sort a history's events by the attempt they carry, oldest attempt first.

    `epoch_count`: the number of epochs of the job without faults, where that is known.
    `resume_points`: where a rank of an attempt resumed, if no event tells it.
    """
    rows: dict[int, _AttemptBuilder] = {}
    _add_controller_events(history, rows)
    _add_worker_events(history, rows)
    for (index, rank), resume_point in resume_points.items():
        starts = rows[index].starts
        starts[rank] = starts[rank].relocate(
            *resume_point.training_place,
            resume_point.evidence,
            alternatives=resume_point.alternatives,
        )
    for index, steps in group_steps_by_attempt(history).items():
        rows.setdefault(index, _AttemptBuilder()).steps = steps
    # The place at a rank's start is preliminary where Ray handed it nothing: its first step shows
    # where it resumed. A rank that made none may have ended before that.
    if not any(
        committed_event.checkpoint is not None
        for _, committed_event in history.select_events(Committed)
    ):
        for index, row in rows.items():
            if index > 0:
                row.mark_unsettled()
    # A report is early if it comes before its attempt's first step. In attempts after the last one
    # that trained, no step follows, and such reports may be those of the last epochs.
    # Where the run was ended by us, steps might have followed.
    last_trained = max((index for index, row in rows.items() if row.steps), default=-1)
    is_cut_short = history.count(DeadlinePassed) > 0 or any(
        end.interrupted for _, end in history.select_events(RunEnded)
    )
    for index, row in rows.items():
        if row.early_commits and index > last_trained and not is_cut_short:
            row.count_early_commits(epoch_count)
    all_attempts = (row.build_attempt(index) for index, row in sorted(rows.items()))
    return tuple(
        attempt
        for attempt in all_attempts
        if attempt.group_started is not None or attempt.starts or attempt.steps or attempt.commits
    )


@dataclass
class _AttemptBuilder:
    group_started: int | None = None
    worker_locations: tuple[WorkerPlace, ...] = ()
    starts: dict[int, RankStart] = field(default_factory=dict)
    steps: Steps = NO_STEPS
    commits: list[Commit] = field(default_factory=list)
    reported_epochs: set[RankEpoch] = field(default_factory=set)
    reading_ranks: set[int] = field(default_factory=set)
    decisions: list[Decision] = field(default_factory=list)
    early_commits: list[Commit] = field(default_factory=list)

    def build_attempt(self, index: int) -> Attempt:
        return Attempt(
            index=index,
            group_started=self.group_started,
            worker_locations=self.worker_locations,
            starts=self.starts,
            steps=self.steps,
            commits=self._renumber_commits(),
            reported_epochs=frozenset(self.reported_epochs),
            reading_ranks=frozenset(self.reading_ranks),
            decisions=tuple(self.decisions),
            early_commits=tuple(self.early_commits),
        )

    def count_early_commits(self, epoch_count: int | None) -> None:
        """Count early reports as ends of epochs, in an attempt that trained nothing.

        Where `epoch_count` is known, only the last reports count: with nothing left to
        train, a job validates as at every start, and then reports its final result.
        """
        # A report before the first step of an attempt is one of two things that look alike: a job
        # that validates at every start, which ends no epoch, or the last reports of a job that was
        # ended between its last step and its end. What tells them apart is how many are due: the
        # baseline's number of epochs less those before this attempt. Counted from the end, since a
        # validation comes first.
        first_epoch = min((start.epoch for start in self.starts.values()), default=0)
        all_commits = sorted([*self.early_commits, *self.commits], key=lambda commit: commit.number)
        expected_count = (
            len(all_commits) if epoch_count is None else max(epoch_count - first_epoch, 0)
        )
        split_index = max(len(all_commits) - expected_count, 0)
        self.early_commits, final_commits = all_commits[:split_index], all_commits[split_index:]
        self.commits = [
            replace(c, epoch=first_epoch + index) for index, c in enumerate(final_commits)
        ]

    def mark_unsettled(self) -> None:
        """Mark the ranks that had yet to find their place."""
        trained_ranks = {step.rank for step in self.steps}
        for rank, start in self.starts.items():
            if start.evidence is None and rank not in trained_ranks:
                self.starts[rank] = replace(start, is_settled=False)

    def _renumber_commits(self) -> tuple[Commit, ...]:
        """Count commits from the place at which the ranks continued."""
        has_moved = any(start.has_moved for start in self.starts.values())
        if not has_moved or not self.commits or not self.reported_epochs:
            return tuple(self.commits)
        # Ray's controller does not know of files of the job's own, and counts on from its commits:
        # a job that resumed from its own file two epochs earlier reports those epochs again, and
        # Ray numbers them as new ones. Checks compare epoch with epoch, so one count must win, and
        # it is the ranks', whose place their first step has shown. The first report of the attempt
        # shows by how many epochs the two differ.
        epoch_offset = min(epoch for _, epoch in self.reported_epochs) - self.commits[0].epoch
        return tuple(replace(commit, epoch=commit.epoch + epoch_offset) for commit in self.commits)


def _add_controller_events(history: History, rows: dict[int, _AttemptBuilder]) -> None:
    for number, group_event in history.select_events(WorkerGroupStarted):
        row = rows.setdefault(group_event.attempt, _AttemptBuilder())
        row.group_started, row.worker_locations = number, group_event.workers
    notices = {notice.node_id: number for number, notice in history.select_events(NoticeGiven)}
    for number, committed_event in history.select_events(Committed):
        row = rows.setdefault(committed_event.attempt, _AttemptBuilder())
        has_notice = any(
            notices.get(location.node_id, number) < number for location in row.worker_locations
        )
        is_partial = has_notice and 0 < len(committed_event.metrics) < len(row.worker_locations)
        metrics = committed_event.metrics[:1] if is_partial else committed_event.metrics
        commit = Commit(
            number,
            committed_event.attempt,
            committed_event.epoch,
            committed_event.checkpoint,
            metrics,
            is_partial,
            committed_event.goes_on,
        )
        (row.early_commits if committed_event.early else row.commits).append(commit)
    for number, decision_event in history.select_events(FailureDecided):
        rows.setdefault(decision_event.attempt, _AttemptBuilder()).decisions.append(
            Decision(number, decision_event)
        )


def _add_worker_events(history: History, rows: dict[int, _AttemptBuilder]) -> None:
    for number, event in history.select_events(WorkerStarted):
        start = RankStart(number, event.rank, event.checkpoint, event.epoch, event.step)
        rows.setdefault(event.attempt, _AttemptBuilder()).starts[event.rank] = start
    for _, reposition in history.select_events(Repositioned):
        starts = rows.setdefault(reposition.attempt, _AttemptBuilder()).starts
        if reposition.rank in starts:
            starts[reposition.rank] = starts[reposition.rank].relocate(
                reposition.epoch,
                reposition.step,
                reposition.evidence,
                path=reposition.path,
                alternatives=reposition.other_places,
            )
    for _, report in history.select_events(ReportBegun):
        rows.setdefault(report.attempt, _AttemptBuilder()).reported_epochs.add(
            RankEpoch(report.rank, report.epoch)
        )
    for _, epoch_end in history.select_events(EpochEnded):
        rows.setdefault(epoch_end.attempt, _AttemptBuilder()).reported_epochs.add(
            RankEpoch(epoch_end.rank, epoch_end.epoch)
        )
    for _, checkpoint_read in history.select_events(CheckpointRead):
        rows.setdefault(checkpoint_read.attempt, _AttemptBuilder()).reading_ranks.add(
            checkpoint_read.rank
        )
