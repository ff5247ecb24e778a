"""The progress of a run: a panel on a terminal, plain lines elsewhere."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import groupby
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from chaos.faults.world import Status
from chaos.model.event import (
    Committed,
    ControllerState,
    DeadlinePassed,
    EpochEnded,
    FailureDecided,
    FaultEnded,
    FaultInvoked,
    FitRaised,
    FitReturned,
    MetadataAsked,
    NoticeGiven,
    RunEnded,
    ScriptRaised,
    StartedAgain,
    StepDone,
    WorkerGroupStarted,
    WorkerStarted,
)
from chaos.model.history import Entry
from chaos.model.places import START, Place
from chaos.run.clock import Clock
from chaos.words import plural

_FIRST = "starting"


@dataclass(frozen=True)
class LiveFault:
    """One fault, by the events so far."""

    op: int
    what: str
    #: None until it has ended
    status: Status | None = None
    detail: str = ""


@dataclass(frozen=True)
class Progress:
    """The progress of a run."""

    begin_ns: int | None = None
    now_ns: int = 0
    attempt: int | None = None
    state: str = _FIRST
    #: of each rank of this attempt
    places: Mapping[int, Place] = field(default_factory=dict)
    faults: tuple[LiveFault, ...] = ()
    commits: int = 0
    saves: int = 0  # that ended an epoch of rank 0's, in a job without commits
    ended: str | None = None

    @property
    def elapsed_s(self) -> float:
        """Seconds from the first event to the latest."""
        return 0.0 if self.begin_ns is None else (self.now_ns - self.begin_ns) / 1e9

    @property
    def place(self) -> Place | None:
        """The place of this attempt's foremost rank."""
        return max(self.places.values(), default=None)


def advance(progress: Progress, entry: Entry) -> Progress:
    """Return the progress after one more event; each event at least advances the time."""
    begin_ns = entry.time_ns if progress.begin_ns is None else progress.begin_ns
    moved = replace(progress, begin_ns=begin_ns, now_ns=max(progress.now_ns, entry.time_ns))
    match entry.what:
        case ControllerState(state=state):
            return replace(moved, state=state.lower())
        case WorkerGroupStarted() | WorkerStarted() | StepDone() as event:
            return _trained(moved, event)
        case Committed() | EpochEnded(rank=0) as event:
            is_commit = isinstance(event, Committed)
            commits, saves = moved.commits + is_commit, moved.saves + (not is_commit)
            return replace(moved, commits=commits, saves=saves)
        case FaultInvoked() | NoticeGiven() | FaultEnded() as event:
            return replace(moved, faults=_struck(moved.faults, event))
        case FitReturned() | FitRaised() | ScriptRaised() | DeadlinePassed() | RunEnded() as event:
            return replace(moved, ended=moved.ended or event.sentence)
        case StartedAgain():
            moved = replace(moved, ended=None)
        case _:
            pass
    return moved


def advance_all(progress: Progress, entries: Iterable[Entry]) -> Progress:
    """Return the progress after all of these events."""
    return reduce(advance, entries, progress)


def doing(progress: Progress) -> str:
    """Return in a few words what a run is doing."""
    if progress.ended is not None:
        return "it ends"
    if progress.place is not None:
        epoch, step = progress.place
        return f"epoch {epoch}, step {step}" if step else f"epoch {epoch}"
    return "its script starts: imports" if progress.attempt is None else "its workers start"


def is_notable(entry: Entry) -> bool:
    """Return whether an event gets a line of its own during a run."""
    return isinstance(
        entry.what,
        WorkerGroupStarted
        | FaultInvoked
        | NoticeGiven
        | MetadataAsked
        | FaultEnded
        | FailureDecided
        | Committed
        | FitReturned
        | FitRaised
        | ScriptRaised
        | StartedAgain
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
    place = max(places.get(event.rank, START), Place(event.epoch, step))
    # Of torchrun no state is recorded.
    state = "running" if progress.state == _FIRST else progress.state
    return replace(
        progress, attempt=event.attempt, places={**places, event.rank: place}, state=state
    )


def _struck(
    faults: tuple[LiveFault, ...], event: FaultInvoked | NoticeGiven | FaultEnded
) -> tuple[LiveFault, ...]:
    if isinstance(event, FaultInvoked):
        return (*faults, LiveFault(event.op, f"{event.fault} on rank {event.rank}"))
    news: dict[str, Any] = {"detail": "notice given"}
    if isinstance(event, FaultEnded):
        news = {"status": event.status, "detail": event.detail}
        if all(fault.op != event.op for fault in faults):
            faults = (*faults, LiveFault(event.op, f"op {event.op}"))
    return tuple(replace(fault, **news) if fault.op == event.op else fault for fault in faults)


# If lines stay, one is written after each of this many parts.
PARTS = 10
# The longest that commits wait for one line together: some CI ends what is silent for minutes.
QUIET_S = 60.0


class Moving:
    """A context in which progress is shown; `stays`: the last state stays after it.

    `ticks`: it is drawn again once a second, by a thread, and not with news alone.
    """

    def __init__(self, console: Console, *, stays: bool = False, ticks: bool = False) -> None:
        self._console = console
        self._stays, self._ticks = stays, ticks
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(
                console=self._console,
                auto_refresh=self._ticks,
                refresh_per_second=1,
                transient=not self._stays,
            )
            self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)
            self._live = None

    @property
    def moves(self) -> bool:
        """Whether a line can be replaced here; otherwise all lines stay."""
        return self._live is not None

    def move(self, shown: RenderableType) -> None:
        """Replace what moves, if there is something; it may be another one at each drawing."""
        if self._live is not None:
            self._live.update(shown, refresh=True)

    def write(self, line: RenderableType) -> None:
        """Write a line that stays."""
        self._console.print(line, soft_wrap=True)


