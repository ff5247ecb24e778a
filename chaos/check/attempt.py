"""The life of one worker group, as a row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from chaos.model.event import (
    AnyEvent,
    CheckpointRead,
    Committed,
    FailureDecided,
    LossResolved,
    ReportBegun,
    StepDone,
    WorkerGroupStarted,
    WorkerPlace,
    WorkerStarted,
)
from chaos.model.history import History

Losses = tuple[float | str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A finished optimizer step; `losses` is None where they were never resolved."""

    number: int
    attempt: int
    rank: int
    epoch: int
    step: int
    losses: Losses | None


@dataclass(frozen=True, slots=True)
class Commit:
    """A report that Ray's controller recorded."""

    number: int
    attempt: int
    epoch: int
    checkpoint: str | None
    metrics: tuple[dict[str, object], ...]


@dataclass(frozen=True, slots=True)
class Start:
    """A rank ready to train: the checkpoint it was handed, and where to go on."""

    number: int
    rank: int
    checkpoint: str | None
    epoch: int


@dataclass(frozen=True, slots=True)
class Decision:
    """What Ray's controller made of a failure."""

    number: int
    event: FailureDecided


@dataclass(frozen=True)
class Attempt:
    """Everything that carries one attempt's index, whenever it was written.

    `opened` is the number of its WorkerGroupStarted, None if that was not
    seen. `reported` and `asked` hold who entered `report()`, and who asked
    for its checkpoint. Stragglers of an ended attempt stay with it.
    """

    index: int
    opened: int | None
    places: tuple[WorkerPlace, ...]
    starts: Mapping[int, Start]
    steps: tuple[Step, ...]
    commits: tuple[Commit, ...]
    reported: frozenset[tuple[int, int]]
    asked: frozenset[int]
    decisions: tuple[Decision, ...]

    @property
    def epoch(self) -> int | None:
        """Where it goes on: the earliest epoch of its ranks, None if none has started."""
        return min((start.epoch for start in self.starts.values()), default=None)

    @property
    def size(self) -> int:
        """How many workers it has."""
        return len(self.places) or len(self.starts)

    @cached_property
    def by_epoch(self) -> Mapping[tuple[int, int], Sequence[Step]]:
        """Its steps by (rank, epoch)."""
        found: dict[tuple[int, int], list[Step]] = {}
        for step in self.steps:
            found.setdefault((step.rank, step.epoch), []).append(step)
        return found

    def ended_epoch(self, rank: int, epoch: int) -> bool:
        """Say whether a rank has made every step of an epoch in this attempt."""
        return (rank, epoch) in self.reported or any(c.epoch == epoch for c in self.commits)


def attempts(history: History) -> tuple[Attempt, ...]:
    """Sort a history's events by the attempt they carry, oldest attempt first."""
    rows: dict[int, _Rows] = {}
    for number, entry in enumerate(history.entries):
        index = getattr(entry.what, "attempt", None)
        if index is not None:
            rows.setdefault(index, _Rows()).add(number, entry.what)
    found = (row.attempt(index) for index, row in sorted(rows.items()))
    return tuple(a for a in found if a.opened is not None or a.starts or a.steps or a.commits)


@dataclass
class _Rows:
    opened: int | None = None
    places: tuple[WorkerPlace, ...] = ()
    starts: dict[int, Start] = field(default_factory=dict)
    steps: list[tuple[int, StepDone]] = field(default_factory=list)
    resolved: dict[tuple[int, int, int], Losses] = field(default_factory=dict)
    commits: list[Commit] = field(default_factory=list)
    reported: set[tuple[int, int]] = field(default_factory=set)
    asked: set[int] = field(default_factory=set)
    decisions: list[Decision] = field(default_factory=list)

    def add(self, number: int, what: AnyEvent) -> None:
        match what:
            case StepDone():
                self.steps.append((number, what))
            case LossResolved():
                self.resolved[what.rank, what.epoch, what.step] = what.losses
            case ReportBegun():
                self.reported.add((what.rank, what.epoch))
            case CheckpointRead():
                self.asked.add(what.rank)
            case WorkerStarted():
                self.starts[what.rank] = Start(number, what.rank, what.checkpoint, what.epoch)
            case _:
                self._add_controllers(number, what)

    def _add_controllers(self, number: int, what: AnyEvent) -> None:
        match what:
            case WorkerGroupStarted():
                self.opened = number
                self.places = what.workers
            case Committed(attempt=attempt, epoch=epoch):
                self.commits.append(Commit(number, attempt, epoch, what.checkpoint, what.metrics))
            case FailureDecided():
                self.decisions.append(Decision(number, what))
            case _:
                pass

    def attempt(self, index: int) -> Attempt:
        return Attempt(
            index=index,
            opened=self.opened,
            places=self.places,
            starts=self.starts,
            steps=tuple(self._step(number, done) for number, done in self.steps),
            commits=tuple(self.commits),
            reported=frozenset(self.reported),
            asked=frozenset(self.asked),
            decisions=tuple(self.decisions),
        )

    def _step(self, number: int, done: StepDone) -> Step:
        losses = done.losses
        if losses is None:
            losses = self.resolved.get((done.rank, done.epoch, done.step))
        return Step(number, done.attempt, done.rank, done.epoch, done.step, losses)
