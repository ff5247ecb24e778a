"""What an attempt came to after it was entered, beside the baseline at the same places."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from chaos.check.components import Row, group_of
from chaos.check.feeds import Apart
from chaos.check.restarts import Restart
from chaos.check.saved import Saved
from chaos.check.sightings import holds_nothing, is_pending, parts_of, place_of
from chaos.check.trajectory import SHIPPED, divergence
from chaos.check.trial import Trial
from chaos.model.event import StateSeen

_LATE = 3  # steps, after which any part of the state can have moved a loss


@dataclass(frozen=True)
class Aftermath:
    """What first differs from the baseline in the work of one attempt.

    `losses` counts the attempt's steps to the first loss that differs: 1 is
    that of its first forward call, infinite a later epoch's or a metric; None:
    none does. `inputs` are those of its first epoch that is fed otherwise, if
    no loss differs before them.
    """

    losses: float | None
    inputs: Sequence[Apart] = ()


def aftermath(trial: Trial, restart: Restart) -> Aftermath:
    """Give what first differs in the work of one attempt."""
    first, index = divergence(trial), restart.attempt.index
    losses, until = None, (math.inf, math.inf)
    if first is not None:
        until = first.place[:2]
    if first is not None and first.attempt == index:
        start = restart.attempt.starts.get(first.rank)
        place = restart.attempt.place if start is None else start.place
        is_near = first.step is not None and place is not None and place[0] == first.epoch
        # Within a leeway, where losses first differ by too much says nothing of what moved them.
        losses = math.inf
        if is_near and trial.leeway.is_exact:
            assert first.step is not None
            assert place is not None
            losses = first.step - place[1]
    feeds = trial.feeds
    fed = feeds.apart if feeds is not None and feeds.repeat else ()
    fed = tuple(a for a in fed if a.first.attempt == index)
    start_at = min(((a.epoch, a.first.step) for a in fed), default=None)
    if start_at is None or start_at > until or (losses is None and first is not None):
        return Aftermath(losses)
    return Aftermath(losses, [a for a in fed if a.epoch == start_at[0]])


@dataclass(frozen=True)
class Later:
    """What an attempt was seen to come to after it was entered."""

    trial: Trial
    restart: Restart

    def shows_nothing_of(self, row: Row, after: Aftermath) -> bool:
        """Say whether it is shown that nothing follows from a part that is not the baseline's.

        That nothing was seen to follow is not enough: what is shipped was seen
        to be the baseline's, at a place that the part could have changed.
        """
        if after.losses is not None or after.inputs:
            return False
        if any(trace(self.trial, self.restart, row) for trace in TRACES):
            return False
        seen = list(self._shipped(row.rank))
        if not all(same for _, _, same in seen):
            return False
        if row.group == "model":
            # What it is called with makes the loss: it is there, as another part of the state.
            return holds_nothing(row.ours) and self._has_equal_losses(row)
        if row.group in SHIPPED:
            return any(name == row.component for name, _, _ in seen)
        return any(group == "model" for _, group, _ in seen) or self._has_equal_losses(row)

    def _shipped(self, rank: int) -> Iterator[tuple[str, str, bool]]:
        """Give the parts of what is shipped that were seen later, and if they are the baseline's.

        On all ranks where they are not; that they are must be seen on the rank itself.
        """
        assert self.trial.reference is not None
        due_at = self.trial.reference.sightings.by_place
        entry = self.trial.run.sightings.entries
        index = self.restart.attempt.index
        for number, seen in self.trial.run.sightings.all:
            first = entry.get((index, seen.rank))
            if seen.attempt != index or first is None or number <= first[0]:
                continue
            for name, group, same in self._beside(seen, due_at.get(place_of(seen))):
                if not same or seen.rank == rank:
                    yield name, group, same

    def _beside(self, seen: StateSeen, due: StateSeen | None) -> Iterator[tuple[str, str, bool]]:
        mine = parts_of(seen)
        for part in () if due is None else due.components:
            ours, group = mine.get(part.name), group_of(part.name)
            if group not in SHIPPED or part.name in self.trial.unstable or ours is None:
                continue
            if not is_pending(ours) and not is_pending(part):
                yield part.name, group, ours.digest == part.digest

    def _has_equal_losses(self, row: Row) -> bool:
        """Say whether a loss that any part can have changed is the baseline's."""
        for group in self.trial.aligned:
            for step, due in group.pairs():
                late = step.epoch > row.epoch or step.step - row.step >= _LATE
                mine = step.attempt == row.attempt and step.rank == row.rank and late
                if mine and due is not None and step.losses and step.losses == due.losses:
                    return True
        return False


# -- files ----------------------------------------------------------------------------------------


def _is_saved_otherwise(trial: Trial, restart: Restart, row: Row) -> bool:
    """Say whether a schedule that was lost is in a file that a restart may go on from."""
    if row.group != "schedule" or trial.reference is None:
        return False
    ignore = trial.plan.expect.ignore_metrics
    files = Saved(trial.run, trial.reference, trial.began, trial.resized, ignore)
    return any(
        other.saved.attempt == restart.attempt.index
        and other.name.rpartition(".")[2] in ("last_epoch", "_step_count")
        for other in files.other_counts()
    )


# What shows that something follows from a part, beside losses, metrics, inputs and the state.
Trace: TypeAlias = Callable[[Trial, Restart, Row], bool]
TRACES: tuple[Trace, ...] = (_is_saved_otherwise,)
