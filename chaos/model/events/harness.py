"""Events of the harness itself: the frame of every run."""

from typing import Literal

import msgspec

from chaos.model.events.base import Event, WorkerEvent


class JournalOpened(Event, frozen=True, kw_only=True):
    """The first line of every journal."""

    role: Literal["harness", "driver", "controller", "worker", "chaos", "storage"]
    host: str
    pid: int
    wall_ns: int
    #: that of the run's plan
    token: str | None = None

    def _text(self) -> str:
        return f"journal of the {self.role} opened: pid {self.pid} on {self.host}"


class RunStarted(Event, frozen=True, kw_only=True):
    """The harness begins to execute a plan."""

    scenario: str
    seed: int
    backend: str
    #: the digest of plan.json at that time
    plan: str | None = None
    #: the reason of a second try; `tried-before/` holds the records of the first
    again_after: str | None = None

    def _text(self) -> str:
        retry_reason = f"; once more, after: {self.again_after}" if self.again_after else ""
        settings = f"seed {self.seed}, backend {self.backend}"
        return f"run {self.scenario} started ({settings}){retry_reason}"


class DriverExited(Event, frozen=True, kw_only=True):
    """The process that ran the user's script has ended."""

    #: a negative one is a signal
    code: int
    #: the number of the script's start, from 0
    start: int = 0

    def _text(self) -> str:
        exit_reason = f"signal {-self.code}" if self.code < 0 else f"code {self.code}"
        return f"driver exited with {exit_reason}" + (
            f" (start {self.start})" if self.start else ""
        )


class StartedAgain(Event, frozen=True, kw_only=True):
    """Chaos starts the script's command again, which has ended with a failure."""

    #: its number, from 0
    start: int
    #: without the arguments of a restart: no save was whole yet that they could mean
    has_first_args: bool = False

    def _text(self) -> str:
        arguments_note = ", with the arguments of the first start" if self.has_first_args else ""
        return f"the command is started again (start {self.start}){arguments_note}"


class JobAccounted(Event, frozen=True, kw_only=True):
    """Slurm has accounted for a start of the job that has ended."""

    #: its number, from 0
    start: int
    state: str
    #: of whole seconds; None where it was never begun
    ran_s: float | None
    code: int
    signal: int
    #: as Slurm writes them: `node-[0-1]`
    nodes: str

    @property
    def outcome(self) -> str:
        """Its end in words."""
        # The state that a start leaves which its script, or an operator, has requeued (22.05).
        state = "requeued" if self.state == "PENDING" else self.state
        code = f" with code {self.code}" if self.code else ""
        code = f" with signal {self.signal}" if self.signal else code
        duration = "" if self.ran_s is None else f" after {self.ran_s:g} s on {self.nodes}"
        return f"{state}{code}{duration}"

    def _text(self) -> str:
        return f"Slurm accounts for start {self.start} of the job: {self.outcome}"


class DependentSeen(Event, frozen=True, kw_only=True):
    """A job that depends on this one has begun, or has not when the run was over."""

    #: the name of its script
    script: str
    #: the kind of its dependency
    dependency_kind: str = msgspec.field(name="after")
    began: bool
    #: where it has not: Slurm's reason
    reason: str = ""

    def _text(self) -> str:
        dependent_job = f"{self.script}, which depends on the job ({self.dependency_kind}),"
        return f"{dependent_job} {'began' if self.began else f'has not begun: {self.reason}'}"


class DeadlinePassed(Event, frozen=True, kw_only=True):
    """The run was still going at its limit, or it hung, and the harness ended it."""

    limit_s: float
    #: for how long it had stood still; None where it was ended at its limit
    still_s: float | None = None

    def _text(self) -> str:
        if self.still_s is not None:
            return f"run ended by the harness: all its ranks stood still for {self.still_s:.0f} s"
        return f"run ended by the harness: still going after {self.limit_s:g} s"


class StackTaken(Event, frozen=True, kw_only=True):
    """A process of the run was asked for its stacks."""

    pid: int
    rank: int | None
    #: below the run directory
    path: str

    def _text(self) -> str:
        process_name = "the driver" if self.rank is None else f"rank {self.rank}"
        return f"stacks of {process_name} (pid {self.pid}) are in {self.path}"


class ThreadWaits(WorkerEvent, frozen=True, kw_only=True):
    """A thread of a rank waited in the job's own code when the harness ended the run."""

    file: str
    line: int
    function: str
    #: what the line has called; empty where that is not known
    callee: str = ""
    #: the line of the same file that called the function; None where there is none
    caller_line: int | None = None
    #: whether it is the main thread of its process
    is_main: bool = False

    def _text(self) -> str:
        callee_text = f" for `{self.callee}`" if self.callee else ""
        return (
            f"{self.worker_label}: waits in {self.file}:{self.line} "
            f"(`{self.function}`){callee_text}"
        )


