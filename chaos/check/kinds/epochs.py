"""Facts of findings about the place in training, and about the epochs of a run."""

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from chaos.check.kinds.base import Facts
from chaos.model.places import TrainingPlace

# -- cursor ----------------------------------------------------------------------------------------


class ResumePlace(NamedTuple):
    """The place at which an attempt resumed, with what shows it."""

    place: TrainingPlace
    evidence: str


@dataclass(frozen=True)
class StepsRepeated(Facts):
    """A rank made more steps after a restart than were left of the epoch."""

    kind: ClassVar[str] = "steps-repeated"
    check: ClassVar[str] = "cursor"
    rank: int
    epoch: int
    steps: int
    expected_steps: int
    #: those that the restart threw away, if so many may be repeated; else None
    allowed_surplus: int | None
    resume: ResumePlace | None


@dataclass(frozen=True)
class StepsSkipped(Facts):
    """A rank made fewer steps after a restart than were left of the epoch."""

    kind: ClassVar[str] = "steps-skipped"
    check: ClassVar[str] = "cursor"
    rank: int
    epoch: int
    steps: int
    expected_steps: int
    resume: ResumePlace | None


@dataclass(frozen=True)
class InputsTrainedAgain(Facts):
    """Training went on with the inputs of an earlier place, and trained them a second time."""

    kind: ClassVar[str] = "inputs-trained-again"
    check: ClassVar[str] = "cursor"
    attempt: int
    #: the one at which it went on, if that is known
    epoch: int | None
    #: how many steps earlier the run without faults has these inputs
    steps: int


@dataclass(frozen=True)
class InputsLeftOut(Facts):
    """Training went on with the inputs of a later place, and left out those before."""

    kind: ClassVar[str] = "inputs-left-out"
    check: ClassVar[str] = "cursor"
    attempt: int
    #: the one at which it went on, if that is known
    epoch: int | None
    #: how many steps later the run without faults has these inputs
    steps: int


class BatchNumbers(NamedTuple):
    """The batches after which an optimizer stepped: the first of them, and how many there are."""

    first: tuple[int, ...]
    total: int


class CadenceChange(NamedTuple):
    """An optimizer that stepped after other batches than in the baseline."""

    optimizer: str
    batches: BatchNumbers
    baseline_batches: BatchNumbers


@dataclass(frozen=True)
class OptimizerStepsShifted(Facts):
    """One of several optimizers stepped after other batches than in the run without faults."""

    kind: ClassVar[str] = "optimizer-steps-shifted"
    check: ClassVar[str] = "cursor"
    rank: int
    change: CadenceChange
    resumed_at: TrainingPlace


# -- epochs ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EpochFacts(Facts):
    """The facts of a finding about the epochs of a run."""

    check: ClassVar[str] = "epochs"
    #: in the first finding, an attempt of which no rank asked for its checkpoint, if there is one
    attempt_without_read: int | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class EpochRepeated(EpochFacts):
    """An epoch was trained a second time, although it had ended before."""

    kind: ClassVar[str] = "epoch-repeated"
    epoch: int


@dataclass(frozen=True)
class EpochsLeftOut(EpochFacts):
    """Epochs never ended, although a later one did."""

    kind: ClassVar[str] = "epochs-left-out"
    first_epoch: int
    last_epoch: int
    #: the one that ended without them
    later_epoch: int


@dataclass(frozen=True)
class TooManyEpochs(EpochFacts):
    """The job trained more epochs than without faults."""

    kind: ClassVar[str] = "too-many-epochs"
    epochs: int
    baseline_epochs: int


@dataclass(frozen=True)
class TooFewEpochs(EpochFacts):
    """The job finished after fewer epochs than without faults."""

    kind: ClassVar[str] = "too-few-epochs"
    epochs: int
    baseline_epochs: int


@dataclass(frozen=True)
class DependentBeganEarly(EpochFacts):
    """A job that depends on this one began before its training was over."""

    kind: ClassVar[str] = "dependent-began-early"
    script: str
    #: such as `afterany`
    dependency: str
    epochs: int
    baseline_epochs: int


@dataclass(frozen=True)
class StepTotalDiffers(EpochFacts):
    """A rank made another number of steps over the whole run than without faults."""

    kind: ClassVar[str] = "step-total-differs"
    rank: int
    steps: int
    baseline_steps: int


@dataclass(frozen=True)
class EpochLengthDiffers(EpochFacts):
    """An epoch had another number of steps than without faults."""

    kind: ClassVar[str] = "epoch-length-differs"
    rank: int
    epoch: int
    steps: int
    baseline_steps: int


@dataclass(frozen=True)
class EpochMetricDiffers(EpochFacts):
    """The metric that counts the epochs has another value than without faults."""

    kind: ClassVar[str] = "epoch-metric-differs"
    #: the number of the report
    report: int
    metric: str
    #: of each rank that reported; None where it left the metric out
    values: tuple[object, ...]
    baseline_values: tuple[object, ...]
