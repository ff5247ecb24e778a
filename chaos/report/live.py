"""The progress of a run: a panel on a terminal, plain lines elsewhere."""

import threading
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
from chaos.model.history import JournalEntry
from chaos.model.places import START, TrainingPlace
from chaos.run.clock import Clock
from chaos.wording import plural

_START_STATE = "starting"


@dataclass(frozen=True)
class LiveFault:
    """One fault, by the events so far."""

    op: int
    description: str
    #: None until it has ended
    status: Status | None = None
    detail: str = ""


@dataclass(frozen=True)
class Progress:
    """The progress of a run."""

    begin_ns: int | None = None
    now_ns: int = 0
    attempt: int | None = None
    state: str = _START_STATE
    #: of each rank of this attempt
    places: Mapping[int, TrainingPlace] = field(default_factory=dict)
    faults: tuple[LiveFault, ...] = ()
    commits: int = 0
    saves: int = 0  # that ended an epoch of rank 0's, in a job without commits
    end_text: str | None = None

    @property
    def elapsed_s(self) -> float:
        """Seconds from the first event to the latest."""
        return 0.0 if self.begin_ns is None else (self.now_ns - self.begin_ns) / 1e9

    @property
    def foremost_place(self) -> TrainingPlace | None:
        """The place of this attempt's foremost rank."""
        return max(self.places.values(), default=None)


def advance_progress(progress: Progress, entry: JournalEntry) -> Progress:
    """Return the progress after one more event; each event at least advances the time."""
    begin_ns = entry.time_ns if progress.begin_ns is None else progress.begin_ns
    updated_progress = replace(
        progress, begin_ns=begin_ns, now_ns=max(progress.now_ns, entry.time_ns)
    )
    match entry.event:
        case ControllerState(state=state):
            return replace(updated_progress, state=state.lower())
        case WorkerGroupStarted() | WorkerStarted() | StepDone() as event:
            return _update_places(updated_progress, event)
        case Committed() | EpochEnded(rank=0) as event:
            is_commit = isinstance(event, Committed)
            commits, saves = (
                updated_progress.commits + is_commit,
                updated_progress.saves + (not is_commit),
            )
            return replace(updated_progress, commits=commits, saves=saves)
        case FaultInvoked() | NoticeGiven() | FaultEnded() as event:
            return replace(updated_progress, faults=_update_faults(updated_progress.faults, event))
        case FitReturned() | FitRaised() | ScriptRaised() | DeadlinePassed() | RunEnded() as event:
            return replace(updated_progress, end_text=updated_progress.end_text or event.sentence)
        case StartedAgain():
            updated_progress = replace(updated_progress, end_text=None)
        case _:
            pass
    return updated_progress


def advance_all(progress: Progress, entries: Iterable[JournalEntry]) -> Progress:
    """Return the progress after all of these events."""
    return reduce(advance_progress, entries, progress)


def describe_activity(progress: Progress) -> str:
    """Return in a few words what a run is doing."""
    if progress.end_text is not None:
        return "it ends"
    if progress.foremost_place is not None:
        epoch, step = progress.foremost_place
        return f"epoch {epoch}, step {step}" if step else f"epoch {epoch}"
    return "its script starts: imports" if progress.attempt is None else "its workers start"


