"""Facts of findings about retries: charges to the retry budgets, and attempts."""

from dataclasses import dataclass
from typing import ClassVar

from chaos.check.injections import Budget
from chaos.check.kinds.base import Facts

# -- retry-budget ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class RetryLimitExceeded(Facts):
    """The launcher tried again, although the retry budget was used up."""

    kind: ClassVar[str] = "retry-limit-exceeded"
    check: ClassVar[str] = "retry-budget"
    #: the one that was to be the last
    attempt: int
    budget: Budget
    charged_count: int
    #: the setting that limits the budget
    setting: str
    limit: int


@dataclass(frozen=True)
class GaveUpEarly(Facts):
    """The launcher gave up, although the retry budget was not used up."""

    kind: ClassVar[str] = "gave-up-early"
    check: ClassVar[str] = "retry-budget"
    #: the one that was the last
    attempt: int
    budget: Budget
    charged_count: int
    #: the setting that limits the budget
    setting: str
    #: None for no limit
    limit: int | None
    #: of the attempt, on the rank that failed first
    error: str


@dataclass(frozen=True)
class ControllerFailed(Facts):
    """The controller that starts the workers again failed, and no fault explains it."""

    kind: ClassVar[str] = "controller-failed"
    check: ClassVar[str] = "retry-budget"
    attempt: int
    error: str


@dataclass(frozen=True)
class WrongBudgetCharged(Facts):
    """A failure was charged as a preemption, or a preemption as a failure."""

    kind: ClassVar[str] = "wrong-budget-charged"
    check: ClassVar[str] = "retry-budget"
    attempt: int
    #: the one that was to be charged
    budget: Budget
    #: the setting that limits it
    setting: str
    #: the setting that limits the budget that was charged
    charged_setting: str
    error: str


@dataclass(frozen=True)
class ChargeWithoutFault(Facts):
    """An attempt that no fault hit failed, and was charged to a retry budget."""

    kind: ClassVar[str] = "charge-without-fault"
    check: ClassVar[str] = "retry-budget"
    attempt: int
    #: the setting that limits the budget; None of a command, which is charged to none
    setting: str | None
    #: of the attempt, on the rank that failed first
    error: str


@dataclass(frozen=True)
class ChargedTwice(Facts):
    """The end of one attempt was charged to a retry budget twice."""

    kind: ClassVar[str] = "charged-twice"
    check: ClassVar[str] = "retry-budget"
    attempt: int
    #: the setting that limits the budget; None of a command, which is charged to none
    setting: str | None
    #: of the attempt, on the rank that failed first
    error: str


@dataclass(frozen=True)
class FaultNotCharged(Facts):
    """A fault ended an attempt, and was charged to no retry budget."""

    kind: ClassVar[str] = "fault-not-charged"
    check: ClassVar[str] = "retry-budget"
    attempt: int


@dataclass(frozen=True)
class WrongChargeCount(Facts):
    """A retry budget was charged more or less often than the scenario expects."""

    kind: ClassVar[str] = "wrong-charge-count"
    check: ClassVar[str] = "retry-budget"
    #: the setting that limits the budget
    setting: str
    count: int
    expected_count: int


# -- attempts --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TooManyAttempts(Facts):
    """More attempts were started than faults call for."""

    kind: ClassVar[str] = "too-many-attempts"
    check: ClassVar[str] = "attempts"
    count: int
    expected_count: int
    #: one that followed another without a fault, if there is one
    attempt: int | None = None
    #: the one before it, to which nothing was done
    previous_attempt: int | None = None
    #: of the one before it, on the rank that failed first; None where no failure was seen
    error: str | None = None


@dataclass(frozen=True)
class TooFewAttempts(Facts):
    """Fewer attempts were started than faults call for."""

    kind: ClassVar[str] = "too-few-attempts"
    check: ClassVar[str] = "attempts"
    count: int
    expected_count: int
    #: one that a fault ended and that no other one followed, if there is one
    attempt: int | None = None


@dataclass(frozen=True)
class WrongWorkerCount(Facts):
    """An attempt had fewer or more workers than were asked for."""

    kind: ClassVar[str] = "wrong-worker-count"
    check: ClassVar[str] = "attempts"
    attempt: int
    count: int
    #: the fewest and the most that were asked for, which differ if the job is elastic
    min_count: int
    max_count: int
