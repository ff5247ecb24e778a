"""The state of a job: digests of its parts, its inputs and its files, and the content of storage.

A digest is 16 hexadecimal digits over canonical bytes: two are equal if, and for all purposes only
if, the values are equal to the last bit. They are compared within one device type only.
"""

from functools import cache
from typing import Literal

import msgspec

from chaos.model.events.base import Event, StepEvent, WorkerEvent
from chaos.model.events.files import SavedPart
from chaos.model.places import TrainingPlace

#: the kinds of state that a part may be of, in the order of a report
GROUPS = (
    "model",
    "buffers",
    "gradients",
    "optimizer",
    "optimizer settings",
    "schedule",
    "scaler",
    "averaged model",
    "declared",
    "rng",
    "data order",
    "cursor",
)
# Numbers of a parameter group that are a part by their own name. A part of the state with such a
# name, and any other number of a group, is named for what it is: `optimizer.state.momentum`,
# `optimizer.settings.d`.
SETTINGS = ("lr", "weight_decay", "betas", "eps", "momentum", "dampening")


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """A rank's share of the sharded tensors of a part, in sums that add up over ranks."""

    #: 16 hexadecimal digits, added modulo 2**64; those of all ranks together are the same for every
    #: sharding
    sum: str
    #: of its numbers
    squares: float | str
    #: a sum over ranks is that of the whole where their elements are all of it
    elements: int
    #: the elements of the whole
    whole_elements: int = msgspec.field(name="of")