def is_notable(entry: JournalEntry) -> bool:
    """Return whether an event gets a line of its own during a run."""
    return isinstance(
        entry.event,
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


def _update_places(
    progress: Progress, event: WorkerGroupStarted | WorkerStarted | StepDone
) -> Progress:
    current = -1 if progress.attempt is None else progress.attempt
    if event.attempt < current:  # a dying attempt's last lines may arrive late
        return progress
    places = progress.places if event.attempt == current else {}
    if isinstance(event, WorkerGroupStarted):
        return replace(progress, attempt=event.attempt, places=places)
    step = event.step if isinstance(event, StepDone) else 0
    place = max(places.get(event.rank, START), TrainingPlace(event.epoch, step))
    # Of torchrun no state is recorded.
    state = "running" if progress.state == _START_STATE else progress.state
    return replace(
        progress, attempt=event.attempt, places={**places, event.rank: place}, state=state
    )


def _update_faults(
    faults: tuple[LiveFault, ...], event: FaultInvoked | NoticeGiven | FaultEnded
) -> tuple[LiveFault, ...]:
    if isinstance(event, FaultInvoked):
        return (*faults, LiveFault(event.op, f"{event.fault} on rank {event.rank}"))
    changes: dict[str, Any] = {"detail": "notice given"}
    if isinstance(event, FaultEnded):
        changes = {"status": event.status, "detail": event.detail}
        if all(fault.op != event.op for fault in faults):
            faults = (*faults, LiveFault(event.op, f"op {event.op}"))
    return tuple(replace(fault, **changes) if fault.op == event.op else fault for fault in faults)


# If lines stay, one is written after each of this many parts.
PARTS = 10
# The longest that commits wait for one line together: some CI ends what is silent for minutes.
QUIET_S = 60.0
# The time after which a log is shown that the command lives, if no line was written in it.
SILENCE_S = 30.0


class LiveOutput:
    """A context in which progress is shown; `is_kept`: the last state stays after it.

    `is_ticking`: it is drawn again once a second, by a thread, and not with news alone.
    """

    def __init__(
        self, console: Console, *, is_kept: bool = False, is_ticking: bool = False
    ) -> None:
        self._console = console
        self._is_kept, self._is_ticking = is_kept, is_ticking
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(
                console=self._console,
                auto_refresh=self._is_ticking,
                refresh_per_second=1,
                transient=not self._is_kept,
            )
            self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._finish()
        if self._live is not None:
            self._live.__exit__(kind, error, trace)
            self._live = None

    def _finish(self) -> None:
        """End what goes on beside the display, and write what it still has, before its end."""

    @property
    def can_replace(self) -> bool:
        """Whether a line can be replaced here; otherwise all lines stay."""
        return self._live is not None

    def replace_content(self, content: RenderableType) -> None:
        """Replace what moves, if there is something; it may be another one at each drawing."""
        if self._live is not None:
            self._live.update(content, refresh=True)

    def write_line(self, line: RenderableType) -> None:
        """Write a line that stays."""
        self._console.print(line, soft_wrap=True)


class LiveLine(LiveOutput):
    """One line that moves, and is removed at the end.

    If lines stay, one that is ticking is written again where nothing else was for a while.
    """

    def __init__(self, console: Console, *, is_ticking: bool = False) -> None:
        super().__init__(console, is_ticking=is_ticking)
        self._latest_key: tuple[str, int] | None = None
        self._latest_line: RenderableType = ""
        self._has_written, self._has_ended = False, threading.Event()
        self._repeater: threading.Thread | None = None

    def __enter__(self) -> Self:
        super().__enter__()
        if self._is_ticking and not self.can_replace:
            self._repeater = threading.Thread(target=self._repeat_line, daemon=True)
            self._repeater.start()
        return self

    def _finish(self) -> None:
        self._has_ended.set()
        if self._repeater is not None:  # nothing is written after the end
            self._repeater.join()

    def show_line(self, line: RenderableType, *, stage: str, share: float) -> None:
        """Show a line; if lines stay, only as a stage begins and after parts of it."""
        if self.can_replace:
            self.replace_content(line)
            return
        line_key, self._latest_line = (stage, int(PARTS * share)), line
        if line_key != self._latest_key:
            self._latest_key = line_key
            self.write_line(line)

    def write_line(self, line: RenderableType) -> None:
        self._has_written = True
        super().write_line(line)

    def _repeat_line(self) -> None:
        """Write the line as it is then, until the end, after each time without another one."""
        while not self._has_ended.wait(SILENCE_S):
            if not self._has_written and self._latest_line:
                super().write_line(self._latest_line)
            self._has_written = False


_STATUS_STYLES = {
    "ok": ("✓ ok", "green"),
    "fail": ("✗ fail", "red"),
    "info": ("? info", "yellow"),
}


class Display(LiveOutput):
    """The display of one run in progress; `show_events` is called with each new event once."""

    def __init__(
        self,
        console: Console,
        clock: Clock,
        *,
        title: str,
        total_epochs: int | None = None,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__(console, is_kept=True, is_ticking=True)
        self.progress = Progress()
        self._clock, self._began_ns = clock, clock.now_ns()
        self._title = title
        self._commits: list[tuple[float, Committed]] = []  # not written yet, each with its time
        self._written_s = 0.0
        self._panel = partial(
            build_panel, title=title, total_epochs=total_epochs, steps_per_epoch=steps_per_epoch
        )

    def __enter__(self) -> Self:
        super().__enter__()
        if self.can_replace:
            self.replace_content(self)
        else:
            self.write_line(Text(self._title))
        return self

    def _finish(self) -> None:
        self._write_commits()

    def __rich__(self) -> RenderableType:
        """Return the panel as of now: it is drawn once a second, even while nothing happens."""
        progress = self.progress
        if progress.end_text is None:
            begin_ns = self._began_ns if progress.begin_ns is None else progress.begin_ns
            now_ns = max(progress.now_ns, self._clock.now_ns())
            progress = replace(progress, begin_ns=begin_ns, now_ns=now_ns)
        return self._panel(progress)

    def show_events(self, entries: Sequence[JournalEntry]) -> None:
        for entry in entries:
            self.progress = advance_progress(self.progress, entry)
            if not self.can_replace:
                self._write_entry(entry)
        if self.can_replace and entries:
            self.replace_content(self)

    def _write_entry(self, entry: JournalEntry) -> None:
        if isinstance(entry.event, Committed):
            self._commits.append((self.progress.elapsed_s, entry.event))
            if self.progress.elapsed_s - self._written_s > QUIET_S:
                self._write_commits()
        elif is_notable(entry):
            self._write_commits()
            self._write_timed_line(self.progress.elapsed_s, entry.event.sentence)

    def _write_commits(self) -> None:
        """Write the commits since the last line, those of an attempt in one."""
        pending_commits, self._commits = self._commits, []
        for _, group in groupby(
            pending_commits, key=lambda timed_commits: timed_commits[1].attempt
        ):
            timed_commits = [*group]
            (_, first_commit), (seconds, last_commit) = timed_commits[0], timed_commits[-1]
            line = last_commit.sentence
            if last_commit.epoch > first_commit.epoch:
                line = f"epochs {first_commit.epoch} to {line.removeprefix('epoch ')}"
            self._write_timed_line(seconds, line)

    def _write_timed_line(self, seconds: float, line: str) -> None:
        self._written_s = seconds
        self.write_line(Text(f"{seconds:7.1f} s  {line}"))


def build_panel(
    progress: Progress, *, title: str, total_epochs: int | None, steps_per_epoch: int | None
) -> RenderableType:
    """Draw a progress: the place of training, and the faults so far."""
    attempt = "no attempt yet" if progress.attempt is None else f"attempt {progress.attempt}"
    commits = plural(progress.commits, "commit")
    if progress.saves:
        commits = plural(progress.saves, "save")
    head = Text.assemble((title, "bold"), f"  {progress.elapsed_s:.1f} s", overflow="ellipsis")
    state = Text(f"  {attempt} · {progress.end_text or progress.state} · {commits}", style="dim")
    lines: list[RenderableType] = [head, state]
    if progress.foremost_place is not None:
        lines.append(_build_bar(progress.foremost_place, total_epochs, steps_per_epoch))
    lines += [_describe_fault(fault) for fault in progress.faults]
    return Group(*lines)


def _build_bar(
    place: TrainingPlace, total_epochs: int | None, steps_per_epoch: int | None
) -> RenderableType:
    epoch, step = place
    epoch_total = f"/{total_epochs - 1}" if total_epochs else ""
    step_total = f"/{steps_per_epoch}" if steps_per_epoch else ""
    place_text = Text(f"  epoch {epoch}{epoch_total} · step {step}{step_total}")
    if not total_epochs or not steps_per_epoch:
        return place_text
    row = Table.grid(padding=(0, 2))
    total = total_epochs * steps_per_epoch
    done = min(epoch * steps_per_epoch + step, total)
    row.add_row(place_text, ProgressBar(total=total, completed=done, width=30))
    return row


def _describe_fault(fault: LiveFault) -> Text:
    word, style = _STATUS_STYLES.get(fault.status or "", ("… under way", "yellow"))
    line = Text.assemble(f"  op {fault.op}: {fault.description}  ", (word, style))
    return line.append(f"  {fault.detail}") if fault.detail else line
