"""Facts of findings about processes: who writes, who is disturbed, what is left, what is saved."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from chaos.check.kinds.base import Facts

# -- single-writer ---------------------------------------------------------------------------------


class AttemptActivity(NamedTuple):
    """A sign that an attempt was at work."""

    event_type: Literal["step", "commit", "report", "file"]
    #: None for a commit, which is of all ranks
    rank: int | None = None


@dataclass(frozen=True)
class AttemptStillWorking(Facts):
    """An attempt was still at work after the next one had been opened."""

    kind: ClassVar[str] = "attempt-still-working"
    check: ClassVar[str] = "single-writer"
    attempt: int
    #: how long after the next one was opened
    late_s: float
    last_activity: AttemptActivity


@dataclass(frozen=True)
class TwoDriversWrite(Facts):
    """Two drivers of one run wrote checkpoints or files at the same time."""

    kind: ClassVar[str] = "two-drivers-write"
    check: ClassVar[str] = "single-writer"
    #: of the driver that began later
    attempt: int
    #: whether it had made a step by then; otherwise it had begun to write
    has_stepped: bool
    #: of the other driver
    writing_attempt: int
    #: what that one began to write
    target: str


@dataclass(frozen=True)
class DuplicateRank(Facts):
    """Two processes were the same rank of one attempt."""

    kind: ClassVar[str] = "duplicate-rank"
    check: ClassVar[str] = "single-writer"
    rank: int
    attempt: int
    pid: int
    other_pid: int


# -- bystanders ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OtherTrialFailed(Facts):
    """A trial failed, although the fault was in another trial."""

    kind: ClassVar[str] = "other-trial-failed"
    check: ClassVar[str] = "bystanders"
    trial: int
    error: str


@dataclass(frozen=True)
class OtherTrialUnfinished(Facts):
    """A trial did not end, although the fault was in another trial."""

    kind: ClassVar[str] = "other-trial-unfinished"
    check: ClassVar[str] = "bystanders"
    trial: int


@dataclass(frozen=True)
class OtherTrialRestarted(Facts):
    """A trial was begun again, although the fault was in another trial."""

    kind: ClassVar[str] = "other-trial-restarted"
    check: ClassVar[str] = "bystanders"
    trial: int
    attempts: int


@dataclass(frozen=True)
class OtherTrialCharged(Facts):
    """A trial was charged for a failure, although the fault was in another trial."""

    kind: ClassVar[str] = "other-trial-charged"
    check: ClassVar[str] = "bystanders"
    trial: int
    failures: int


@dataclass(frozen=True)
class OtherTrialLosses(Facts):
    """A trial has other losses, although the fault was in another trial."""

    kind: ClassVar[str] = "other-trial-losses"
    check: ClassVar[str] = "bystanders"
    trial: int
    #: the first rank and epoch whose losses differ, such as `rank 0, epoch 2`
    first_place: str
    #: of how many ranks and epochs they differ
    places: int


# -- leftovers -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProcessLeft(Facts):
    """A process of the run was still there after the run had ended."""

    kind: ClassVar[str] = "process-left"
    check: ClassVar[str] = "leftovers"
    name: str


@dataclass(frozen=True)
class PlacementGroupLeft(Facts):
    """A placement group of the run was still there after the run had ended."""

    kind: ClassVar[str] = "placement-group-left"
    check: ClassVar[str] = "leftovers"
    name: str


@dataclass(frozen=True)
class ActorLeft(Facts):
    """An actor of the run was still there after the run had ended."""

    kind: ClassVar[str] = "actor-left"
    check: ClassVar[str] = "leftovers"
    name: str


@dataclass(frozen=True)
class UnregisteredCheckpoints(Facts):
    """More checkpoint directories are left that no report registered than faults explain."""

    kind: ClassVar[str] = "unregistered-checkpoints"
    check: ClassVar[str] = "leftovers"
    directories: int
    faults: int
    #: the name of the last directory
    last_directory: str


# -- drain -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RankOnLeavingNode(Facts):
    """A new attempt put a rank on a node that had been announced to go."""

    kind: ClassVar[str] = "rank-on-leaving-node"
    check: ClassVar[str] = "drain"
    attempt: int
    rank: int


@dataclass(frozen=True)
class StandstillUntilDeadline(Facts):
    """Training stood still before the deadline of a notice, until the node went."""

    kind: ClassVar[str] = "standstill-until-deadline"
    check: ClassVar[str] = "drain"
    still_s: float


@dataclass(frozen=True)
class NoticeUnused(Facts):
    """Nothing was saved between the notice of a loss and the loss itself."""

    kind: ClassVar[str] = "notice-unused"
    check: ClassVar[str] = "drain"
    notice_s: float
