"""Events of the injection of faults: gates, faults, notices."""

from typing import Literal, TypeAlias

import msgspec

from chaos.faults.world import Status
from chaos.model.events.base import Event, WorkerEvent

Reclaim: TypeAlias = Literal["announced", "taken", "gone"]


class GateReached(WorkerEvent, frozen=True, kw_only=True):
    """A worker stands at the place of an op and is held."""

    op: int
    pid: int
    node_id: str

    def _text(self) -> str:
        return f"op {self.op}: rank {self.rank} (pid {self.pid}) is held at its place"


class GateReleased(WorkerEvent, frozen=True, kw_only=True):
    """The worker may go on, where it is still alive."""

    op: int

    def _text(self) -> str:
        return f"op {self.op}: rank {self.rank} may go on"


class FaultInvoked(WorkerEvent, frozen=True, kw_only=True):
    """A fault is about to be injected: written before the harm, so that no crash can hide it."""

    op: int
    fault: str
    pid: int
    node_id: str

    def _text(self) -> str:
        worker_location = f"rank {self.rank} (pid {self.pid}, node {self.node_id[:8]})"
        return f"op {self.op}: {self.fault} injected into {worker_location}"


class NoticeGiven(Event, frozen=True, kw_only=True):
    """The cluster accepted the announcement that a node will be lost."""

    op: int
    node_id: str
    deadline_ns: int

    def _text(self) -> str:
        return f"op {self.op}: loss of node {self.node_id[:8]} announced"


class NodeReclaimed(Event, frozen=True, kw_only=True):
    """A platform has announced the loss of a node or begun to take it; or the node is seen gone."""

    node_id: str
    #: the node's name there
    machine: str
    #: the adaptor
    platform: str = msgspec.field(name="by")
    #: what the adaptor was ever seen to work against
    verified_against: str = msgspec.field(name="seen")
    stage: Reclaim
    notice_s: float | None = None

    def _text(self) -> str:
        notice = "" if self.notice_s is None else f" {self.notice_s:g} s before"
        reclaim_text = f"node {self.node_id[:8]} is {self.stage}{notice}: {self.machine}"
        return (
            f"{reclaim_text}, by {self.platform}, an adaptor that was seen {self.verified_against}"
        )


class MetadataAsked(Event, frozen=True, kw_only=True):
    """A process asked the emulated metadata service: the first time for its node and this path."""

    #: None for a process that is no worker's
    node_id: str | None
    request: str
    status: int
    #: the first answer with the node's notice in it
    has_notice: bool

    def _text(self) -> str:
        asker = "a process" if self.node_id is None else f"node {self.node_id[:8]}"
        action = "saw its notice" if self.has_notice else "asked the metadata service"
        return f"{asker} {action}: {self.request}: {self.status}"


class StorageFaulted(Event, frozen=True, kw_only=True):
    """The run's file system has just done the harm of an armed op."""

    op: int
    attempt: int
    #: None in Ray's controller
    rank: int | None
    pid: int
    #: `raised`: the caller got an error; `killed`: its process ends now; `delayed`: it had to wait;
    #: `cut`: to the caller, all of `path` is written
    effect: Literal["raised", "killed", "delayed", "cut"]
    path: str
    detail: str

    def _text(self) -> str:
        return f"op {self.op}: storage: {self.detail}"


class FaultHealed(Event, frozen=True, kw_only=True):
    """The harm of a fault was undone, or nothing was left to undo."""

    op: int
    detail: str

    def _text(self) -> str:
        return f"op {self.op}: healed: {self.detail}"


class FaultEnded(Event, frozen=True, kw_only=True):
    """The outcome of an injection; `ok` only where the effect was seen."""

    op: int
    status: Status
    detail: str
    #: with `fail`: the process has got the signal, and may end of it later
    signal_sent: bool = False
    #: the files that a node had written and not synced, and that are empty now
    emptied_files: tuple[str, ...] = ()

    def _text(self) -> str:
        return f"op {self.op}: {self.status}: {self.detail}"
