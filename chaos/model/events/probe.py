"""What was seen inside a worker. `epoch` and `step` count as in `model.trigger`."""

from chaos.model.events.base import Event
from chaos.model.events.state import Inputs


class WorkerStarted(Event, frozen=True, kw_only=True):
    """A worker is ready to train.

    `checkpoint` is the one that Ray hands it; `epoch` is where training must
    go on if it is loaded: one past the report that carried it, else 0; and `step`
    steps of it are done, if what is in it was saved within an epoch.
    `accelerators` are those that Ray gave it, such as `GPU 0`; none: the CPU.
    """

    attempt: int
    rank: int
    world_size: int
    pid: int
    node_id: str
    checkpoint: str | None
    epoch: int
    accelerators: tuple[str, ...] = ()
    step: int = 0


class CheckpointRead(Event, frozen=True, kw_only=True):
    """The train function asked for its checkpoint for the first time and was given this one."""

    attempt: int
    rank: int
    checkpoint: str | None


class StepDone(Event, frozen=True, kw_only=True):
    """An optimizer step is finished.

    `losses` holds the values on which `backward()` was called since the last
    step, one per micro-batch; numbers that JSON lacks are spelled "nan",
    "inf", "-inf". None: still on the accelerator, see `LossResolved`.
    `inputs` is None where the job's inputs are not watched, where the model was
    called with no tensors, and where they are still on the accelerator.
    """

    attempt: int
    rank: int
    epoch: int
    step: int
    losses: tuple[float | str, ...] | None
    inputs: Inputs | None = None


class LossResolved(Event, frozen=True, kw_only=True):
    """The losses of an earlier step, once they could be read without waiting for a GPU.

    `inputs` is there where what the model was given was on the GPU as well.
    """

    attempt: int
    rank: int
    epoch: int
    step: int
    losses: tuple[float | str, ...]
    inputs: Inputs | None = None


class ReportBegun(Event, frozen=True, kw_only=True):
    """A rank entered `ray.train.report()`; `epoch` is the one that it ends."""

    attempt: int
    rank: int
    epoch: int


class ReportReturned(Event, frozen=True, kw_only=True):
    """`ray.train.report()` returned on a rank: not yet a commit. `error`: it raised."""

    attempt: int
    rank: int
    epoch: int
    error: str | None = None


class UploadBegun(Event, frozen=True, kw_only=True):
    """A rank begins to upload its part of the checkpoint of `epoch`."""

    attempt: int
    rank: int
    epoch: int


class UploadEnded(Event, frozen=True, kw_only=True):
    """A rank's part of the checkpoint of `epoch` is in storage. `error`: it raised."""

    attempt: int
    rank: int
    epoch: int
    error: str | None = None


class ProbeFailed(Event, frozen=True, kw_only=True):
    """The probe met an exception of its own: what it should have seen is missing."""

    attempt: int
    rank: int
    where: str
    error: str
