"""Facts of findings about time and work: recovery, lost work, standstills, and the end."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from chaos.check.kinds.base import Facts


class LifeSign(NamedTuple):
    """The progress that an event shows; what does not belong to it is None."""

    event_type: Literal["step", "commit", "report", "upload", "rank start", "attempt start"]
    attempt: int
    rank: int | None = None
    epoch: int | None = None
    step: int | None = None


class WaitingThread(NamedTuple):
    """A thread of a rank, and the line of the job's code in which it was at the end."""

    rank: int
    #: from the working folder, if it is below it
    file: str
    line: int
    function: str
    #: what the line has called; empty where that is not known
    callee: str
    #: the line of the same file that called the function; None where there is none
    caller_line: int | None
    #: whether it is the main thread of its process
    is_main: bool


# -- recovery and lost-work ------------------------------------------------------------------------


@dataclass(frozen=True)
class SlowRecovery(Facts):
    """The first step after a fault came later than is allowed."""

    kind: ClassVar[str] = "slow-recovery"
    check: ClassVar[str] = "recovery"
    attempt: int
    #: from the fault to the first step
    seconds: float
    limit_s: float
    #: what the baseline took to start, if the limit comes from it
    baseline_s: float | None
    #: the longest phase of the recovery: detect, group, start or first_step
    longest_phase: str
    phase_s: float


@dataclass(frozen=True)
class TooManyStepsLost(Facts):
    """A restart threw away more finished steps than is allowed."""

    kind: ClassVar[str] = "too-many-steps-lost"
    check: ClassVar[str] = "lost-work"
    attempt: int
    rank: int
    steps: int
    allowed_steps: float


# -- progress --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LongPause(Facts):
    """Training stood still for longer than is allowed, and then went on or ended."""

    kind: ClassVar[str] = "long-pause"
    check: ClassVar[str] = "progress"
    seconds: float
    #: the last progress before it
    last_sign: LifeSign | None
    limit_s: float
    #: the baseline's longest pause of that kind, if the limit comes from it
    baseline_s: float | None


@dataclass(frozen=True)
class StuckUntilLimit(Facts):
    """The run made no more progress, and was ended at its time limit."""

    kind: ClassVar[str] = "stuck-until-limit"
    check: ClassVar[str] = "progress"
    last_sign: LifeSign | None
    #: from the last progress to the limit
    idle_s: float
    limit_s: float
    #: where the ranks were at the end
    threads: tuple[WaitingThread, ...]


@dataclass(frozen=True)
class RanksStandStill(Facts):
    """All ranks stood still and used next to no processor time, until the run was ended."""

    kind: ClassVar[str] = "ranks-stand-still"
    check: ClassVar[str] = "progress"
    last_sign: LifeSign | None
    still_s: float
    #: where the ranks waited
    threads: tuple[WaitingThread, ...]
    #: the longest pause of the baseline, if there was any
    baseline_pause_s: float | None


@dataclass(frozen=True)
class RepeatedFailures(Facts):
    """Attempt after attempt failed without saving anything, until the run's time limit."""

    kind: ClassVar[str] = "repeated-failures"
    check: ClassVar[str] = "progress"
    first_attempt: int
    last_attempt: int
    limit_s: float
    #: of the last attempt
    error: str


# -- terminates ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NoSignOfLife(Facts):
    """The run showed no progress at all, and was ended at its time limit."""

    kind: ClassVar[str] = "no-sign-of-life"
    check: ClassVar[str] = "terminates"
    limit_s: float


@dataclass(frozen=True)
class EndedAtStandstill(Facts):
    """The run was ended early because all ranks stood still."""

    kind: ClassVar[str] = "ended-at-standstill"
    check: ClassVar[str] = "terminates"
    still_s: float


@dataclass(frozen=True)
class NotOverInTime(Facts):
    """The run had made progress, and was not over at its time limit."""

    kind: ClassVar[str] = "not-over-in-time"
    check: ClassVar[str] = "terminates"
    limit_s: float
    last_sign: LifeSign
    #: from the last progress to the limit
    idle_s: float
    #: whether a scenario sets the limit, and not an audit
    is_limit_settable: bool
