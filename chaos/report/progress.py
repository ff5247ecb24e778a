"""How far a run has come: a fold over its events, one at a time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce

from chaos.faults.world import Status
from chaos.model.event import (
    Committed,
    ControllerState,
    DeadlinePassed,
    FailureDecided,
    FaultEnded,
    FaultInvoked,
    FitRaised,
    FitReturned,
    NoticeGiven,
    RunEnded,
    ScriptRaised,
    StepDone,
    WorkerGroupStarted,
    WorkerStarted,
)
from chaos.model.history import Entry
from chaos.report.sentence import sentence


@dataclass(frozen=True)
class Strike:
    """One fault as it is seen so far; `status` is None until it has ended."""

    op: int
    what: str
    status: Status | None = None
    detail: str = ""


@dataclass(frozen=True)
class Progress:
    """How far a run has come. `places` maps a rank of this attempt to its (epoch, step)."""

    begin_ns: int | None = None
    now_ns: int = 0
    attempt: int | None = None
    state: str = "starting"
    places: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    strikes: tuple[Strike, ...] = ()
    commits: int = 0
    ended: str | None = None

    @property
    def elapsed_s(self) -> float:
        """Seconds from the first event to the latest."""
        return 0.0 if self.begin_ns is None else (self.now_ns - self.begin_ns) / 1e9

    @property
    def place(self) -> tuple[int, int] | None:
        """Where the foremost rank of this attempt is, as (epoch, finished steps)."""
        return max(self.places.values(), default=None)

    @property
    def last_strike(self) -> Strike | None:
        """The fault that struck last."""
        return self.strikes[-1] if self.strikes else None


def advance(progress: Progress, entry: Entry) -> Progress:
    """Give the progress after one more event; an event that moves nothing moves the time."""
    begin_ns = entry.time_ns if progress.begin_ns is None else progress.begin_ns
    moved = replace(progress, begin_ns=begin_ns, now_ns=max(progress.now_ns, entry.time_ns))
    match entry.what:
        case ControllerState(state=state):
            return replace(moved, state=state.lower())
        case WorkerGroupStarted() | WorkerStarted() | StepDone() as event:
            return _trained(moved, event)
        case Committed():
            return replace(moved, commits=moved.commits + 1)
        case FaultInvoked() | NoticeGiven() | FaultEnded() as event:
            return replace(moved, strikes=_struck(moved.strikes, event))
        case FitReturned() | FitRaised() | ScriptRaised() | DeadlinePassed() | RunEnded() as event:
            return replace(moved, ended=moved.ended or sentence(event))
        case _:
            return moved


def advance_all(progress: Progress, entries: Iterable[Entry]) -> Progress:
    """Give the progress after all of these events."""
    return reduce(advance, entries, progress)


def is_notable(entry: Entry) -> bool:
    """Say whether an event deserves a line of its own while a run goes on."""
    return isinstance(
        entry.what,
        WorkerGroupStarted
        | FaultInvoked
        | NoticeGiven
        | FaultEnded
        | FailureDecided
        | Committed
        | FitReturned
        | FitRaised
        | ScriptRaised
        | DeadlinePassed,
    )


def _trained(progress: Progress, event: WorkerGroupStarted | WorkerStarted | StepDone) -> Progress:
    current = -1 if progress.attempt is None else progress.attempt
    if event.attempt < current:  # a dying attempt's last lines may arrive late
        return progress
    places = progress.places if event.attempt == current else {}
    if isinstance(event, WorkerGroupStarted):
        return replace(progress, attempt=event.attempt, places=places)
    step = event.step if isinstance(event, StepDone) else 0
    place = max(places.get(event.rank, (0, 0)), (event.epoch, step))
    return replace(progress, attempt=event.attempt, places={**places, event.rank: place})


def _struck(
    strikes: tuple[Strike, ...], event: FaultInvoked | NoticeGiven | FaultEnded
) -> tuple[Strike, ...]:
    if isinstance(event, FaultInvoked):
        return (*strikes, Strike(event.op, f"{event.fault} on rank {event.rank}"))
    if isinstance(event, NoticeGiven):
        return tuple(replace(s, detail="notice given") if s.op == event.op else s for s in strikes)
    known = any(strike.op == event.op for strike in strikes)
    rows = strikes if known else (*strikes, Strike(event.op, f"op {event.op}"))
    return tuple(
        replace(s, status=event.status, detail=event.detail) if s.op == event.op else s
        for s in rows
    )
