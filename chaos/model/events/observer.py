"""Events inside Ray Train's controller."""

from typing import Any, Literal

import msgspec

from chaos.model.events.base import Event


class ControllerState(Event, frozen=True, kw_only=True):
    """Ray's controller went from one state to another; equal repeats are dropped."""

    previous: str
    state: str

    def _text(self) -> str:
        return f"Ray's controller: {self.previous} → {self.state}"


class WorkerPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The process that holds a rank, and its node."""

    rank: int
    pid: int
    node_id: str
    node_ip: str


class WorkerGroupStarted(Event, frozen=True, kw_only=True):
    """An attempt's workers are up; attempt 0 is the first."""

    attempt: int
    workers: tuple[WorkerPlace, ...]

    def _text(self) -> str:
        pids = ", ".join(f"rank {w.rank} is pid {w.pid}" for w in self.workers)
        return f"attempt {self.attempt} started: {pids or 'no workers'}"


class Committed(Event, frozen=True, kw_only=True):
    """Ray's controller recorded a report of all ranks.

    `epoch` is the report's number in the surviving lineage. `checkpoint` is the checkpoint
    directory's name, None where the report carried none. `metrics` holds one record per reporting
    rank, in rank order. `early`: it came before its attempt trained anything, such as a validation
    at every start, and ends no epoch; `epoch` is the last one that was ended. `goes_on` is the
    place where a restart from the checkpoint continues (epoch, finished steps of it), if that is
    not after its report: its content was saved earlier.
    """

    attempt: int
    epoch: int
    checkpoint: str | None
    metrics: tuple[dict[str, Any], ...]
    early: bool = False
    goes_on: tuple[int, int] | None = None

    def _text(self) -> str:
        what = f"checkpoint {self.checkpoint}" if self.checkpoint else "no checkpoint"
        return f"epoch {self.epoch} committed by attempt {self.attempt}, with {what}"


class FailureDecided(Event, frozen=True, kw_only=True):
    """Ray's controller saw a failure and decided.

    `charged` is the budget that Ray's policy charges. `errors` maps a rank to the class and last
    line of its error; a survivor's broken connection often stands there in place of the dead rank's
    own. `node_id`: the node whose agent decided; each of torchrun's counts its own restarts.
    """

    attempt: int
    decision: Literal["RETRY", "RAISE", "NOOP"]
    charged: Literal["failures", "preemptions", "controller"]
    error: str
    errors: dict[int, str]
    node_id: str | None = None

    def _text(self) -> str:
        then = f"{self.decision}, charged to {self.charged}"
        return f"failure of attempt {self.attempt}: {then}: {self.error}"


class ObserverFailed(Event, frozen=True, kw_only=True):
    """The observer raised an exception of its own: events that it should have seen are missing."""

    where: str
    error: str

    def _text(self) -> str:
        return f"the observer failed in {self.where}: {self.error}"