class Component(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a job's state, such as `model`, `optimizer.momentum_buffer` or `rng.torch`."""

    #: a number in it is that of the moment; two parts are the same one if their structures are
    name: str
    #: of the rank's share, where the part is sharded; empty where the part holds nothing (an
    #: optimizer that was never stepped)
    digest: str
    #: the L2 norm of tensors or the value of a single number, None where neither has a meaning (a
    #: generator's state)
    size: float | str | None = None
    #: tensors, or entries, in it
    count: int = 1
    #: it exists after the first step only, restored or new, and cannot be compared before
    pending: bool = False
    #: a digest of its owner, whatever the content: the shapes of an optimizer's parameters, of a
    #: module's buffers
    structure: str = ""
    #: what the rank holds of the whole, where the part is sharded
    share: Share | None = None


@cache
def find_group(name: str) -> str:
    """Return the kind of state that a component belongs to."""
    if name.startswith("model.buffers"):
        return "buffers"
    head, _, tail = name.partition(".")
    head = head.rstrip("0123456789[]_")
    if head == "optimizer":
        parent, _, setting = tail.rpartition(".")
        is_setting = parent.endswith("settings") or (
            setting in SETTINGS and not parent.endswith("state")
        )
        return "optimizer settings" if is_setting else "optimizer"
    group_by_head = {"scheduler": "schedule", "ema": "averaged model", "averaged": "averaged model"}
    group = group_by_head.get(head, head)
    return group if group in GROUPS else "declared"


class StateSeen(StepEvent, frozen=True, kw_only=True):
    """The state of one rank at one moment.

    `entered`: just before the first optimizer step of an epoch in an attempt (`step` counts the
    finished steps of the epoch: 0 at its head), and where a rank has saved a file of the job's own
    since the last step. `step`: after a step that was sampled. `left`: when `report()` was entered.
    """

    moment: Literal["entered", "step", "left"]
    components: tuple[Component, ...]

    def _text(self) -> str:
        moment = "after" if self.moment == "step" else self.moment
        step = f", step {self.step}" if self.moment != "left" and self.step else ""
        parts = f"{len(self.components)} parts"
        return f"{self.worker_label}: state {moment} epoch {self.epoch}{step}: {parts}"


class GeneratorsSeen(StepEvent, frozen=True, kw_only=True):
    """The shared generators of torch, numpy and Python after 2, 4, 8, … steps of an epoch.

    One that is what it was as the epoch was entered is not drawn from within the epoch.
    """

    #: by the name of the part
    digests: dict[str, str]

    def _text(self) -> str:
        return f"{self.worker_label}: {len(self.digests)} generators at {self.training_place}"


class ParametersNamed(StepEvent, frozen=True, kw_only=True):
    """The parameters that a rank trains in an attempt, by the names that its modules give them.

    Not recorded where there are more than 1024.
    """

    #: one text per tensor; where several names have it, all of them, joined by ` = `
    names: tuple[str, ...]

    def _text(self) -> str:
        return f"{self.worker_label}: trains {len(self.names)} parameters"


#: ends the path of a value of a data set as the processes of a persistent loader were given it
IN_LOADER = " in the loader's processes"
#: ends the path of whether parameter groups are an optimizer's own
IS_PARAM_GROUPS = " is optimizer.param_groups"
#: ends the path of which functions of the job an optimizer, or a model, calls
HOOKS = ".hooks"
#: ends the path of what a module saves, where no optimizer trains any of it
MODULE_STATE = ".state_dict()"
#: ends the path of what one of several optimizers keeps of its parameters
OPTIMIZER_STATE = ".state_dict()['state']"
#: ends the path of which tensors of an optimizer's state are those of another optimizer as well
SHARED_STATE = ".state shared with other optimizers"
#: ends the path of which parameters of a module train
TRAINING_FLAGS = ".requires_grad"


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A plain value that the job's own code holds."""

    #: from a variable of the job's, such as `trainer.kl_ctl.value`
    path: str
    digest: str
    #: a number, or a few; empty for any other value
    text: str = ""


class CensusTaken(StepEvent, frozen=True, kw_only=True):
    """The plain values that the job's own code held before the first forward call of an epoch.

    At the places at which an attempt may resume, as `StateSeen` has them. Nothing is judged by it.
    """

    #: those that are new, or others than in the census before in this attempt of the rank
    held: tuple[Held, ...]
    #: paths that no longer reach a value
    gone: tuple[str, ...] = ()
    #: paths of what was too large to be read
    left_out: tuple[str, ...] = ()
    #: digests of the shared generators at that moment, by the names of their parts of the state
    generators: dict[str, str] = msgspec.field(default_factory=dict)
    #: the number of a loop, the outermost first, if it was taken where the body of that loop began,
    #: as `chaos explain` asks for it; `held` is then all that there was
    loop: int | None = None

    def _text(self) -> str:
        if self.loop is not None:
            return (
                f"{self.worker_label}: {len(self.held)} values as loop {self.loop} began at "
                f"{self.training_place}"
            )
        return (
            f"{self.worker_label}: {len(self.held)} new plain values of the job's at "
            f"{self.training_place}"
        )


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of the model for one optimizer step, all micro-batches together."""

    #: samples, 0 if their number is not known
    count: int
    #: covers values and order
    digest: str
    #: 8 hexadecimal digits per sample, in order, whatever the batch it came in; None where the step
    #: has more than 512 samples, or their number is not known
    samples: str | None = None


class ValidationBegun(StepEvent, frozen=True, kw_only=True):
    """The trained model is called in evaluation mode, for the first time since a step of the epoch.

    Without gradients, and on this rank.
    """

    def _text(self) -> str:
        return f"{self.worker_label}: validation in epoch {self.epoch}, after step {self.step}"


class CodeLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the job's own code."""

    file: str
    line: int
    #: the number of the first of the lines in `around`
    first: int
    #: it, and at most two lines before and two after it
    around: tuple[str, ...] = ()


class LoopBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a loop of the job's."""

    file: str
    #: numbers of lines
    first: int
    last: int


class NamesGiven(WorkerEvent, frozen=True, kw_only=True):
    """The lines of the job's code that made what a census reached."""

    #: by the path of a value, the first line that gives it its name
    lines: dict[str, CodeLine]
    #: the path of a part of the state: of `optimizer`, the variable
    parts: dict[str, str]
    #: the loops in which the model is called, the outermost first
    loops: tuple[LoopBody, ...] = ()

    def _text(self) -> str:
        return (
            f"{self.worker_label}: {len(self.lines)} values of the job's, with the lines "
            f"that name them"
        )


class FileSaveBegun(StepEvent, frozen=True, kw_only=True):
    """The train function began to write a file."""

    path: str
    #: `torch` for `torch.save`, `shards` for a rank's part of a folder that
    #: `torch.distributed.checkpoint` writes, else the suffix of a file that it opened itself. Such
    #: a file is recorded when it is closed
    saver: str = "torch"
    #: by another thread than the one that trains
    is_beside: bool = False

    def _text(self) -> str:
        return f"{self.worker_label}: began to save {self.path}"


class FileSaved(StepEvent, frozen=True, kw_only=True):
    """The file is written."""

    path: str
    #: covers its bytes
    digest: str
    bytes: int
    #: whole numbers in its content, such as `epoch`, by dotted name: the shallowest first, at most
    #: 64
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    #: its entries
    parts: tuple[SavedPart, ...] = ()
    #: where the job saved it
    code: CodeLine | None = None
    #: the numbers in it, without generators' states, for each one that the rank trains; None where
    #: either is not known
    share: float | None = None

    def _text(self) -> str:
        return f"{self.worker_label}: saved {self.path}, {self.bytes} bytes"


class FileLoaded(StepEvent, frozen=True, kw_only=True):
    """The train function read a file: with `torch.load`, or one that this run has written.

    `saved_*` name the place at which a file of these bytes was saved in this run, and the rank;
    None where it was not.
    """

    path: str
    digest: str
    saved_attempt: int | None = None
    saved_rank: int | None = None
    saved_epoch: int | None = None
    saved_step: int | None = None
    #: loading raised
    error: str | None = None
    #: where the job read it
    code: CodeLine | None = None

    def _text(self) -> str:
        if self.error is not None:
            origin = f"which raised {self.error}"
        elif self.saved_epoch is None:
            origin = "which was not saved in this run"
        else:
            saving_place = (
                f"epoch {self.saved_epoch}, step {self.saved_step} of attempt {self.saved_attempt}"
            )
            origin = f"saved by rank {self.saved_rank} at {saving_place}"
        return f"{self.worker_label}: loaded {self.path}, {origin}"


class ShardedPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a checkpoint that `torch.distributed.checkpoint` has written.

    Paths are those within the checkpoint.
    """

    #: the bytes of each file of shards
    sizes: dict[str, int] = msgspec.field(default_factory=dict)
    #: the files that name what the checkpoint holds
    indexes: tuple[str, ...] = ()
    #: the bytes that each file must have by the indexes
    needs: dict[str, int] = msgspec.field(default_factory=dict)
    #: the names of the entries, none where there are more than 2048
    keys: tuple[str, ...] = ()


class PartUploaded(WorkerEvent, frozen=True, kw_only=True):
    """One rank's part of a checkpoint, as it was on the worker's own disk before its upload.

    Or, where Ray uploads nothing, as it lay in storage once every rank had entered `report()`.
    """

    #: None for an upload that travels while training continues
    epoch: int | None
    checkpoint: str
    #: a path within the checkpoint, and the digest of its bytes; above 64 MiB, its size
    files: dict[str, str]
    sharded: ShardedPart | None = None

    def _text(self) -> str:
        return f"{self.worker_label}: its part of {self.checkpoint} has {len(self.files)} files"


class StoredCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One directory at the top of the run's folder in storage.

    A checkpoint, the remains of one, or a directory of the job's own, which may hold checkpoints
    deeper down.
    """

    name: str
    #: as in `PartUploaded`
    files: dict[str, str]


class StorageSeen(Event, frozen=True, kw_only=True):
    """The content of the run's storage."""

    #: the op at whose fault it was seen; None: when the run was over
    op: int | None
    checkpoints: tuple[StoredCheckpoint, ...]
    #: the time at which the look began (monotonic): a commit made while it lasted may have been
    #: searched for too early
    began_ns: int | None = None

    def _text(self) -> str:
        moment = "when the run was over" if self.op is None else f"at op {self.op}"
        names = ", ".join(stored.name for stored in self.checkpoints) or "no checkpoint"
        return f"storage held {names} {moment}"


class CheckpointDeleted(Event, frozen=True, kw_only=True):
    """Ray's controller removed a checkpoint that retention does not keep."""

    attempt: int
    checkpoint: str

    def _text(self) -> str:
        return f"{self.checkpoint} deleted by Ray's retention"


class Declared(WorkerEvent, frozen=True, kw_only=True):
    """The job named a part of its state with `chaos.declare`."""

    name: str

    def _text(self) -> str:
        return f"{self.worker_label}: declared {self.name}"


class TrainFnEnded(StepEvent, frozen=True, kw_only=True):
    """A rank's train function returned, or raised."""

    #: None if it returned
    error: str | None = None

    def _text(self) -> str:
        outcome = f"raised {self.error}" if self.error else "returned"
        return f"{self.worker_label}: the train function {outcome} at {self.training_place}"


class WatchCost(WorkerEvent, frozen=True, kw_only=True):
    """The cost of watching one rank in one epoch: nanoseconds in all, and those for state."""

    epoch: int
    steps: int
    watch_ns: int
    state_ns: int

    def _text(self) -> str:
        each_us = self.watch_ns / 1000 / max(1, self.steps)
        return f"{self.worker_label}: watching epoch {self.epoch} took {each_us:.0f} us per step"


class ProcessSeen(WorkerEvent, frozen=True, kw_only=True):
    """The size of a rank's process as it ends an epoch, by the kernel's own count."""

    epoch: int
    #: descriptors
    open_files: int
    #: the resident set
    memory_bytes: int
    #: processes that it started and that live
    children: int
    #: the names in its working directory
    entries: int
    #: the children without helpers that Python and torch start by themselves; a loader's count
    job_children: int = 0

    def _text(self) -> str:
        size = f"{self.open_files} open files, {self.memory_bytes / 2**20:.0f} MiB"
        return (
            f"{self.worker_label}: {size}, {self.children} child processes after epoch {self.epoch}"
        )


class SetAside(WorkerEvent, frozen=True, kw_only=True):
    """An event of the steps that a rank made before it read its save; in no journal.

    Such steps are of no place in training: those of a teacher that is trained at each start.
    """

    #: its name
    event_name: str = msgspec.field(name="what")

    def _text(self) -> str:
        return f"{self.worker_label}: {self.event_name}, before the save was read"


ResumeEvidence = Literal[
    "state and inputs",
    "inputs and losses",
    "state",
    "optimizer",
    "inputs",
    "commit",
    "file",
    "nothing",
]


class Repositioned(StepEvent, frozen=True, kw_only=True):
    """The place at which a rank resumed, as its first step shows: after `step` of `epoch`."""

    #: the file that holds the place if a file is the evidence
    path: str | None = None
    #: the evidence (see `check.resume_place`)
    evidence: ResumeEvidence = msgspec.field(default="file", name="by")
    #: places that fit as well
    other_places: tuple[TrainingPlace, ...] = msgspec.field(default=(), name="others")

    def _text(self) -> str:
        return (
            f"{self.worker_label}: resumed at {self.training_place}: "
            f"{describe_resume_evidence(self.evidence, self.path)}"
        )


def describe_resume_evidence(evidence: ResumeEvidence, path: str | None = None) -> str:
    """Return in words the evidence for the place of a resume."""
    match evidence:
        case "state" | "optimizer":
            return f"its {evidence} was seen there before"
        case "state and inputs":  # of the state the model at least, the baseline's or the run's own
            return "model and inputs are those of that place"
        case "inputs and losses" | "inputs":
            return f"{evidence} are the baseline's there"
        case "commit":
            return "its checkpoint was committed there"
        case "file":
            return f"{path or 'the file that it read'} was saved there"
        case "nothing":
            return "it read nothing that an earlier attempt had saved"