class MemoryExhausted(Event, frozen=True, kw_only=True):
    """The machine's memory was nearly full and the run's largest process was ended."""

    pid: int
    #: None where it was no rank
    rank: int | None
    #: the part that was in use
    share: float

    def _text(self) -> str:
        process_name = "its largest process" if self.rank is None else f"rank {self.rank}"
        return f"memory was {self.share:.0%} full: {process_name} (pid {self.pid}) was ended"


class Disturbed(Event, frozen=True, kw_only=True):
    """Something beside chaos and the job went wrong, so the run proves no defect of the job.

    A process was ended by a signal that chaos did not send, or the backend itself failed.
    """

    why: str

    def _text(self) -> str:
        return f"disturbed: {self.why}"


class LeftoversSearched(Event, frozen=True, kw_only=True):
    """The harness has searched these places for leftovers of the run."""

    places: tuple[str, ...]

    def _text(self) -> str:
        return f"leftovers searched among {', '.join(self.places) or 'nothing'}"


class Leftover(Event, frozen=True, kw_only=True):
    """Something of the run that outlived it: a process, placement group, actor or directory."""

    kind: Literal["process", "placement_group", "actor", "checkpoint_directory"]
    name: str = msgspec.field(name="what")

    def _text(self) -> str:
        return f"left behind: {self.kind.replace('_', ' ')} {self.name}"


class BystanderSeen(Event, frozen=True, kw_only=True):
    """The course of a trial of the experiment that is not the target of faults."""

    #: counts as in `job.trial`
    trial: int
    #: monotonic, as all times of a history on one host
    began_ns: int
    ended_ns: int
    attempts: int
    failures: int
    steps: int
    #: maps each rank and epoch (`rank 0, epoch 2`) to the digest of all losses of its surviving
    #: steps
    losses: dict[str, str]
    #: its `fit()` returned
    finished: bool
    #: its `fit()` raised
    error: str | None = None

    def _text(self) -> str:
        outcome = "returned" if self.finished else "did not end"
        outcome = f"raised {self.error}" if self.error else outcome
        counts = f"attempts {self.attempts}, failures {self.failures}, steps {self.steps}"
        return f"trial {self.trial} beside it: {counts}; its fit() {outcome}"


class JournalCut(Event, frozen=True, kw_only=True):
    """A node was lost, or out of reach, before all of a journal had been copied from it.

    The missing part is unknown: it may hold steps, reports, or nothing.
    """

    source: str
    node_id: str

    def _text(self) -> str:
        return f"what {self.source} wrote last was lost with node {self.node_id[:8]}"


# Of what a job writes outside: what it was kept from.
REFUSED = ("refused", "remote")


class WroteOutside(Event, frozen=True, kw_only=True):
    """A process of an audited job wrote outside the audit's folder, by an absolute path."""

    path: str
    #: `refused`: it would have harmed an existing file, and was prevented; `remote`: likewise, an
    #: object in a store that is not on this machine
    operation: Literal["created", "replaced", "extended", "opened", "refused", "remote"] = (
        msgspec.field(name="how")
    )
    #: what it had made as training's output, when the run was over
    removed: bool
    #: it was the script itself, and not a worker
    after_fit: bool
    #: a function that saves models has written it
    is_save: bool = False

    def _text(self) -> str:
        removal_note = "; it is removed" if self.removed else ""
        write_text = f"{self.path} ({self.operation}){removal_note}"
        return f"the job wrote outside the audit's folder: {write_text}"


class FolderCompared(Event, frozen=True, kw_only=True):
    """The working folder changed while a job trained, and no watched process was seen to write it.

    Another program may have; so it is left.
    """

    #: files that were not there before, and files that were, each with a digest of its content
    new: dict[str, str]
    changed: dict[str, str]
    gone: tuple[str, ...] = ()
    #: the first folder that was not looked into, as there are too many files; none: ""
    cut: str = ""

    def _text(self) -> str:
        path_groups = (("new", self.new), ("changed", self.changed), ("gone", self.gone))
        parts = [f"{change}: {', '.join(paths)}" for change, paths in path_groups if paths]
        parts += [f"not looked into: {self.cut} and more"] if self.cut else []
        return f"in the working folder, by no watched process: {'; '.join(parts)}"


class FilesUnsynced(Event, frozen=True, kw_only=True):
    """Files that the loss of a node's power may empty, as they were at the end of a clean run.

    Of files whose names differ in numbers alone, the newest: its node's processes have not synced
    it, and it is on a disk that outlives the node.
    """

    paths: tuple[str, ...]

    def _text(self) -> str:
        return f"written, and not synced: {', '.join(self.paths)}"


class RunEnded(Event, frozen=True, kw_only=True):
    """The harness has stopped watching; nothing of the run is recorded after this."""

    interrupted: bool = False
    #: the lines that had been written by then, by journal
    lines: dict[str, int] = {}  # noqa: RUF012 - msgspec copies an empty one

    def _text(self) -> str:
        return "run interrupted" if self.interrupted else "run ended"
