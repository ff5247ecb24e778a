"""The lineage: the part of a run that survived, with discarded work cut out.

An attempt that continues after step `s` of epoch `e` repeats all earlier work beyond that place.
The rest is the lineage, and its steps are keyed by (rank, epoch). With Ray's checkpoints an attempt
starts at the head of an epoch. A job that keeps files of its own may continue within one, whose
steps then come from two attempts:

    attempt 0    epoch 0: 1 2 3 4    epoch 1: 1 2 3 4 5      killed after step 5
    attempt 1                        epoch 1:     3 4 5 6    continues after step 2
    lineage      0 0 0 0                      0 0 1 1 1 1    steps 3 to 5 of attempt 0 are lost
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from chaos.check.attempt import Attempt, Commit, Step
from chaos.model.places import Place, RankEpoch


@dataclass(frozen=True)
class Lineage:
    """The surviving steps and commits, and the lost steps."""

    #: the survivors
    steps: Mapping[RankEpoch, Sequence[Step]]
    #: the survivors
    commits: tuple[Commit, ...]
    #: for each resumed attempt, the finished steps per rank that its start discarded
    lost: Mapping[int, Mapping[int, int]]
    #: the (rank, epoch) that are the first of a resumed attempt
    resumed: frozenset[RankEpoch]

    def at(self, rank: int, epoch: int, step: int) -> Step | None:
        """Return the step at one place, None where none survived there."""
        steps = self.steps_of(rank, epoch)
        if 0 < step <= len(steps) and steps[step - 1].step == step:
            return steps[step - 1]
        return next((found for found in reversed(steps) if found.step == step), None)

    def all_steps(self) -> Iterator[Step]:
        """Return every surviving step, rank by rank and epoch by epoch as they began."""
        return chain.from_iterable(self.steps.values())

    def steps_of(self, rank: int, epoch: int) -> Sequence[Step]:
        """Return the steps of one rank in one epoch."""
        return self.steps.get(RankEpoch(rank, epoch), ())

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


def lineage(attempts: Sequence[Attempt]) -> Lineage:
    """Return the surviving part of the attempts, oldest first."""
    fold = _Fold()
    for attempt in attempts:
        fold.cut(attempt)
        fold.add(attempt)
    return Lineage(
        steps=fold.steps,
        commits=tuple(fold.commits),
        lost=fold.lost,
        resumed=frozenset(fold.resumed),
    )


@dataclass
class _Fold:
    steps: dict[RankEpoch, list[Step]] = field(default_factory=dict)
    commits: list[Commit] = field(default_factory=list)
    lost: dict[int, dict[int, int]] = field(default_factory=dict)
    resumed: set[RankEpoch] = field(default_factory=set)

    def cut(self, attempt: Attempt) -> None:
        """Drop the steps that `attempt` repeats."""
        if attempt.place is None:
            return
        # A rank whose own place is not known is cut at the earliest place of the others.
        earliest = attempt.place
        settled = {rank: start for rank, start in attempt.starts.items() if start.settled}
        since = {rank: start.place for rank, start in settled.items()}
        thrown = self.lost.setdefault(attempt.index, {})
        for key in list(self.steps):
            gone = self._cut_one(key, since.get(key.rank, earliest))
            if gone:
                thrown[key.rank] = thrown.get(key.rank, 0) + gone
        # A commit is cut by the epoch that it ends, but the one that was resumed from stands: with
        # saves beside training its content is older than its report, so that the attempt trains
        # within an epoch whose report has come, and does not report it again. Cut, its next report
        # would be counted as that epoch's (25 of 26 places of a right job with dcp.async_save).
        handed = {start.checkpoint for start in attempt.starts.values()} - {None}
        last = max((c.number for c in self.commits if c.checkpoint in handed), default=-1)
        self.commits = [c for c in self.commits if c.epoch < earliest.epoch or c.number <= last]
        # A restart that goes back beyond an earlier resume repeats that one's first epoch.
        places = {RankEpoch(rank, place.epoch) for rank, place in since.items()}
        self.resumed = {
            key for key in self.resumed if key.epoch < since.get(key.rank, earliest).epoch
        }
        if attempt.index > 0:
            self.resumed |= places

    def _cut_one(self, key: RankEpoch, place: Place) -> int:
        """Drop one rank's steps of one epoch beyond a place; return their number."""
        if key.epoch < place.epoch:
            return 0
        steps = self.steps[key]
        kept = [s for s in steps if s.step <= place.step] if key.epoch == place.epoch else []
        if kept:
            self.steps[key] = kept
        else:
            del self.steps[key]
        return len(steps) - len(kept)

    def add(self, attempt: Attempt) -> None:
        for key, steps in attempt.by_epoch.items():
            self.steps.setdefault(key, []).extend(steps)
        if attempt.epoch is not None and attempt.commits:
            # What it reports itself takes the place of what was reported before; see `cut`.
            until = max(attempt.epoch, min(commit.epoch for commit in attempt.commits))
            self.commits = [c for c in self.commits if c.epoch < until]
        self.commits.extend(attempt.commits)
