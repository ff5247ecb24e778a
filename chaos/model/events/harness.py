"""What the harness itself did and saw: the frame of every run."""

from typing import Literal

from chaos.model.events.base import Event


class JournalOpened(Event, frozen=True, kw_only=True):
    """The first line of every journal; `token` is that of the run's plan."""

    role: Literal["harness", "driver", "controller", "worker", "chaos", "storage"]
    host: str
    pid: int
    wall_ns: int
    token: str | None = None


class RunStarted(Event, frozen=True, kw_only=True):
    """The harness begins to execute a plan.

    `plan` is the digest of plan.json as it then was. `again_after`: why it is the second time;
    `tried-before/` holds what was seen of the first.
    """

    scenario: str
    seed: int
    backend: str
    plan: str | None = None
    again_after: str | None = None


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


class MemoryExhausted(Event, frozen=True, kw_only=True):
    """The machine's memory was nearly full and the run's largest process was ended.

    `share` is the part that was in use; `rank` is None where it was no rank.
    """

    pid: int
    rank: int | None
    share: float


class Disturbed(Event, frozen=True, kw_only=True):
    """Something beside chaos and the job went wrong: what the run shows is nobody's defect.

    A process was ended by a signal that chaos did not send, or the backend itself failed.
    """

    why: str


class WorkersPrestarted(Event, frozen=True, kw_only=True):
    """Idle processes were asked for, for the attempt after this one: it recovers sooner for them.

    `asked`: how many more, by node. `taken`: how many of this attempt's own
    workers had been waiting. `error`: why the raylets could not be asked.
    """

    attempt: int
    taken: int
    asked: dict[str, int]
    error: str | None = None


class LeftoversSearched(Event, frozen=True, kw_only=True):
    """The harness has looked for what the run left behind, in these places."""

    places: tuple[str, ...]


class Leftover(Event, frozen=True, kw_only=True):
    """Something of the run that outlived it: a process, placement group, actor or directory."""

    kind: Literal["process", "placement_group", "actor", "checkpoint_directory"]
    what: str


class BystanderSeen(Event, frozen=True, kw_only=True):
    """How another trial of the experiment went than the one that faults strike.

    `trial` counts as in `job.trial`. `losses` gives, for each rank and epoch
    (`rank 0, epoch 2`), the digest of all losses of its surviving steps.
    `error`: its `fit()` raised; `finished`: it returned. It was under way from
    `began_ns` to `ended_ns` (monotonic, as all times of a history on one host).
    """

    trial: int
    began_ns: int
    ended_ns: int
    attempts: int
    failures: int
    steps: int
    losses: dict[str, str]
    finished: bool
    error: str | None = None


class JournalCut(Event, frozen=True, kw_only=True):
    """A node was lost, or out of reach, before all of a journal had come from there.

    What is missing is unknown: it may hold steps, reports, or nothing.
    """

    source: str
    node_id: str


class WroteOutside(Event, frozen=True, kw_only=True):
    """A process of an audited job wrote outside the audit's folder, by an absolute path.

    `refused`: it would have harmed what was there before, and was kept from it.
    `removed`: what it had made as training's output, when the run was over.
    `after_fit`: it was the script itself, and not a worker.
    """

    path: str
    how: Literal["created", "replaced", "extended", "opened", "refused"]
    removed: bool
    after_fit: bool


class RunEnded(Event, frozen=True, kw_only=True):
    """The harness has stopped watching; nothing of the run is recorded after this.

    `lines` counts those that had been written by then, by journal.
    """

    interrupted: bool = False
    lines: dict[str, int] = {}  # noqa: RUF012 - msgspec copies an empty one
