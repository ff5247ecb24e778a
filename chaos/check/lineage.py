"""The part of a run that survived: attempts laid end to end, thrown-away work cut out.

An attempt that starts at epoch `e` makes everything before it that belongs to
epoch `e` or later work that is done again. What is left is the lineage, and
its steps are keyed by (rank, epoch): the epochs of one rank on the lineage
come from one attempt each, because an attempt starts at the head of an epoch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chaos.check.attempt import Attempt, Commit, Step


@dataclass(frozen=True)
class Lineage:
    """What survived, and what did not.

    `steps` and `commits` are the survivors. `lost` gives, for each attempt
    that was resumed, how many finished steps per rank its start threw away.
    `resumed` holds the (rank, epoch) that are the first of a resumed attempt.
    """

    steps: Mapping[tuple[int, int], tuple[Step, ...]]
    commits: tuple[Commit, ...]
    lost: Mapping[int, Mapping[int, int]]
    resumed: frozenset[tuple[int, int]]

    def count(self, rank: int, epoch: int) -> int:
        """Give the number of steps of one rank in one epoch."""
        return len(self.steps.get((rank, epoch), ()))

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that made steps."""
        return tuple(sorted({rank for rank, _ in self.steps}))

    @property
    def steps_done(self) -> int:
        """Optimizer steps of the job: those of the rank that made most."""
        return max((self._steps_of(rank) for rank in self.ranks), default=0)

    def longest_way_between_commits(self) -> int:
        """Give the most steps any rank makes from one checkpoint to the next.

        The start of training counts as a checkpoint, and so does its end:
        what is trained after the last checkpoint can be lost as well.
        """
        saved = {commit.epoch for commit in self.commits if commit.checkpoint is not None}
        return max((self._longest_way(rank, saved) for rank in self.ranks), default=0)

    def _steps_of(self, rank: int) -> int:
        return sum(len(steps) for (of, _), steps in self.steps.items() if of == rank)

    def _longest_way(self, rank: int, saved: set[int]) -> int:
        way = longest = 0
        for epoch in sorted(epoch for of, epoch in self.steps if of == rank):
            way += self.count(rank, epoch)
            longest = max(longest, way)
            if epoch in saved:
                way = 0
        return longest


def lineage(attempts: Sequence[Attempt]) -> Lineage:
    """Fold the attempts, oldest first, into what survived."""
    fold = _Fold()
    for attempt in attempts:
        fold.cut(attempt)
        fold.add(attempt)
    return Lineage(
        steps={key: tuple(steps) for key, steps in fold.steps.items()},
        commits=tuple(fold.commits),
        lost=fold.lost,
        resumed=frozenset(fold.resumed),
    )


@dataclass
class _Fold:
    steps: dict[tuple[int, int], list[Step]] = field(default_factory=dict)
    commits: list[Commit] = field(default_factory=list)
    lost: dict[int, dict[int, int]] = field(default_factory=dict)
    resumed: set[tuple[int, int]] = field(default_factory=set)

    def cut(self, attempt: Attempt) -> None:
        """Drop what `attempt` does again; a rank it does not tell of follows the others."""
        if attempt.epoch is None:
            return
        since = {rank: start.epoch for rank, start in attempt.starts.items()}
        gone = [key for key in self.steps if key[1] >= since.get(key[0], attempt.epoch)]
        thrown = self.lost.setdefault(attempt.index, {})
        for key in gone:
            thrown[key[0]] = thrown.get(key[0], 0) + len(self.steps.pop(key))
        self.commits = [c for c in self.commits if c.epoch < attempt.epoch]
        self.resumed = {key for key in self.resumed if key[1] < since.get(key[0], attempt.epoch)}
        if attempt.index > 0:
            self.resumed |= set(since.items())

    def add(self, attempt: Attempt) -> None:
        """Append what `attempt` did."""
        for key, steps in attempt.by_epoch.items():
            self.steps.setdefault(key, []).extend(steps)
        self.commits.extend(attempt.commits)
