"""One line of the history: what was seen, by whom, when.

Times are monotonic nanoseconds of the host; `JournalOpened` pairs them with
the wall clock so that journals of several hosts can be laid side by side.
`epoch` and `step` count as in `model.trigger`.
"""

from typing import Any, Literal, TypeAlias

import msgspec

from chaos.faults.world import Status


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """The base of all events; a class's name is its tag in the journal."""


# -- the harness --------------------------------------------------------------------------


class JournalOpened(Event, frozen=True, kw_only=True):
    """The first line of every journal."""

    role: Literal["harness", "driver", "controller", "worker", "chaos"]
    host: str
    pid: int
    wall_ns: int


class RunStarted(Event, frozen=True, kw_only=True):
    """The harness begins to execute a plan."""

    scenario: str
    seed: int
    backend: str


class DriverExited(Event, frozen=True, kw_only=True):
    """The process that ran the user's script has ended; negative codes are signals."""

    code: int


class DeadlinePassed(Event, frozen=True, kw_only=True):
    """The run was still going at its limit, and was ended by the harness."""

    limit_s: float


class StackTaken(Event, frozen=True, kw_only=True):
    """A process of the run was asked for its stacks; `path` is below the run directory."""

    pid: int
    rank: int | None
    path: str


class LeftoversSearched(Event, frozen=True, kw_only=True):
    """The harness has looked for what the run left behind, in these places."""

    places: tuple[str, ...]


class Leftover(Event, frozen=True, kw_only=True):
    """Something of the run that outlived it: a process, placement group, actor or directory."""

    kind: Literal["process", "placement_group", "actor", "checkpoint_directory"]
    what: str


class RunEnded(Event, frozen=True, kw_only=True):
    """The harness has stopped watching; nothing of the run is recorded after this."""

    interrupted: bool = False


# -- the driver ---------------------------------------------------------------------------


class FitCalled(Event, frozen=True, kw_only=True):
    """The user's script called `trainer.fit()`; the settings that are in force."""

    trainer: str
    workers: int
    run_name: str
    storage_path: str
    settings: dict[str, Any]
    replaced: dict[str, Any]


class FitReturned(Event, frozen=True, kw_only=True):
    """`fit()` returned a result."""

    metrics: dict[str, Any]
    checkpoint: str | None


class FitRaised(Event, frozen=True, kw_only=True):
    """`fit()` raised; `error` is the exception's class."""

    error: str
    message: str


class ScriptRaised(Event, frozen=True, kw_only=True):
    """The script failed outside `fit()`, or never called it (`error: NoFit`)."""

    error: str
    message: str


# -- the observer, in Ray's controller ---------------------------------------------------------


class ControllerState(Event, frozen=True, kw_only=True):
    """Ray's controller went from one state to another; equal repeats are dropped."""

    previous: str
    state: str


class WorkerPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Which process holds a rank, and where."""

    rank: int
    pid: int
    node_id: str
    node_ip: str


class WorkerGroupStarted(Event, frozen=True, kw_only=True):
    """An attempt's workers are up; attempt 0 is the first."""

    attempt: int
    workers: tuple[WorkerPlace, ...]


class Committed(Event, frozen=True, kw_only=True):
    """Ray's controller recorded a report of all ranks.

    `epoch` is the report's number in the surviving lineage. `checkpoint` is
    the checkpoint directory's name, None where the report carried none.
    `metrics` holds one record per reporting rank, in rank order.
    """

    attempt: int
    epoch: int
    checkpoint: str | None
    metrics: tuple[dict[str, Any], ...]


class FailureDecided(Event, frozen=True, kw_only=True):
    """Ray's controller saw a failure and decided.

    `charged` is the budget that Ray's policy counts it against. `errors` maps
    a rank to the class and first line of its error; a survivor's broken
    connection often stands there in place of the dead rank's own.
    """

    attempt: int
    decision: Literal["RETRY", "RAISE", "NOOP"]
    charged: Literal["failures", "preemptions", "controller"]
    error: str
    errors: dict[int, str]


class ObserverFailed(Event, frozen=True, kw_only=True):
    """The observer met an exception of its own: what it should have seen is missing."""

    where: str
    error: str


# -- the probe, in every worker ----------------------------------------------------------------


class WorkerStarted(Event, frozen=True, kw_only=True):
    """A worker is ready to train.

    `checkpoint` is the one that Ray hands it; `epoch` is where training must
    go on if it is loaded: one past the report that carried it, else 0.
    """

    attempt: int
    rank: int
    world_size: int
    pid: int
    node_id: str
    checkpoint: str | None
    epoch: int


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
    """

    attempt: int
    rank: int
    epoch: int
    step: int
    losses: tuple[float | str, ...] | None


class LossResolved(Event, frozen=True, kw_only=True):
    """The losses of an earlier step, once they could be read without waiting for a GPU."""

    attempt: int
    rank: int
    epoch: int
    step: int
    losses: tuple[float | str, ...]


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


# -- the chaos controller ----------------------------------------------------------------------


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


class FaultEnded(Event, frozen=True, kw_only=True):
    """What a strike came to; `ok` only where the effect was seen."""

    op: int
    status: Status
    detail: str


AnyEvent: TypeAlias = (
    JournalOpened
    | RunStarted
    | DriverExited
    | DeadlinePassed
    | StackTaken
    | LeftoversSearched
    | Leftover
    | RunEnded
    | FitCalled
    | FitReturned
    | FitRaised
    | ScriptRaised
    | ControllerState
    | WorkerGroupStarted
    | Committed
    | FailureDecided
    | ObserverFailed
    | WorkerStarted
    | CheckpointRead
    | StepDone
    | LossResolved
    | ReportBegun
    | ReportReturned
    | UploadBegun
    | UploadEnded
    | ProbeFailed
    | GateReached
    | GateReleased
    | FaultInvoked
    | NoticeGiven
    | FaultEnded
)
