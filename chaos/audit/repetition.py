"""Does the job repeat itself here, when nothing is done to it?"""

import math
from collections.abc import Sequence

from chaos.check.aligned import Aligned
from chaos.check.comparison import Comparison, Sides
from chaos.check.leeway import EXACT, Bands
from chaos.check.result import plural
from chaos.check.trajectory import difference
from chaos.check.trial import Course
from chaos.model.history import History
from chaos.model.scenario import Profile
from chaos.record import Record

# The part of a loss that a band may hide. A defect that moves losses by more is no small one: a
# lost optimizer's state moves them by a few percent, so that a wider band says nothing of it.
HIDDEN_MAX = 0.05


class Repetition(Record):
    """Two clean runs side by side; `first` says where their losses part.

    `metrics_differing` names the metrics that are not the same both times
    (a wall-clock time): they cannot be held against the job. `hidden_part`:
    where losses differ, how much of a loss a defect can move unseen by the
    band of all clean runs, the median over steps. `inputs_apart` says where
    they were first given other data.
    """

    losses_compared: int
    losses_differing: int
    metrics_differing: tuple[str, ...]
    first: str | None
    hidden_part: float | None = None
    inputs_apart: str | None = None

    @property
    def hides_much(self) -> bool:
        """Whether a defect can move a loss by more than a few percent unseen."""
        return self.losses_differing > 0 and (self.hidden_part or HIDDEN_MAX + 1) > HIDDEN_MAX

    def _band(self) -> str:
        if self.hidden_part is None:
            return ""
        return (
            "; judged by the band of five clean runs, in which a defect that moves a loss by less "
            f"than {100 * self.hidden_part:.2g} % is not seen"
        )

    @property
    def differs(self) -> bool:
        """Whether losses or inputs were not the same both times."""
        return self.losses_differing > 0 or self.inputs_apart is not None

    @property
    def is_deterministic(self) -> bool:
        """Whether every loss was the same to the last bit."""
        return self.losses_compared > 0 and self.losses_differing == 0

    def __str__(self) -> str:
        if self.losses_compared == 0:
            return "no loss was seen, so losses cannot be compared"
        losses = plural(self.losses_compared, "loss", "losses")
        if self.first is not None:
            return (
                f"{self.losses_differing} of {losses} differ between two clean runs: {self.first}"
                f"{self._band()}"
            )
        others = f"; not so: {', '.join(self.metrics_differing)}" if self.metrics_differing else ""
        return f"two clean runs agree in {losses} to the last bit{others}"


def hidden_part(profile: Profile, runs: Sequence[History]) -> float | None:
    """Give how much of a loss a defect can move without leaving the band of clean runs."""
    courses = [Course(history) for history in runs]
    bands = Bands.of(profile, [(course.lineage, course.sightings) for course in courses])
    usual, _ = bands.hides
    return usual if math.isfinite(usual) else None


def repetition(first: History, second: History) -> Repetition:
    """Compare the losses and metrics of two clean runs."""
    ours, theirs = Course(second), Course(first)
    whole = len(second)  # all of it was recorded before any fault
    sides = Sides.of(ours.attempts, ours.lineage, theirs.lineage, began=whole)
    comparison = Comparison.of(sides, leeway=EXACT, began=whole)
    apart = comparison.control.first
    place = None
    if apart is not None:
        place = f"epoch {apart.epoch}, step {apart.step}, rank {apart.rank}: {difference(apart)}"
    return Repetition(
        losses_compared=comparison.control.compared,
        losses_differing=comparison.control.differing,
        metrics_differing=comparison.not_compared,
        first=place,
        inputs_apart=_inputs_apart(sides.before),
    )


def _inputs_apart(steps: Sequence[Aligned]) -> str | None:
    for group in (group for group in steps if not group.has_equal_inputs):
        for ours, due in group.pairs():
            if due is None or ours.inputs is None or due.inputs is None:
                continue
            if ours.inputs != due.inputs:
                return f"epoch {ours.epoch}, step {ours.step}, rank {ours.rank}: other inputs"
    return None


def is_deterministic(first: History, second: History) -> bool:
    """Say whether two clean runs have the same losses to the last bit."""
    return repetition(first, second).is_deterministic
