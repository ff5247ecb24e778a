"""Events inside a worker. `epoch` and `step` count as in `model.trigger`."""

from typing import Literal

from chaos.model.events.base import Event, StepEvent, WorkerEvent, describe_losses
from chaos.model.events.state import Inputs


class WorkerStarted(WorkerEvent, frozen=True, kw_only=True):
    """A worker is ready to train."""

    world_size: int
    pid: int
    node_id: str
    #: the one that Ray hands it
    checkpoint: str | None
    #: the epoch at which training must continue if that is loaded: one past the report that carried
    #: it, else 0
    epoch: int
    #: those that Ray assigned, such as `GPU 0`; none: the CPU
    accelerators: tuple[str, ...] = ()
    #: finished steps of `epoch`, if the content of the checkpoint was saved within an epoch
    step: int = 0

    def _text(self) -> str:
        start = f"checkpoint {self.checkpoint}" if self.checkpoint else "no checkpoint"
        return f"{self.worker_label}: started at epoch {self.epoch} with {start}"


class CheckpointRead(WorkerEvent, frozen=True, kw_only=True):
    """The train function asked for its checkpoint for the first time and got this one."""

    checkpoint: str | None

    def _text(self) -> str:
        return f"{self.worker_label}: asked for its checkpoint, got {self.checkpoint or 'none'}"


class ChildTrained(Event, frozen=True, kw_only=True):
    """An optimizer stepped in a process that the job has started, and that is no rank."""

    pid: int
    #: without the folders of its files
    command: str
    start: Literal["subprocess", "multiprocessing", "fork"]

    def _text(self) -> str:
        return f"pid {self.pid}, started by {self.start}, trains and is no rank: {self.command}"


class GroupJoined(WorkerEvent, frozen=True, kw_only=True):
    """A rank has joined its first process group of torch's."""

    def _text(self) -> str:
        return f"{self.worker_label}: joined a process group"


class LoaderProcesses(StepEvent, frozen=True, kw_only=True):
    """A rank's torch data loaders have so many processes from here on; the place is the last step.

    The end of a process that died by itself is not told.
    """

    count: int

    def _text(self) -> str:
        return f"{self.worker_label}: {self.count} loader processes since {self.training_place}"


class StepDone(StepEvent, frozen=True, kw_only=True, omit_defaults=True):
    """An optimizer step is finished."""

    #: the values on which `backward()` was called since the last step, one per micro-batch; numbers
    #: that JSON lacks are spelled "nan", "inf", "-inf". None: still on the accelerator, see
    #: `LossResolved`
    losses: tuple[float | str, ...] | None
    #: None where the job's inputs are not watched, where the model was called with no tensors, and
    #: where they are still on the accelerator
    inputs: Inputs | None = None
    #: number and kind of the optimizer, as in `1 (SGD)`; empty for the job's first, each step of
    #: which is a batch, and in a journal of an older chaos
    optimizer: str = ""

    def _text(self) -> str:
        losses = "not yet known" if self.losses is None else describe_losses(self.losses)
        return f"{self.worker_label}: {self.training_place} done, loss {losses}"


class LossResolved(StepEvent, frozen=True, kw_only=True):
    """The losses of an earlier step, once they could be read without waiting for a GPU."""

    losses: tuple[float | str, ...]
    #: present if the inputs of the model were on the GPU as well
    inputs: Inputs | None = None

    def _text(self) -> str:
        return f"{self.worker_label}: {self.training_place} had loss {describe_losses(self.losses)}"


class ReportBegun(WorkerEvent, frozen=True, kw_only=True):
    """A rank entered `ray.train.report()`."""

    #: the one that the report ends
    epoch: int

    def _text(self) -> str:
        return f"{self.worker_label}: report of epoch {self.epoch} begun"


class EpochEnded(WorkerEvent, frozen=True, kw_only=True):
    """An epoch that no report ends was over: a step followed a save of the job's own, or none did.

    `torchrun` starts jobs that report nothing; see `EpochEnds.is_at_end`.
    """

    epoch: int

    def _text(self) -> str:
        return f"{self.worker_label}: epoch {self.epoch} ended"


class ReportReturned(WorkerEvent, frozen=True, kw_only=True):
    """`ray.train.report()` returned on a rank, or raised: not yet a commit."""

    epoch: int
    #: what it raised
    error: str | None = None

    def _text(self) -> str:
        outcome = f"raised {self.error}" if self.error else "returned (not yet a commit)"
        return f"{self.worker_label}: report of epoch {self.epoch} {outcome}"


class UploadBegun(WorkerEvent, frozen=True, kw_only=True):
    """A rank begins to upload its part of the checkpoint of `epoch`."""

    epoch: int

    def _text(self) -> str:
        return f"{self.worker_label}: upload of epoch {self.epoch} begun"


class UploadEnded(WorkerEvent, frozen=True, kw_only=True):
    """A rank's part of the checkpoint of `epoch` is in storage, or could not be put there."""

    epoch: int
    #: what the upload raised
    error: str | None = None

    def _text(self) -> str:
        outcome = f"failed: {self.error}" if self.error else "is in storage"
        return f"{self.worker_label}: upload of epoch {self.epoch} {outcome}"


class ProbeFailed(WorkerEvent, frozen=True, kw_only=True):
    """The probe raised an exception of its own: events that it should have seen are missing."""

    where: str
    error: str

    def _text(self) -> str:
        return f"{self.worker_label}: the probe failed in {self.where}: {self.error}"
