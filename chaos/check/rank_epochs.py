"""Ranks that do not step together: epochs by a number of steps, and steps of one rank alone."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from chaos.errors import JobError
from chaos.model.event import FileSaveBegun, ReportBegun, StepDone
from chaos.model.history import History
from chaos.model.plan import Plan
from chaos.resume.regrid import ReportGrid

LONE_STEPS_MIN = 2  # ranks that step together are one step apart at most
EPOCHS_BY_STEPS = 5  # an early one, a late one, and three in between


class LoneSteps(NamedTuple):
    """The rank that steps first, and the number of steps that it alone makes at the start."""

    rank: int
    step_count: int


@dataclass(frozen=True)
class EpochEnd:
    """The end of an epoch of one rank, as the number of its steps up to there."""

    rank: int
    step_count: int

    def __str__(self) -> str:
        return f"after step {self.step_count} of rank {self.rank}"


@dataclass(frozen=True)
class SteppedEpochs:
    """A number of steps as the epoch of a job, and two ends of one epoch that ask for it."""

    steps: int
    ends: tuple[EpochEnd, EpochEnd]

    def describe_ends(self) -> str:
        """Return both ends in words, and no more than was seen: a save in a thread may be late."""
        first_end, other_end = self.ends
        return f"two ranks ended one epoch at different steps, {first_end} and {other_end}"

    def set_length(self, plan: Plan) -> Plan:
        """Return the plan with epochs of this length."""
        return plan.replace(job=plan.job.replace(epoch_steps=self.steps))


def divide_run(step_count: int) -> int:
    """Return the steps of an epoch, for a run of so many steps whose saves show no length."""
    return math.ceil(step_count / EPOCHS_BY_STEPS)


def find_stepped_epochs(plan: Plan, runs: Sequence[History]) -> SteppedEpochs | None:
    """Return epochs by steps if the ranks of a clean run ended one elsewhere; None if they did not.

    Without reports, a save of any rank ends the epoch of all ranks. Those that share gradients
    know of a save before their next step. With local updates (DiLoCo, arXiv:2311.08105) a rank may
    be ahead of the one that saves: its epoch ends elsewhere in every run, or never. A right job of
    this kind was said to have repeated 18 steps on one rank.
    """
    if plan.job.epoch_steps is not None:
        return None
    for history in runs:
        if any(history.select_events(ReportBegun)):
            return None  # reports end the epochs
        grid = ReportGrid.from_history(history)
        for ends in _find_differing_ends(grid):
            return SteppedEpochs(_find_save_distance(history, grid), ends)
    return None


def refuse_lone_steps(plan: Plan, runs: Sequence[History]) -> None:
    """Raise `JobError` if one rank of a clean run began with steps that no other rank made.

    Without reports, places are counted by steps, and those of all ranks together: with a model that
    rank 0 alone fits first, the ranks are apart by its steps, and no longer are where a restart
    finds the fitted model in a file. A right job of this kind was said to have repeated 5 steps.
    """
    if any(history.count(ReportBegun) for history in runs):
        return
    # Ranks that never step together may be so far apart in one run, and by chance.
    lone_steps = {_count_lone_steps(history) for history in runs}
    if len(lone_steps) != 1:
        return
    rank, count = lone_steps.pop()
    if count >= LONE_STEPS_MIN:
        raise JobError(
            f"rank {rank} makes {count} optimizer steps before any other rank makes one, and "
            "without reports the places of training are counted by the steps of all",
            "Make these steps on every rank; or make them before the job is tested, if it keeps "
            "what comes of them in a file.",
            location=plan.job.source,
        )


def refuse_uneven_epochs(plan: Plan, runs: Sequence[History]) -> None:
    """Raise `JobError` if a rank makes fewer steps in each epoch than the rank that saves.

    Without reports, an epoch of all ranks ends after as many steps as the rank made that saved. A
    rank with 13 batches where that one has 19, under `join()`, seemed to be in another epoch, and
    to have lost its model there. The job was right.
    """
    if plan.job.epoch_steps is not None or any(history.count(ReportBegun) for history in runs):
        return
    for history in runs:
        savers = {save.rank for _, save in history.select_events(FileSaveBegun)}
        lengths: dict[int, Counter[int]] = {}
        for _, step in history.select_events(StepDone):
            lengths.setdefault(step.rank, Counter())[step.epoch] += 1
        saver = min(savers & lengths.keys(), default=None)
        if saver is None:
            return
        for rank in sorted(lengths.keys() - savers):
            step_count, saver_count = lengths[rank].total(), lengths[saver].total()
            if step_count < saver_count and len(lengths[rank]) < len(lengths[saver]):
                raise JobError(
                    f"rank {rank} makes {step_count} steps and rank {saver}, which saves, "
                    f"{saver_count}: without reports it is not known where an epoch of rank "
                    f"{rank} ends",
                    "Give each rank equally many batches for the audit, or start it with "
                    "`--workers 1`.",
                    location=plan.job.source,
                )


def _count_lone_steps(history: History) -> LoneSteps:
    """Return the rank that steps first, and the number of steps that it alone makes at the start.

    The number is 0 unless all ranks make equally many steps apart from these.
    """
    ranks = [step.rank for _, step in history.select_events(StepDone)]
    counts = Counter(ranks)
    first_rank = next(iter(ranks), 0)
    other_counts = {count for rank, count in counts.items() if rank != first_rank}
    lone_count = counts[first_rank] - min(other_counts, default=0)
    # The first step that all make may be seen on this rank before it is on any other.
    start_count = next((n for n, rank in enumerate(ranks) if rank != first_rank), len(ranks))
    is_at_start = len(other_counts) == 1 and start_count - 1 <= lone_count <= start_count
    return LoneSteps(first_rank, lone_count if is_at_start else 0)


def _find_differing_ends(grid: ReportGrid) -> Iterator[tuple[EpochEnd, EpochEnd]]:
    """Yield the first ends that two ranks with the same number of steps do not share."""
    rows = {rank: sorted({*row} - {0}) for rank, row in sorted(grid.cumulative_steps.items())}
    first_rank = next(iter(rows), 0)
    for rank, row in rows.items():
        if row[-1:] != rows[first_rank][-1:]:
            continue  # ranks with other work have other ends
        for first_end, end in zip(rows[first_rank], row, strict=False):
            if first_end != end:
                yield EpochEnd(first_rank, first_end), EpochEnd(rank, end)


def _find_save_distance(history: History, grid: ReportGrid) -> int:
    """Return the number of steps between two saves; a fifth of all steps if it is not even."""
    saves = (save for _, save in history.select_events(FileSaveBegun))
    save_steps = {grid.count_steps(save.rank, save.epoch, save.step) for save in saves}
    distances = {later - step for step, later in pairwise(sorted({0, *save_steps}))}
    if len(distances) == 1:
        return distances.pop()
    return divide_run(max(row[-1] for row in grid.cumulative_steps.values()))
