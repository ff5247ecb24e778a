"""A run's loss, step by step, on an axis that it shares with its baseline."""

from collections.abc import Sequence
from dataclasses import dataclass

from chaos.check.analysis import RunAnalysis
from chaos.check.steps import Losses, Step
from chaos.check.values import as_number


@dataclass(frozen=True, slots=True)
class Point:
    """One step of one attempt."""

    #: its event
    number: int
    attempt: int
    epoch: int
    step: int
    #: steps from the start of training, from 1; a recomputed step has its former position
    position: int
    #: the mean over the step's micro-batches, None where it is unknown or not finite
    loss: float | None
    #: a restart discarded the step
    lost: bool


@dataclass(frozen=True)
class Curves:
    """One rank's losses: of the run, lost work included, and of its baseline."""

    run: tuple[Point, ...]
    baseline: tuple[Point, ...]


def curves(analysis: RunAnalysis, *, rank: int = 0) -> Curves:
    """Return the steps of one rank on one axis, in the order in which they were made."""
    courses = [analysis.run] if analysis.reference is None else [analysis.run, analysis.reference]
    steps = [[s for a in c.attempts for s in a.steps.by_rank.get(rank, ())] for c in courses]
    origins = _origins([step for of in steps for step in of])
    lines = [
        tuple(_point(step, origins, lost=not tables.lineage.survives(step)) for step in done)
        for tables, done in zip(courses, steps, strict=True)
    ]
    return Curves(run=lines[0], baseline=lines[1] if analysis.reference is not None else ())


def _origins(steps: Sequence[Step]) -> dict[int, int]:
    """Return the place of each epoch on the axis, as wide as it ever was in either run."""
    widths: dict[int, int] = {}
    for step in steps:
        widths[step.epoch] = max(widths.get(step.epoch, 0), step.step)
    origins, end = {}, 0
    for epoch, width in sorted(widths.items()):
        origins[epoch] = end
        end += width
    return origins


def _point(step: Step, origins: dict[int, int], *, lost: bool) -> Point:
    return Point(
        number=step.number,
        attempt=step.attempt,
        epoch=step.epoch,
        step=step.step,
        position=origins[step.epoch] + step.step,
        loss=_mean(step.losses),
        lost=lost,
    )


def _mean(losses: Losses | None) -> float | None:
    values = [value for loss in losses or () if (value := as_number(loss)) is not None]
    if not values:
        return None
    mean = sum(values) / len(values)
    return mean if mean - mean == 0 else None  # not so for infinities and NaN
