"""Facts of findings about the numbers and the state of training, compared with the baseline's."""

from dataclasses import dataclass
from typing import ClassVar

from chaos.check.kinds.base import Facts
from chaos.check.kinds.state import PartValue
from chaos.check.values import NumberPair


@dataclass(frozen=True)
class NumberFacts(Facts):
    """The facts of numbers that differ from the baseline's."""

    first_pair: NumberPair
    differing_count: int
    compared_count: int
    #: of two numbers at one place; 0 where none of them is finite
    largest_difference: float


@dataclass(frozen=True)
class LossDiffers(NumberFacts):
    """From some step on the loss is not the baseline's."""

    kind: ClassVar[str] = "loss-differs"
    check: ClassVar[str] = "trajectory"


@dataclass(frozen=True)
class PassCountDiffers(NumberFacts):
    """An optimizer step follows more or fewer backward passes than in the baseline."""

    kind: ClassVar[str] = "pass-count-differs"
    check: ClassVar[str] = "trajectory"


@dataclass(frozen=True)
class MeanLossDiffers(NumberFacts):
    """With another number of workers, the mean loss of all ranks is not near the baseline's."""

    kind: ClassVar[str] = "mean-loss-differs"
    check: ClassVar[str] = "trajectory"


@dataclass(frozen=True)
class MetricDiffers(NumberFacts):
    """A metric that the job reports is not the baseline's, and no loss differs before it."""

    kind: ClassVar[str] = "metric-differs"
    check: ClassVar[str] = "trajectory"


@dataclass(frozen=True)
class StateDiffersAlone(Facts):
    """A part of the state is not the baseline's, although no loss and no metric shows it."""

    kind: ClassVar[str] = "state-differs-alone"
    check: ClassVar[str] = "trajectory"
    part: str
    #: those where it differs first
    ranks: tuple[int, ...]
    epoch: int
    step: int
    moment: str
    value: PartValue | None
    expected_value: PartValue | None
    #: those that differ somewhere as well
    other_parts: tuple[str, ...]
    #: of all parts at all places
    differing_count: int
    compared_count: int
