"""What the model says beside what runs measured: the difference stands, whatever it is."""

import math
from dataclasses import dataclass
from typing import Any

from chaos.preflight.estimate import Estimate


@dataclass(frozen=True)
class Comparison:
    """One figure over `runs` runs, each side a mean with its 95 % interval.

    `predicted` holds where the mean of so many runs is to lie; it is exact
    where the model is told everything but the costs. `inside`: the share of
    runs that lie in the 5 to 95 % of single runs that the model expects, 0.9
    where it is right; None where it makes no distribution.
    """

    figure: str
    unit: str
    runs: int
    predicted: Estimate
    measured: Estimate
    inside: float | None = None

    @property
    def difference(self) -> float:
        """How far the prediction is off, as a share of what was measured."""
        if self.measured.value == 0:
            return 0.0 if self.predicted.value == 0 else math.inf
        return self.predicted.value / self.measured.value - 1

    @property
    def agrees(self) -> bool:
        """Whether the measured mean lies where the model says the mean of so many runs lies."""
        return self.predicted.low <= self.measured.value <= self.predicted.high

    def to_json(self) -> dict[str, Any]:
        """Give it as plain values."""
        return {
            "figure": self.figure,
            "unit": self.unit,
            "runs": self.runs,
            "predicted": vars(self.predicted),
            "measured": vars(self.measured),
            "difference": self.difference,
            "agrees": self.agrees,
            "inside_5_to_95": self.inside,
        }


@dataclass(frozen=True)
class Validation:
    """The comparison of a model with runs: what the runs were, and each figure."""

    what: str
    rows: tuple[Comparison, ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Give it as plain values."""
        rows = [row.to_json() for row in self.rows]
        return {"what": self.what, "notes": list(self.notes), "figures": rows}
