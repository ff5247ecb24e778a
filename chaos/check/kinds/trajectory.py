"""Facts of findings about the numbers and the state of training, compared with the baseline's."""

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from chaos.check.kinds.base import Facts
from chaos.check.kinds.state import PartValue
from chaos.check.values import NumberPair

#: What a number is: of one rank's step, of all ranks' step, or of a report.
NumberType: TypeAlias = Literal["loss", "backward passes", "mean loss", "metric"]


@dataclass(frozen=True)
class NumberFacts(Facts):
    """The facts of numbers that differ from the baseline's.

    Which number differs first depends on the place of the fault. What one defect has in common is
    when it shows, so that makes the kind.
    """

    check: ClassVar[str] = "trajectory"
    number_type: NumberType
    first_pair: NumberPair
    differing_count: int
    compared_count: int
    #: of two numbers at one place; 0 where none of them is finite
    largest_difference: float


@dataclass(frozen=True)
class NumbersDifferAtResume(NumberFacts):
    """Losses or metrics are not the baseline's, beginning in an epoch that was resumed in."""

    kind: ClassVar[str] = "numbers-differ-at-resume"


@dataclass(frozen=True)
class NumbersDifferLater(NumberFacts):
    """Losses or metrics are not the baseline's, beginning in an epoch after a resumed one."""

    kind: ClassVar[str] = "numbers-differ-later"


@dataclass(frozen=True)
class NumbersDifferEarlier(NumberFacts):
    """Losses or metrics are not the baseline's, beginning before the epoch that was resumed in."""

    kind: ClassVar[str] = "numbers-differ-earlier"


@dataclass(frozen=True)
class NumbersDiffer(NumberFacts):
    """Losses or metrics are not the baseline's, and no resume is known that they could follow."""

    kind: ClassVar[str] = "numbers-differ"


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
