"""The line of training: every step of some ranks on one axis, ready to be drawn."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from chaos.check import curves
from chaos.check.trial import Trial
from chaos.model.trigger import AtMoment, Trigger

Series: TypeAlias = Literal["baseline", "this run", "lost work"]


@dataclass(frozen=True, slots=True)
class Spot:
    """One step of one rank as drawn; `loss` is None where the loss is no number."""

    series: Series
    attempt: int
    rank: int
    epoch: int
    step: int
    position: int
    loss: float | None

    @property
    def strand(self) -> int:
        """Which line of its series it is on: one over all attempts, except in what was lost."""
        return self.attempt if self.series == "lost work" else 0


@dataclass(frozen=True)
class Track:
    """The steps of some ranks; `before` counts the steps before each epoch, `steps` all."""

    spots: tuple[Spot, ...]
    before: Mapping[int, int]
    steps: int

    def at(self, epoch: int, step: int) -> int:
        """Give the position of a step, 1 for the first of training."""
        return self.before.get(epoch, self.steps) + step

    def at_trigger(self, trigger: Trigger) -> int:
        """Give the position of a trigger; a moment of a report lies at its epoch's end."""
        if isinstance(trigger, AtMoment):
            return self.at(trigger.epoch + 1, 0)
        return self.at(trigger.epoch, trigger.step)

    def strands(self) -> list[list[Spot]]:
        """Give the spots line by line, each in the order of training."""
        found: dict[tuple[Series, int, int], list[Spot]] = {}
        for spot in self.spots:
            found.setdefault((spot.series, spot.rank, spot.strand), []).append(spot)
        return [sorted(strand, key=lambda spot: spot.position) for strand in found.values()]


def track(trial: Trial, ranks: Sequence[int]) -> Track:
    """Lay the steps of these ranks along one axis."""
    spots = [spot for rank in ranks for spot in _spots_of(trial, rank)]
    before = {spot.epoch: spot.position - spot.step for spot in spots}
    return Track(tuple(spots), before, max((spot.position for spot in spots), default=0))


def _spots_of(trial: Trial, rank: int) -> list[Spot]:
    drawn = curves.curves(trial, rank=rank)
    kept = [point for point in drawn.baseline if not point.lost]
    survived = [point for point in drawn.run if not point.lost]
    lost = [point for point in drawn.run if point.lost]
    return [
        *_as_spots(kept, "baseline", rank),
        *_as_spots(lost, "lost work", rank),
        *_as_spots(survived, "this run", rank),
    ]


def _as_spots(points: Iterable[curves.Point], series: Series, rank: int) -> list[Spot]:
    return [Spot(series, p.attempt, rank, p.epoch, p.step, p.position, p.loss) for p in points]
