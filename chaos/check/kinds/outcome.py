"""Facts of findings about the end of a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from chaos.check.kinds.base import Facts


@dataclass(frozen=True)
class FailedOutsideTraining(Facts):
    """The script raised an error before or after the call that trains."""

    kind: ClassVar[str] = "failed-outside-training"
    check: ClassVar[str] = "outcome"
    #: the class of the error, and its text
    error: str
    error_text: str


@dataclass(frozen=True)
class TrainingFailed(Facts):
    """Training ended with an error, and was expected to finish."""

    kind: ClassVar[str] = "training-failed"
    check: ClassVar[str] = "outcome"
    #: the class of the error, and its text
    error: str
    error_text: str


@dataclass(frozen=True)
class EndedEarly(Facts):
    """The process that trains ended before training had returned or raised an error."""

    kind: ClassVar[str] = "ended-early"
    check: ClassVar[str] = "outcome"
    #: a negative one is a signal
    exit_code: int
    #: what the call that trains was expected to do
    expected: Literal["return", "raise"]


@dataclass(frozen=True)
class NothingTrained(Facts):
    """Training returned, and not one step had been trained."""

    kind: ClassVar[str] = "nothing-trained"
    check: ClassVar[str] = "outcome"


@dataclass(frozen=True)
class WrongMetricsReturned(Facts):
    """The training call returned other metrics than those of the last report."""

    kind: ClassVar[str] = "wrong-metrics-returned"
    check: ClassVar[str] = "outcome"
    metrics: Mapping[str, Any]
    #: the epoch of the last report; None where none was committed
    epoch: int | None


@dataclass(frozen=True)
class NoCheckpointReturned(Facts):
    """The training call returned no checkpoint, although it does without a fault."""

    kind: ClassVar[str] = "no-checkpoint-returned"
    check: ClassVar[str] = "outcome"


@dataclass(frozen=True)
class OlderCheckpointReturned(Facts):
    """The training call returned another checkpoint than the newest."""

    kind: ClassVar[str] = "older-checkpoint-returned"
    check: ClassVar[str] = "outcome"
    checkpoint: str
    newest: str
    #: of the newest checkpoint
    epoch: int


@dataclass(frozen=True)
class ExpectedErrorMissing(Facts):
    """Training returned, and was expected to end with an error."""

    kind: ClassVar[str] = "expected-error-missing"
    check: ClassVar[str] = "outcome"
