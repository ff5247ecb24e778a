"""Does the job repeat itself here, when nothing is done to it?"""

from chaos.check.comparison import Comparison, Sides
from chaos.check.result import plural
from chaos.check.trajectory import difference
from chaos.check.trial import Course
from chaos.model.history import History
from chaos.record import Record


class Repetition(Record):
    """Two clean runs side by side; `first` says where their losses part.

    `metrics_differing` names the metrics that are not the same both times
    (a wall-clock time): they cannot be held against the job.
    """

    losses_compared: int
    losses_differing: int
    metrics_differing: tuple[str, ...]
    first: str | None

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
            )
        others = f"; not so: {', '.join(self.metrics_differing)}" if self.metrics_differing else ""
        return f"two clean runs agree in {losses} to the last bit{others}"


def repetition(first: History, second: History) -> Repetition:
    """Compare the losses and metrics of two clean runs."""
    ours, theirs = Course(second), Course(first)
    whole = len(second)  # all of it was recorded before any fault
    comparison = Comparison.of(
        Sides.of(ours.attempts, ours.lineage, theirs.lineage, began=whole),
        tolerance=None,
        began=whole,
    )
    apart = comparison.control.first
    place = None
    if apart is not None:
        place = f"epoch {apart.epoch}, step {apart.step}, rank {apart.rank}: {difference(apart)}"
    return Repetition(
        losses_compared=comparison.control.compared,
        losses_differing=comparison.control.differing,
        metrics_differing=comparison.not_compared,
        first=place,
    )


def is_deterministic(first: History, second: History) -> bool:
    """Say whether two clean runs have the same losses to the last bit."""
    return repetition(first, second).is_deterministic
