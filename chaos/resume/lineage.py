"""The lineage: the part of a run that survived, with discarded work cut out.

An attempt that continues after step `s` of epoch `e` repeats all earlier work beyond that place.
The rest is the lineage, and its steps are keyed by (rank, epoch). With Ray's checkpoints an attempt
starts at the head of an epoch. A job that keeps files of its own may continue within one, whose
steps then come from two attempts:

    attempt 0    epoch 0: 1 2 3 4    epoch 1: 1 2 3 4 5      killed after step 5
    attempt 1                        epoch 1:     3 4 5 6    continues after step 2
    lineage      0 0 0 0                      0 0 1 1 1 1    steps 3 to 5 of attempt 0 are lost
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from chaos.model.event import FileSaved, FileWritten, StateSeen
from chaos.model.events.base import StepEvent
from chaos.model.places import AttemptRank, RankEpoch, TrainingPlace
from chaos.resume.attempt import Attempt, Commit
from chaos.resume.steps import NO_STEPS, Step, Steps, count_samples


@dataclass(frozen=True)
class Lineage:
    """The surviving steps and commits, and the lost steps."""

    #: the survivors
    steps: Mapping[RankEpoch, Steps]
    #: the survivors
    commits: tuple[Commit, ...]
    #: for each resumed attempt, the finished steps per rank that its start discarded
    lost_steps: Mapping[int, Mapping[int, int]]
    #: the (rank, epoch) that are the first of a resumed attempt
    resumed_epochs: frozenset[RankEpoch]
    attempts: Sequence[Attempt]
    _earliest_resumes: dict[AttemptRank, TrainingPlace | None] = field(
        default_factory=dict, repr=False, compare=False
    )

    def is_surviving(self, event: Step | StepEvent) -> bool:
        """Return whether no later attempt did again what an event tells of.

        Every reader asks here, so a step, a state and a file of one place share one answer.
        """
        resume_place = self._find_earliest_resume(event.attempt, event.rank)
        if resume_place is None:
            return True
        training_place = TrainingPlace(event.epoch, event.step)
        return training_place < resume_place or (
            training_place == resume_place and not _is_repeated(event)
        )

    def _find_earliest_resume(self, attempt: int, rank: int) -> TrainingPlace | None:
        """Return the earliest place to which a rank goes back after an attempt."""
        key = AttemptRank(attempt, rank)
        if key not in self._earliest_resumes:
            resume_places = (a.find_resume_place(rank) for a in self.attempts if a.index > attempt)
            self._earliest_resumes[key] = min(
                (resume_place for resume_place in resume_places if resume_place is not None),
                default=None,
            )
        return self._earliest_resumes[key]

    def find_step(self, rank: int, epoch: int, step: int) -> Step | None:
        """Return the step at one place, None where none survived there."""
        steps = self.select_steps(rank, epoch)
        if 0 < step <= len(steps) and steps[step - 1].step == step:
            return steps[step - 1]
        return next((candidate for candidate in reversed(steps) if candidate.step == step), None)

    def all_steps(self) -> Iterator[Step]:
        """Return every surviving step, rank by rank and epoch by epoch as they began."""
        return chain.from_iterable(self.steps.values())

    def select_steps(self, rank: int, epoch: int) -> Steps:
        """Return the steps of one rank in one epoch."""
        return self.steps.get(RankEpoch(rank, epoch), NO_STEPS)

    @cached_property
    def optimizer_steps(self) -> Mapping[int, Mapping[str, int]]:
        """The number of steps of each rank's optimizers."""
        step_counts: dict[int, Counter[str]] = {}
        for step in self.all_steps():
            step_counts.setdefault(step.rank, Counter())[step.done.optimizer] += 1
        return step_counts

    @cached_property
    def steps_by_epoch(self) -> Mapping[int, Mapping[int, Steps]]:
        """The steps of each epoch, rank by rank."""
        epoch_steps: dict[int, dict[int, Steps]] = {}
        for (rank, epoch), steps in sorted(self.steps.items()):
            epoch_steps.setdefault(epoch, {})[rank] = steps
        return epoch_steps

    def select_epoch(self, epoch: int) -> Collection[Steps]:
        """Return the steps of one epoch, rank by rank."""
        return self.steps_by_epoch.get(epoch, {}).values()

    def count_epoch_samples(self, epoch: int) -> Counter[str] | None:
        """Return the samples of one epoch over all ranks, counted; None if some are not known."""
        return count_samples(chain.from_iterable(self.select_epoch(epoch)))

    def count_steps(self, rank: int, epoch: int) -> int:
        return len(self.select_steps(rank, epoch))

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        return tuple(sorted(self.epochs_by_rank))

    @cached_property
    def epochs_by_rank(self) -> Mapping[int, Sequence[int]]:
        """The epochs in which each rank made steps, in order."""
        rank_epochs: dict[int, list[int]] = {}
        for rank, epoch in self.steps:
            rank_epochs.setdefault(rank, []).append(epoch)
        return {rank: sorted(epochs) for rank, epochs in rank_epochs.items()}

    @property
    def step_count(self) -> int:
        """The optimizer steps of the job: those of the rank that made most."""
        return max((self.count_rank_steps(rank) for rank in self.ranks), default=0)

    @cached_property
    def longest_commit_interval(self) -> int:
        """The most steps that any rank makes from one checkpoint to the next.

        The start of training counts as a checkpoint, and so does its end: steps after the last
        checkpoint can be lost as well.
        """
        saved_commits = [commit for commit in self.commits if commit.checkpoint is not None]
        return max(
            (self._find_longest_interval(rank, saved_commits) for rank in self.ranks), default=0
        )

    def count_rank_steps(self, rank: int) -> int:
        """Return the number of steps of a rank in all epochs."""
        return sum(self.count_steps(rank, epoch) for epoch in self.epochs_by_rank.get(rank, ()))

    def _find_longest_interval(self, rank: int, saved_commits: Sequence[Commit]) -> int:
        """Return the most steps from a checkpoint's content to the commit of the next one."""
        starts = [
            0,
            *(self._count_earlier_steps(rank, commit.resume_place) for commit in saved_commits),
        ]
        ends = [
            self._count_earlier_steps(rank, TrainingPlace(commit.epoch + 1, 0))
            for commit in saved_commits
        ]
        intervals = zip(starts, [*ends, self.count_rank_steps(rank)], strict=True)
        return max(end - start for start, end in intervals)

    def _count_earlier_steps(self, rank: int, training_place: TrainingPlace) -> int:
        """Return the number of a rank's steps before a place."""
        return training_place.step + sum(
            self.count_steps(rank, epoch)
            for epoch in self.epochs_by_rank[rank]
            if epoch < training_place.epoch
        )


