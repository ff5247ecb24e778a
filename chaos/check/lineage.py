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

from chaos.check.attempt import Attempt, Commit
from chaos.check.steps import NO_STEPS, Step, Steps, count_samples
from chaos.model.event import FileSaved, FileWritten, StateSeen
from chaos.model.events.base import StepEvent
from chaos.model.places import AttemptRank, Place, RankEpoch


@dataclass(frozen=True)
class Lineage:
    """The surviving steps and commits, and the lost steps."""

    #: the survivors
    steps: Mapping[RankEpoch, Steps]
    #: the survivors
    commits: tuple[Commit, ...]
    #: for each resumed attempt, the finished steps per rank that its start discarded
    lost: Mapping[int, Mapping[int, int]]
    #: the (rank, epoch) that are the first of a resumed attempt
    resumed: frozenset[RankEpoch]
    attempts: Sequence[Attempt]
    _back: dict[AttemptRank, Place | None] = field(default_factory=dict, repr=False, compare=False)

    def survives(self, what: Step | StepEvent) -> bool:
        """Return whether no later attempt did again what an event tells of.

        Every reader asks here, so a step, a state and a file of one place share one answer.
        """
        back = self._goes_back_to(what.attempt, what.rank)
        if back is None:
            return True
        place = Place(what.epoch, what.step)
        return place < back or (place == back and not _is_done_at_resume(what))

    def _goes_back_to(self, attempt: int, rank: int) -> Place | None:
        """Return the earliest place to which a rank goes back after an attempt."""
        key = AttemptRank(attempt, rank)
        if key not in self._back:
            later = (a.resumed_at(rank) for a in self.attempts if a.index > attempt)
            self._back[key] = min((at for at in later if at is not None), default=None)
        return self._back[key]

    def at(self, rank: int, epoch: int, step: int) -> Step | None:
        """Return the step at one place, None where none survived there."""
        steps = self.steps_of(rank, epoch)
        if 0 < step <= len(steps) and steps[step - 1].step == step:
            return steps[step - 1]
        return next((found for found in reversed(steps) if found.step == step), None)

    def all_steps(self) -> Iterator[Step]:
        """Return every surviving step, rank by rank and epoch by epoch as they began."""
        return chain.from_iterable(self.steps.values())

    def steps_of(self, rank: int, epoch: int) -> Steps:
        """Return the steps of one rank in one epoch."""
        return self.steps.get(RankEpoch(rank, epoch), NO_STEPS)

    @cached_property
    def optimizers(self) -> Mapping[int, Mapping[str, int]]:
        """The number of steps of each rank's optimizers."""
        found: dict[int, Counter[str]] = {}
        for step in self.all_steps():
            found.setdefault(step.rank, Counter())[step.done.optimizer] += 1
        return found

    @cached_property
    def by_epoch(self) -> Mapping[int, Mapping[int, Steps]]:
        """The steps of each epoch, rank by rank."""
        found: dict[int, dict[int, Steps]] = {}
        for (rank, epoch), steps in sorted(self.steps.items()):
            found.setdefault(epoch, {})[rank] = steps
        return found

    def of_ranks(self, epoch: int) -> Collection[Steps]:
        """Return the steps of one epoch, rank by rank."""
        return self.by_epoch.get(epoch, {}).values()

    def samples(self, epoch: int) -> Counter[str] | None:
        """Return the samples of one epoch over all ranks, counted; None if some are not known."""
        return count_samples(chain.from_iterable(self.of_ranks(epoch)))

    def count(self, rank: int, epoch: int) -> int:
        return len(self.steps_of(rank, epoch))

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        return tuple(sorted(self.epochs))

    @cached_property
    def epochs(self) -> Mapping[int, Sequence[int]]:
        """The epochs in which each rank made steps, in order."""
        found: dict[int, list[int]] = {}
        for rank, epoch in self.steps:
            found.setdefault(rank, []).append(epoch)
        return {rank: sorted(of) for rank, of in found.items()}

    @property
    def steps_done(self) -> int:
        """The optimizer steps of the job: those of the rank that made most."""
        return max((self._all_steps_of(rank) for rank in self.ranks), default=0)

    @cached_property
    def longest_way_between_commits(self) -> int:
        """The most steps that any rank makes from one checkpoint to the next.

        The start of training counts as a checkpoint, and so does its end: steps after the last
        checkpoint can be lost as well.
        """
        saved = [commit for commit in self.commits if commit.checkpoint is not None]
        return max((self._longest_way(rank, saved) for rank in self.ranks), default=0)

    def _all_steps_of(self, rank: int) -> int:
        return sum(self.count(rank, epoch) for epoch in self.epochs[rank])

    def _longest_way(self, rank: int, saved: Sequence[Commit]) -> int:
        """Return the most steps from a checkpoint's content to the commit of the next one."""
        since = [0, *(self._done_before(rank, commit.goes_on) for commit in saved)]
        until = [self._done_before(rank, Place(commit.epoch + 1, 0)) for commit in saved]
        ways = zip(since, [*until, self._all_steps_of(rank)], strict=True)
        return max(end - begin for begin, end in ways)

    def _done_before(self, rank: int, place: Place) -> int:
        """Return the number of a rank's steps before a place."""
        return place.step + sum(
            self.count(rank, epoch) for epoch in self.epochs[rank] if epoch < place.epoch
        )


