"""The screen of an audit: its progress, in a terminal or as plain lines, and its card."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.text import Text

from chaos.audit.brief import list_brief_parts
from chaos.audit.budget import AuditProgress
from chaos.audit.card import Card
from chaos.audit.notes import Note
from chaos.audit.parts import list_parts
from chaos.audit.run_row import DefectKey, RunRow
from chaos.report.live import LiveLine
from chaos.report.screen import ConsoleAnnouncer
from chaos.report.terminal_parts import print_parts
from chaos.run.clock import Clock, SystemClock, elapsed_seconds

_LAMPS = {"pass": ("✓", "green"), "fail": ("✗", "bold red"), "inconclusive": ("?", "yellow")}
# As much later than the end known so far an audit may end without a reason being shown.
DELAY_FACTOR = 1.1
# From then on the display of a clean run has the time at which it is given up.
LONG_RUN_S = 60.0
CARD_RECORD = "audit.json"


class AuditDisplay(LiveLine):
    """The progress of an audit in a terminal; `show` is called once for each change."""

    def __init__(
        self,
        console: Console,
        clock: Clock,
        *,
        is_ending: Callable[[], bool] = lambda: False,
        has_asides: bool = False,
    ) -> None:
        """`is_ending`: whether it was interrupted, and ends the runs under way.

        `has_asides`: whether it shows what the launcher lacks before the end.
        """
        super().__init__(console, is_ticking=True)
        self._has_asides = has_asides
        self._clock, self._is_ending = clock, is_ending
        #: the progress, when it was shown, and why the time that is left has become more; one
        #: object, as a thread reads it
        self._shown = (AuditProgress("", 0, None), clock.now_ns(), "")
        self._end_s: float | None = None  # as last shown, since the audit began
        self._shown_defects: set[DefectKey] = set()

    def show(self, progress: AuditProgress) -> None:
        self._shown = (progress, self._clock.now_ns(), self._explain_delay(progress))
        row = progress.latest_row
        if row is not None and row.is_wrong and self._shown_defects.isdisjoint(row.defect_keys):
            self._shown_defects.update(row.defect_keys)
            self.write_line(Text.assemble(("found", "bold red"), f": {row.headline}"))
        self.show_line(self, stage=progress.stage, share=progress.share)

    def __rich__(self) -> Text:
        """Return the line as it is now: seconds pass without any news."""
        if self._is_ending():
            return Text("interrupted: the runs under way are ended")
        progress, shown_ns, delay_reason = self._shown
        return render_progress(
            progress, elapsed_s=elapsed_seconds(shown_ns, self._clock), delay_reason=delay_reason
        )

    def _explain_delay(self, progress: AuditProgress) -> str:
        """Return the reason why an audit ends later than was shown; empty if it does not."""
        if progress.remaining_s is None:
            return ""
        shown_end_s, self._end_s = self._end_s, progress.spent_s + progress.remaining_s
        if shown_end_s is None or self._end_s <= shown_end_s * DELAY_FACTOR:
            return ""
        is_larger = (progress.total or 0) > (self._shown[0].total or 0)
        return "more places are due" if is_larger else "runs take longer than before"

    def show_notes(self, notes: Sequence[Note]) -> None:
        """Print the results of the runs without a fault, before any other run begins."""
        for note in notes:
            if self._has_asides or not note.is_aside:
                self.write_line(render_note(note))


def render_progress(
    progress: AuditProgress, *, elapsed_s: float = 0.0, delay_reason: str = ""
) -> Text:
    """Return an audit's progress in one line, so many seconds after the last news.

    `delay_reason`: the reason why more time is left than was shown before.
    """
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(progress.stage, style="bold")
    spent_s = progress.spent_s + elapsed_s
    if progress.activity:
        position = "" if progress.total is None else f" {progress.done + 1} of {progress.total}"
        limit_text = ""
        if progress.deadline_s is not None and spent_s > LONG_RUN_S:
            limit_text = f" (given up {progress.deadline_s:.0f} s after its workers start)"
        return text.append(f"{position}: {progress.activity}, {spent_s:.0f} s{limit_text}")
    places = progress.done if progress.total is None else f"{progress.done}/{progress.total}"
    text.append(f"  {places} places")
    if progress.wrong:
        text.append(f"  {progress.wrong} failed")
    limit_text = "" if progress.limit_s is None else f" of {progress.limit_s:.0f}"
    text.append(f"  {spent_s:.0f}{limit_text} s")
    if progress.remaining_s is not None and progress.limit_s is None and progress.share < 1:
        remaining_text = f", {max(0.0, progress.remaining_s - elapsed_s):.0f} s left"
        text.append(f"{remaining_text} ({delay_reason})" if delay_reason else remaining_text)
    if progress.latest_row is not None:
        text.append("  ").append_text(_render_run(progress.latest_row))
    return text


def render_note(note: Note) -> Text:
    """Return a note as a line that stays."""
    return Text.assemble(
        (f"{note.kind}: ", "yellow" if note.kind == "warning" else "dim"), note.text
    )


def _render_run(run: RunRow) -> Text:
    mark, style = _LAMPS[run.status]
    if run.is_from_scratch:
        mark, style = "o", "dim"  # which tests no resume
    return Text.assemble((mark, style), f" {run.group}: {run.name}")


class AuditScreen(ConsoleAnnouncer):
    """The listener of an audit, on a console; `is_ending`: whether a signal has come to end it."""

    def __init__(
        self,
        console: Console,
        is_ending: Callable[[], bool] = lambda: False,
        *,
        is_verbose: bool = False,
    ) -> None:
        super().__init__(console)
        self._is_ending, self._is_verbose = is_ending, is_verbose

    @contextmanager
    def follow(self, folder: Path) -> Iterator[AuditDisplay]:
        """Show the progress; publish what was found even if the audit is broken off."""
        try:
            with AuditDisplay(
                self._console,
                SystemClock(),
                is_ending=self._is_ending,
                has_asides=self._is_verbose,
            ) as display:
                yield display
        except BaseException as error:
            file = folder / CARD_RECORD
            if file.exists():
                end_reason = "interrupted" if isinstance(error, KeyboardInterrupt) else "broken off"
                head = f"{end_reason}: what was found until then"
                self._console.print(Text(head, style="bold yellow"), soft_wrap=True)
                self.publish_card(Card.from_json(file.read_bytes()), folder)
            raise

    def publish_card(self, card: Card, folder: Path) -> None:
        """Print the card; `folder`: that of its audit."""
        del folder
        parts = list_parts(card) if self._is_verbose else list_brief_parts(card)
        print_parts(parts, self._console)
