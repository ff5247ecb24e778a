"""Events inside Ray Train's controller."""

from typing import Any, Literal

import msgspec

from chaos.model.events.base import Event
from chaos.model.places import TrainingPlace


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
    """Ray's controller recorded a report of all ranks."""

    attempt: int
    #: the report's number in the surviving lineage; of an `early` one the last that was ended
    epoch: int
    #: the checkpoint directory's name, None where the report carried none
    checkpoint: str | None
    #: one record per reporting rank, in rank order
    metrics: tuple[dict[str, Any], ...]
    #: it came before its attempt trained anything, such as a validation at every start, and ends no
    #: epoch
    early: bool = False
    #: the place where a restart from the checkpoint continues, if that is
    #: not after its report: its content was saved earlier
    goes_on: TrainingPlace | None = None

    def _text(self) -> str:
        content = f"checkpoint {self.checkpoint}" if self.checkpoint else "no checkpoint"
        return f"epoch {self.epoch} committed by attempt {self.attempt}, with {content}"


class FailureDecided(Event, frozen=True, kw_only=True):
    """Ray's controller saw a failure and decided."""

    attempt: int
    decision: Literal["RETRY", "RAISE", "NOOP"]
    #: the budget that Ray's policy charges
    charged: Literal["failures", "preemptions", "controller", "nothing"]
    error: str
    #: the class and last line of each rank's error; a survivor's broken connection often stands
    #: there in place of the dead rank's own
    errors: dict[int, str]
    #: the node whose agent decided; each of torchrun's counts its own restarts
    node_id: str | None = None

    def _text(self) -> str:
        charged = "" if self.charged == "nothing" else f", charged to {self.charged}"
        decision_text = f"{self.decision}{charged}"
        return f"failure of attempt {self.attempt}: {decision_text}: {self.error}"


class ObserverFailed(Event, frozen=True, kw_only=True):
    """The observer raised an exception of its own: events that it should have seen are missing."""

    where: str
    error: str

    def _text(self) -> str:
        return f"the observer failed in {self.where}: {self.error}"
