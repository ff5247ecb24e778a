"""Facts of findings about the data: the order of inputs, and each sample of an epoch once."""

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from chaos.check.kinds.base import Facts

# -- sample-order ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class OrderFacts(Facts):
    """The facts of an epoch whose inputs are not the baseline's."""

    epoch: int
    #: those with other inputs
    ranks: tuple[int, ...]
    #: the samples since a resume in this epoch that had been trained before; None without such
    repeated_samples: int | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class InputsShifted(OrderFacts):
    """From some step on, inputs are those that belong some steps before or after their place."""

    kind: ClassVar[str] = "inputs-shifted"
    check: ClassVar[str] = "sample-order"
    #: the first one with other inputs
    step: int
    #: by how many steps; negative where the inputs belong before that place
    offset: int


@dataclass(frozen=True)
class UnknownSamples(OrderFacts):
    """From some step on, samples are given that the baseline never saw."""

    kind: ClassVar[str] = "unknown-samples"
    check: ClassVar[str] = "sample-order"
    #: the first one with other inputs
    step: int
    #: whether the generators that all code shares came back, and the place in the data
    has_restored_generators: bool


@dataclass(frozen=True)
class OtherEpochSamples(OrderFacts):
    """An epoch was given the samples of another epoch instead of its own."""

    kind: ClassVar[str] = "other-epoch-samples"
    check: ClassVar[str] = "sample-order"
    source_epoch: int
    #: those that did not come back, and may have drawn the samples
    generators: tuple[str, ...]


class StepRange(NamedTuple):
    """The steps of an epoch from one to another."""

    first: int
    last: int


@dataclass(frozen=True)
class OtherEpochOrder(OrderFacts):
    """An epoch, or some steps of it, was trained in the order of another epoch."""

    kind: ClassVar[str] = "other-epoch-order"
    check: ClassVar[str] = "sample-order"
    source_epoch: int
    #: whether the order was right where the attempt resumed, and wrong in later epochs only
    has_right_start: bool
    #: None for the whole epoch
    steps: StepRange | None = None


@dataclass(frozen=True)
class InputsDiffer(OrderFacts):
    """From some step on, inputs are not the baseline's, and their samples are not known."""

    kind: ClassVar[str] = "inputs-differ"
    check: ClassVar[str] = "sample-order"
    #: the first one with other inputs
    step: int


@dataclass(frozen=True)
class SamplesReordered(OrderFacts):
    """An epoch was given its own samples in an order that no epoch of the baseline has."""

    kind: ClassVar[str] = "samples-reordered"
    check: ClassVar[str] = "sample-order"
    #: the first one with other inputs
    step: int


@dataclass(frozen=True)
class OtherSamplesDrawn(OrderFacts):
    """A job that draws samples with replacement drew others than in the baseline."""

    kind: ClassVar[str] = "other-samples-drawn"
    check: ClassVar[str] = "sample-order"
    #: the first one with other inputs
    step: int


# -- samples ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EpochSamplesUneven(Facts):
    """Some samples of an epoch were never trained in it, or trained more often than once."""

    kind: ClassVar[str] = "epoch-samples-uneven"
    check: ClassVar[str] = "samples"
    epoch: int
    #: in the baseline
    sample_count: int
    missing_count: int
    surplus_count: int
    #: the samples since a resume in this epoch that had been trained before; None without such
    repeated_samples: int | None


@dataclass(frozen=True)
class RunSamplesUneven(Facts):
    """Over the whole run, some samples were trained less often than they should, or more often."""

    kind: ClassVar[str] = "run-samples-uneven"
    check: ClassVar[str] = "samples"
    #: in the baseline
    sample_count: int
    #: over the data, in the baseline
    pass_count: int
    missing_count: int
    surplus_count: int
