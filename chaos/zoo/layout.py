"""How a job of the zoo is laid out in reports and steps, and where it resumes if it is right."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from pydantic import PositiveInt

from chaos.model.plan import Op
from chaos.model.trigger import MOMENTS, AtMoment, Trigger
from chaos.record import Record

# When a job saves, and where: in checkpoints that it reports, or in a directory of its own.
Saves: TypeAlias = Literal["every epoch", "every few steps", "in its own directory"]


class Variant(Record):
    """The choices that are drawn for a job: its `train_loop_config`."""

    epochs: PositiveInt
    steps_per_epoch: PositiveInt
    cadence: PositiveInt
    seed: int
    batch_size: PositiveInt
    optimizer: Literal["adam", "sgd"]


@dataclass(frozen=True)
class Layout:
    """The reports of a job left alone, in order; chaos counts each as an epoch.

    `steps` has each report's optimizer steps, `ended` says which of them end
    an epoch of the job's own.
    """

    saves: Saves
    steps: tuple[int, ...]
    ended: tuple[bool, ...]

    @property
    def reports(self) -> int:
        """How many reports there are."""
        return len(self.steps)

    def steps_before(self, epoch: int) -> int:
        """Count the optimizer steps before an epoch, from the start of training."""
        return sum(self.steps[:epoch])

    def passed(self, at: Trigger) -> tuple[int, int, int]:
        """Give what sorts the places of one rank in the order in which it passes them."""
        if not isinstance(at, AtMoment):
            return at.epoch, 0, at.step
        saves_first = at.moment == "saving" and self.saves == "in its own directory"
        return at.epoch, -1 if saves_first else 1 + MOMENTS.index(at.moment), 0

    def resumes_at(self, op: Op) -> int:
        """Give the epoch at which a right job goes on once `op` has killed it.

        It is the number of states that were saved whole before. A job with a
        directory of its own saves what epoch e came to after it has reported
        e, which is in epoch e + 1 as chaos counts.
        """
        at = op.at
        if not isinstance(at, AtMoment):
            return at.epoch
        if self.saves == "in its own directory":
            return at.epoch - 1 if at.moment == "saving" else at.epoch
        return at.epoch + 1 if at.moment == "committed" else at.epoch


def layout(saves: Saves, variant: Variant, *, epochs_max: int | None = None) -> Layout:
    """Give the layout of a job that saves so; `epochs_max`: it stops early."""
    epochs = min(variant.epochs, epochs_max or variant.epochs)
    length, cadence = variant.steps_per_epoch, variant.steps_per_epoch
    if saves == "every few steps":
        cadence = variant.cadence
    whole, rest = divmod(length, cadence)
    parts = (cadence,) * whole + ((rest,) if rest else ())
    ended = (False,) * (len(parts) - 1) + (True,)
    return Layout(saves, parts * epochs, ended * epochs)
