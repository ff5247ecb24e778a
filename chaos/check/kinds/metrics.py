"""Facts of findings about reported values: counters, and what chooses a model or stops training."""

from dataclasses import dataclass
from typing import ClassVar

from chaos.check.kinds.base import Facts
from chaos.check.values import Value


@dataclass(frozen=True)
class WrongCounter(Facts):
    """A counter that the job reports did not count on after a resume as it does without a fault."""

    kind: ClassVar[str] = "wrong-counter"
    check: ClassVar[str] = "metrics"
    counter: str
    #: of the first report that is wrong
    epoch: int
    value: int
    expected_value: int
    #: that of the report before; None for the first one
    previous_value: int | None


@dataclass(frozen=True)
class ChoiceStateLost(Facts):
    """A best value, a patience or a stop is another, though what it is chosen by is the same."""

    kind: ClassVar[str] = "choice-state-lost"
    check: ClassVar[str] = "selection"
    metric: str
    #: of the first report that is wrong
    epoch: int
    value: Value
    expected_value: Value


@dataclass(frozen=True)
class OtherCheckpointsKept(Facts):
    """Other checkpoints were kept in the end, although every report is the same."""

    kind: ClassVar[str] = "other-checkpoints-kept"
    check: ClassVar[str] = "selection"
    #: of the checkpoints that were kept
    epochs: tuple[int, ...]
    expected_epochs: tuple[int, ...]