class MovingLine(Moving):
    """One line that moves, and is removed at the end."""

    def __init__(self, console: Console, *, ticks: bool = False) -> None:
        super().__init__(console, ticks=ticks)
        self._said: tuple[str, int] | None = None

    def say(self, line: RenderableType, *, stage: str, share: float) -> None:
        """Show a line; if lines stay, only as a stage begins and after parts of it."""
        if self.moves:
            self.move(line)
            return
        said = (stage, int(PARTS * share))
        if said != self._said:
            self._said = said
            self.write(line)


_LAMPS = {
    "ok": ("✓ ok", "green"),
    "fail": ("✗ fail", "red"),
    "info": ("? info", "yellow"),
}


class Display(Moving):
    """The display of one run in progress; `show` is called with each new event once."""

    def __init__(
        self,
        console: Console,
        clock: Clock,
        *,
        title: str,
        total_epochs: int | None = None,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__(console, stays=True, ticks=True)
        self.progress = Progress()
        self._clock, self._began_ns = clock, clock.now_ns()
        self._title = title
        self._commits: list[tuple[float, Committed]] = []  # not written yet, each with its time
        self._written_s = 0.0
        self._panel = partial(
            panel, title=title, total_epochs=total_epochs, steps_per_epoch=steps_per_epoch
        )

    def __enter__(self) -> Self:
        super().__enter__()
        if self.moves:
            self.move(self)
        else:
            self.write(Text(self._title))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._write_commits()
        super().__exit__(kind, error, trace)

    def __rich__(self) -> RenderableType:
        """Return the panel as of now: it is drawn once a second, even while nothing happens."""
        seen = self.progress
        if seen.ended is None:
            begin_ns = self._began_ns if seen.begin_ns is None else seen.begin_ns
            now_ns = max(seen.now_ns, self._clock.now_ns())
            seen = replace(seen, begin_ns=begin_ns, now_ns=now_ns)
        return self._panel(seen)

    def show(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self.progress = advance(self.progress, entry)
            if not self.moves:
                self._write(entry)
        if self.moves and entries:
            self.move(self)

    def _write(self, entry: Entry) -> None:
        if isinstance(entry.what, Committed):
            self._commits.append((self.progress.elapsed_s, entry.what))
            if self.progress.elapsed_s - self._written_s > QUIET_S:
                self._write_commits()
        elif is_notable(entry):
            self._write_commits()
            self._write_line(self.progress.elapsed_s, entry.what.sentence)

    def _write_commits(self) -> None:
        """Write the commits since the last line, those of an attempt in one."""
        waiting, self._commits = self._commits, []
        for _, group in groupby(waiting, key=lambda timed: timed[1].attempt):
            timed = [*group]
            (_, first), (seconds, last) = timed[0], timed[-1]
            line = last.sentence
            if last.epoch > first.epoch:
                line = f"epochs {first.epoch} to {line.removeprefix('epoch ')}"
            self._write_line(seconds, line)

    def _write_line(self, seconds: float, line: str) -> None:
        self._written_s = seconds
        self.write(Text(f"{seconds:7.1f} s  {line}"))


def panel(
    progress: Progress, *, title: str, total_epochs: int | None, steps_per_epoch: int | None
) -> RenderableType:
    """Draw a progress: the place of training, and the faults so far."""
    attempt = "no attempt yet" if progress.attempt is None else f"attempt {progress.attempt}"
    commits = plural(progress.commits, "commit")
    if progress.saves:
        commits = plural(progress.saves, "save")
    head = Text.assemble((title, "bold"), f"  {progress.elapsed_s:.1f} s", overflow="ellipsis")
    state = Text(f"  {attempt} · {progress.ended or progress.state} · {commits}", style="dim")
    lines: list[RenderableType] = [head, state]
    if progress.place is not None:
        lines.append(_bar(progress.place, total_epochs, steps_per_epoch))
    lines += [_fault(fault) for fault in progress.faults]
    return Group(*lines)


def _bar(place: Place, total_epochs: int | None, steps_per_epoch: int | None) -> RenderableType:
    epoch, step = place
    of_epochs = f"/{total_epochs - 1}" if total_epochs else ""
    of_steps = f"/{steps_per_epoch}" if steps_per_epoch else ""
    where = Text(f"  epoch {epoch}{of_epochs} · step {step}{of_steps}")
    if not total_epochs or not steps_per_epoch:
        return where
    row = Table.grid(padding=(0, 2))
    total = total_epochs * steps_per_epoch
    done = min(epoch * steps_per_epoch + step, total)
    row.add_row(where, ProgressBar(total=total, completed=done, width=30))
    return row


def _fault(fault: LiveFault) -> Text:
    word, style = _LAMPS.get(fault.status or "", ("… under way", "yellow"))
    line = Text.assemble(f"  op {fault.op}: {fault.what}  ", (word, style))
    return line.append(f"  {fault.detail}") if fault.detail else line