def _is_done_at_resume(what: Step | StepEvent) -> bool:
    """Return whether an attempt that resumes at the place of an event does the same once more.

    It enters the epoch, or leaves it, with a state as the one before did, and writes a file that is
    written before any step. Steps, and the files after them, it does not repeat: the save that it
    resumed from is one of these.
    """
    match what:
        case StateSeen():
            return what.moment != "step"
        case FileSaved() | FileWritten():
            return what.step == 0
        case _:
            return False


def lineage(attempts: Sequence[Attempt]) -> Lineage:
    """Return the surviving part of the attempts, oldest first."""
    commits, resumed = list[Commit](), set[RankEpoch]()
    for attempt in attempts:
        if attempt.place is not None:
            commits = _standing(commits, attempt, attempt.place)
            resumed = _first_epochs(resumed, attempt)
        commits += attempt.commits
    steps, lost = _steps(attempts)
    return Lineage(steps, tuple(commits), lost, frozenset(resumed), attempts)


def _steps(
    attempts: Sequence[Attempt],
) -> tuple[dict[RankEpoch, Steps], dict[int, dict[int, int]]]:
    """Return the surviving steps, and for each attempt how many of each rank it discarded."""
    steps: dict[RankEpoch, Steps] = {}
    lost: dict[int, dict[int, int]] = {a.index: {} for a in attempts if a.place is not None}
    for nth, attempt in enumerate(attempts):
        for key, made in attempt.steps.by_epoch.items():
            kept = made
            for later in attempts[nth + 1 :]:
                back = later.resumed_at(key.rank)
                if back is None or key.epoch < back.epoch:
                    continue
                before = len(kept)
                is_cut = key.epoch == back.epoch
                kept = Steps(s for s in kept if is_cut and s.step <= back.step)
                if before > len(kept):
                    thrown = lost[later.index]
                    thrown[key.rank] = thrown.get(key.rank, 0) + before - len(kept)
            if kept:
                steps[key] = Steps((*steps[key], *kept)) if key in steps else kept
    return steps, lost


def _standing(commits: list[Commit], attempt: Attempt, place: Place) -> list[Commit]:
    """Return the commits that an attempt does not take the place of."""
    # A commit is cut by the epoch that it ends, but the one that was resumed from stands: with
    # saves beside training its content is older than its report, so that the attempt trains
    # within an epoch whose report has come, and does not report it again. Cut, its next report
    # would be counted as that epoch's (25 of 26 places of a right job with dcp.async_save).
    checkpoints = {start.checkpoint for start in attempt.starts.values()} - {None}
    last = max((c.number for c in commits if c.checkpoint in checkpoints), default=-1)
    kept = [c for c in commits if c.epoch < place.epoch or c.number <= last]
    if not attempt.commits:
        return kept
    # Its own reports take the place of earlier ones of the same epochs.
    until = max(place.epoch, min(commit.epoch for commit in attempt.commits))
    return [c for c in kept if c.epoch < until]


def _first_epochs(resumed: set[RankEpoch], attempt: Attempt) -> set[RankEpoch]:
    """Return the first epochs of resumed attempts, with those of one more."""
    # A restart that goes back beyond an earlier resume repeats that one's first epoch.
    back = {key.rank: attempt.resumed_at(key.rank) for key in resumed}
    kept = {key for key in resumed if (at := back[key.rank]) and key.epoch < at.epoch}
    if attempt.index == 0:
        return kept
    settled = (start for start in attempt.starts.values() if start.settled)
    return kept | {RankEpoch(start.rank, start.epoch) for start in settled}
