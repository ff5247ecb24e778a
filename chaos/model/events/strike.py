"""What was done to the job: gates, faults, notices."""

from typing import Literal

from chaos.faults.world import Status
from chaos.model.events.base import Event


class GateReached(Event, frozen=True, kw_only=True):
    """A worker stands at the place of an op and is held."""

    op: int
    attempt: int
    rank: int
    pid: int
    node_id: str


class GateReleased(Event, frozen=True, kw_only=True):
    """The worker may go on, where it is still alive."""

    op: int
    attempt: int
    rank: int


class FaultInvoked(Event, frozen=True, kw_only=True):
    """Written before the harm, so that no crash can hide it."""

    op: int
    fault: str
    attempt: int
    rank: int
    pid: int
    node_id: str


class NoticeGiven(Event, frozen=True, kw_only=True):
    """The cluster accepted the announcement that a node will be lost."""

    op: int
    node_id: str
    deadline_ns: int


class StorageFaulted(Event, frozen=True, kw_only=True):
    """The run's file system did what an armed op asked of it, just now.

    `rank` is None in Ray's controller. `raised`: the caller got an error;
    `killed`: its process ends now; `delayed`: it was made to wait; `cut`: it
    believes that all of `path` is written.
    """

    op: int
    attempt: int
    rank: int | None
    pid: int
    effect: Literal["raised", "killed", "delayed", "cut"]
    path: str
    detail: str


class FaultHealed(Event, frozen=True, kw_only=True):
    """What a fault did was undone, or there was nothing left to undo."""

    op: int
    detail: str


class FaultEnded(Event, frozen=True, kw_only=True):
    """What a strike came to; `ok` only where the effect was seen."""

    op: int
    status: Status
    detail: str
