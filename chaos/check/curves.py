"""A run's loss, step by step, on an axis that it shares with its baseline."""

from collections.abc import Sequence
from dataclasses import dataclass

from chaos.check.analysis import RunAnalysis
from chaos.check.values import parse_number
from chaos.resume.steps import Losses, Step


@dataclass(frozen=True, slots=True)
class LossPoint:
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
class LossCurves:
    """One rank's losses: of the run, lost work included, and of its baseline."""

    run: tuple[LossPoint, ...]
    baseline: tuple[LossPoint, ...]


def build_curves(analysis: RunAnalysis, *, rank: int = 0) -> LossCurves:
    """Return the steps of one rank on one axis, in the order in which they were made."""
    all_tables = (
        [analysis.run] if analysis.reference is None else [analysis.run, analysis.reference]
    )
    steps = [
        [s for attempt in course_tables.attempts for s in attempt.steps.steps_by_rank.get(rank, ())]
        for course_tables in all_tables
    ]
    origins = _find_origins([step for course in steps for step in course])
    lines = [
        tuple(
            _build_point(step, origins, lost=not tables.lineage.is_surviving(step))
            for step in curve
        )
        for tables, curve in zip(all_tables, steps, strict=True)
    ]
    return LossCurves(run=lines[0], baseline=lines[1] if analysis.reference is not None else ())


def _find_origins(steps: Sequence[Step]) -> dict[int, int]:
    """Return the place of each epoch on the axis, as wide as it ever was in either run."""
    widths: dict[int, int] = {}
    for step in steps:
        widths[step.epoch] = max(widths.get(step.epoch, 0), step.step)
    origins, axis_end = {}, 0
    for epoch, width in sorted(widths.items()):
        origins[epoch] = axis_end
        axis_end += width
    return origins


def _build_point(step: Step, origins: dict[int, int], *, lost: bool) -> LossPoint:
    return LossPoint(
        number=step.number,
        attempt=step.attempt,
        epoch=step.epoch,
        step=step.step,
        position=origins[step.epoch] + step.step,
        loss=_compute_mean(step.losses),
        lost=lost,
    )


def _compute_mean(losses: Losses | None) -> float | None:
    values = [value for loss in losses or () if (value := parse_number(loss)) is not None]
    if not values:
        return None
    mean = sum(values) / len(values)
    return mean if mean - mean == 0 else None  # not so for infinities and NaN