def _is_repeated(event: Step | StepEvent) -> bool:
    """Return whether an attempt that resumes at the place of an event does the same once more.

    It enters the epoch, or leaves it, with a state as the one before did, and writes a file that is
    written before any step. Steps, and the files after them, it does not repeat: the save that it
    resumed from is one of these.
    """
    match event:
        case StateSeen():
            return event.moment != "step"
        case FileSaved() | FileWritten():
            return event.step == 0
        case _:
            return False


def build_lineage(attempts: Sequence[Attempt]) -> Lineage:
    """Return the surviving part of the attempts, oldest first."""
    commits, resumed_epochs = list[Commit](), set[RankEpoch]()
    for attempt in attempts:
        if attempt.training_place is not None:
            commits = _select_surviving_commits(commits, attempt, attempt.training_place)
            resumed_epochs = _find_first_epochs(resumed_epochs, attempt)
        commits += attempt.commits
    steps, lost_steps = _select_surviving_steps(attempts)
    return Lineage(steps, tuple(commits), lost_steps, frozenset(resumed_epochs), attempts)


def _select_surviving_steps(
    attempts: Sequence[Attempt],
) -> tuple[dict[RankEpoch, Steps], dict[int, dict[int, int]]]:
    """Return the surviving steps, and for each attempt how many of each rank it discarded."""
    steps: dict[RankEpoch, Steps] = {}
    lost_steps: dict[int, dict[int, int]] = {
        a.index: {} for a in attempts if a.training_place is not None
    }
    for position, attempt in enumerate(attempts):
        for key, epoch_steps in attempt.steps.steps_by_epoch.items():
            surviving_steps = epoch_steps
            for later_attempt in attempts[position + 1 :]:
                resume_place = later_attempt.find_resume_place(key.rank)
                if resume_place is None or key.epoch < resume_place.epoch:
                    continue
                previous_count = len(surviving_steps)
                is_cut = key.epoch == resume_place.epoch
                surviving_steps = Steps(
                    step for step in surviving_steps if is_cut and step.step <= resume_place.step
                )
                if previous_count > len(surviving_steps):
                    discarded_counts = lost_steps[later_attempt.index]
                    discarded_counts[key.rank] = (
                        discarded_counts.get(key.rank, 0) + previous_count - len(surviving_steps)
                    )
            if surviving_steps:
                steps[key] = (
                    Steps((*steps[key], *surviving_steps)) if key in steps else surviving_steps
                )
    return steps, lost_steps


def _select_surviving_commits(
    commits: list[Commit], attempt: Attempt, resume_place: TrainingPlace
) -> list[Commit]:
    """Return the commits that an attempt does not take the place of."""
    # A commit is cut by the epoch that it ends, but the one that was resumed from stands: with
    # saves beside training its content is older than its report, so that the attempt trains
    # within an epoch whose report has come, and does not report it again. Cut, its next report
    # would be counted as that epoch's (25 of 26 places of a right job with dcp.async_save).
    checkpoints = {start.checkpoint for start in attempt.starts.values()} - {None}
    last_number = max((c.number for c in commits if c.checkpoint in checkpoints), default=-1)
    surviving_commits = [
        c for c in commits if c.epoch < resume_place.epoch or c.number <= last_number
    ]
    if not attempt.commits:
        return surviving_commits
    # Its own reports take the place of earlier ones of the same epochs.
    end_epoch = max(resume_place.epoch, min(commit.epoch for commit in attempt.commits))
    return [c for c in surviving_commits if c.epoch < end_epoch]


def _find_first_epochs(resumed_epochs: set[RankEpoch], attempt: Attempt) -> set[RankEpoch]:
    """Return the first epochs of resumed attempts, with those of one more."""
    # A restart that goes back beyond an earlier resume repeats that one's first epoch.
    resume_places = {key.rank: attempt.find_resume_place(key.rank) for key in resumed_epochs}
    remaining_epochs = {
        key
        for key in resumed_epochs
        if (resume_place := resume_places[key.rank]) and key.epoch < resume_place.epoch
    }
    if attempt.index == 0:
        return remaining_epochs
    settled_starts = (start for start in attempt.starts.values() if start.is_settled)
    return remaining_epochs | {RankEpoch(start.rank, start.epoch) for start in settled_starts}
