"""The steps that a restart trained a second time, where the job may: at least once."""

from collections.abc import Iterator
from dataclasses import dataclass

from chaos.check.attempt import Start
from chaos.check.restarts import Restart
from chaos.check.trial import Course, Trial

# What they judge is laid beside the baseline's, and a step made twice makes another model.
COMPARED = frozenset({"state", "selection", "trajectory"})


@dataclass(frozen=True, slots=True)
class Repeat:
    """So many steps of one rank, in the epoch that an attempt went on with.

    `since`: the number of the attempt's first step; any from there on may be one of them.
    """

    attempt: int
    rank: int
    epoch: int
    steps: int
    since: int


def surplus(restart: Restart, start: Start, reference: Course) -> int:
    """Give how many steps too many a rank made in the first epoch after a restart."""
    steps = restart.attempt.by_epoch.get((start.rank, start.epoch), ())
    return len(steps) - (reference.lineage.count(start.rank, start.epoch) - start.step)


def repeats(trial: Trial) -> Iterator[Repeat]:
    """Give the steps that `expect.sampling: at_least_once` allows to be made again.

    On each rank as many as the restart threw away, in the epoch that it goes
    on with: a source that learns only later what was trained hands out again
    what it does not know of. Which samples they were is `samples`' to judge.
    """
    if trial.plan.expect.sampling != "at_least_once" or trial.reference is None:
        return
    for restart in trial.restarts:
        if restart.attempt.index in trial.resized or not restart.attempt.steps:
            continue
        for rank, start in sorted(restart.attempt.starts.items()):
            more = surplus(restart, start, trial.reference)
            if 0 < more <= restart.lost_steps.get(rank, 0):
                since = restart.attempt.steps[0].number
                yield Repeat(restart.attempt.index, rank, start.epoch, more, since)


def no_longer_comparable(trial: Trial) -> tuple[int, str] | None:
    """Give the event from which on nothing need equal the baseline's, and why; None: all must."""
    made = list(repeats(trial)) if trial.plan.expect.is_exact else []
    if not made:
        return None
    first = min(made, key=lambda repeat: repeat.since)
    return first.since, (
        f"attempt {first.attempt} trained {first.steps} of its steps a second time, as "
        "`sampling: at_least_once` allows, and what follows need not equal the baseline's; "
        "`expect.loss_tolerance` or `expect.band` says how near it must be"
    )
