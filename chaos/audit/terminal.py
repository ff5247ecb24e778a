"""The card and the progress of an audit, in a terminal or as plain lines."""

from collections.abc import Callable, Iterator, Sequence

from rich.console import Console, RenderableType
from rich.console import Group as Lines
from rich.panel import Panel
from rich.table import Column, Table
from rich.text import Text

from chaos.audit.budget import AuditProgress
from chaos.audit.card import Card
from chaos.audit.notes import Note
from chaos.audit.page import KIND_HEAD, build_kind_cells
from chaos.audit.run_row import DefectKey, RunRow
from chaos.audit.sections import CauseSection, describe_changes, list_causes, list_remarks
from chaos.audit.table import Fate, RunTally, build_cells, group_rows, kind_rows
from chaos.report.live import LiveLine
from chaos.report.outcome import Tone
from chaos.report.parts import ReportLine
from chaos.report.screen import build_bare_table, build_labelled_table, build_number_columns
from chaos.report.sections import list_code_lines
from chaos.report.terminal import omit_repeated_labels
from chaos.run.clock import Clock, elapsed_seconds

_MARKS: dict[Fate, tuple[str, str]] = {
    "right": ("✓", "green"),
    "some wrong": ("✗", "red"),
    "all wrong": ("✗", "bold red"),
    "inconclusive": ("?", "yellow"),
    "from scratch": ("o", "dim"),
    "not tried": ("·", "dim"),
}
_LEGEND = "✓ resumed, right   ✗ wrong   ? inconclusive   o began anew   · not tried"
_INKS: dict[Tone, str] = {"good": "green", "bad": "red", "open": "yellow", "calm": "dim"}
_LAMPS = {"pass": ("✓", "green"), "fail": ("✗", "bold red"), "inconclusive": ("?", "yellow")}
DELAY_FACTOR = (
    1.1  # as much later than the end known so far an audit may end without a reason being shown
)
_Row = tuple[str, str, str]  # a label, its style, and a text


def print_card(card: Card, console: Console) -> None:
    """Print the card: verdict, faults by kind, places, findings, evidence, folder.

    A command or a path, which users copy, is never broken. Without a terminal, findings
    have no box. The notes are left out: they were shown before the first fault.
    """
    for part in _parts(card, framed=console.is_terminal):
        console.print(part, soft_wrap=isinstance(part, Text) and bool(part.no_wrap))


def _parts(card: Card, *, framed: bool) -> Iterator[RenderableType]:
    mark, style = _LAMPS[card.word]
    script = card.job.script.rsplit("/", maxsplit=1)[-1]
    yield Text(f"{mark} {script}: {card.sentence}", style=style)
    yield from _render_commands([*omit_repeated_labels(describe_changes(card), _INKS)])
    yield Text("")
    if card.runs:
        yield from (kind_table(card), Text(""), heat_table(card), Text(_LEGEND, style="dim"))
        yield Text("")
    for cause in list_causes(card):
        yield from _render_cause(cause, card, framed=framed)
    tail = [
        *omit_repeated_labels((line for line in list_remarks(card) if not _is_note(line)), _INKS)
    ]
    yield from [build_labelled_table(tail)] if framed else _render_commands(tail)
    yield from _render_commands(
        [
            ("again", "dim", card.command),
            ("card", "dim", f"{card.folder}/card.html"),
            ("badge", "dim", card.badge),
        ]
    )


def _is_note(line: ReportLine) -> bool:
    """Return whether a remark is a note, which was shown before the first fault."""
    return line.label in ("note", "warning")


def kind_table(card: Card) -> Table:
    """Return one line per kind of fault, in grey if it was not tried."""
    table = build_bare_table(gap=1)
    for number, name in enumerate(KIND_HEAD):
        table.add_column(name, justify="right" if number > 1 else "left", no_wrap=True)
    for row, texts in zip(kind_rows(card), build_kind_cells(card), strict=True):
        style = _select_kind_style(row.tally)
        table.add_row(*(Text(text, style=style) for text in texts))
    return table


def _select_kind_style(tally: RunTally) -> str:
    if tally.wrong:
        return "red"
    return "" if tally.total else "dim"


def heat_table(card: Card) -> Table:
    """Return one line per group: a mark per epoch, counts, and recomputed steps."""
    table = build_bare_table(
        Column("place", no_wrap=True),
        Column(f"epoch {_span(card.columns)}", no_wrap=True),
        *build_number_columns("tried", "resumes", "recomputed"),
    )
    mark_by_cell = {
        (cell.group, cell.column): _MARKS[cell.tally.fate] for cell in build_cells(card)
    }
    for row in group_rows(card):
        if row.places == 0:
            continue
        marks = [mark_by_cell.get((row.group, n), (" ", "")) for n in range(len(card.columns))]
        style = _select_group_style(row.tally)
        lost = "-" if row.lost_mean is None else f"{row.lost_mean:.0f}, max {row.lost_max}"
        table.add_row(
            Text(row.group, style="" if row.tried else "dim"),
            Text.assemble(*marks),
            Text(f"{row.tried} of {row.places}", style="" if row.tried else "dim"),
            Text(f"{row.resumed_right} of {row.resumed}" if row.resumed else "-", style=style),
            Text(lost),
        )
    return table


def _select_group_style(tally: RunTally) -> str:
    if tally.wrong:
        return "red"
    return "yellow" if tally.inconclusive else ""


def _span(labels: tuple[str, ...]) -> str:
    first, last = labels[0].split("-")[0], labels[-1].split("-")[-1]
    return first if first == last else f"{first}-{last}"


def _render_cause(cause: CauseSection, card: Card, *, framed: bool) -> Iterator[RenderableType]:
    finding, rows, style = cause.finding, list[_Row](), "bold red"
    command_rows = [(cause.label, "dim", cause.remedy)]
    if finding is not None:
        groups = ", ".join(f"{group} ({count})" for group, count in finding.groups.items())
        rows.append(("where", "dim", groups))
        rows += [(line.label, "dim", line.text) for line in list_code_lines(finding.lines)]
        command_rows.append(("report", "dim", f"{card.folder}/{finding.report}"))
        if finding.elsewhere:
            rows.append(("on Ray", "dim", finding.elsewhere))
    heading, sentence = Text(cause.title, style=style), Text(cause.sentence, style="bold")
    if framed:
        details: list[RenderableType] = [Text(""), build_labelled_table(rows)] if rows else []
        yield Panel(
            Lines(sentence, *details),
            title=heading,
            title_align="left",
            border_style=style,
            padding=(0, 1),
        )
    else:
        yield from (heading, sentence, *_render_commands(rows))
    yield from _render_commands(command_rows)
    yield Text("")


def _render_commands(rows: Sequence[_Row]) -> Iterator[Text]:
    """Yield commands and paths beside their labels, each in one line of any length."""
    for label, style, text in rows:
        line = Text.assemble((f"{label:<10} ", style), text)
        line.no_wrap, line.overflow = True, "ignore"
        yield line


class AuditDisplay(LiveLine):
    """The progress of an audit in a terminal; `show` is called once for each change."""

    def __init__(
        self, console: Console, clock: Clock, *, is_ending: Callable[[], bool] = lambda: False
    ) -> None:
        """`is_ending`: whether it was interrupted, and ends the runs under way."""
        super().__init__(console, is_ticking=True)
        self._clock, self._is_ending = clock, is_ending
        self._progress = AuditProgress("", 0, None)
        self._shown_ns = clock.now_ns()
        #: why the time that is left has become more; empty if it has not
        self._delay_reason = ""
        self._end_s: float | None = None  # as last shown, since the audit began
        self._shown_defects: set[DefectKey] = set()

    def show(self, progress: AuditProgress) -> None:
        self._delay_reason = self._explain_delay(progress)
        self._progress, self._shown_ns = progress, self._clock.now_ns()
        row = progress.latest_row
        if row is not None and row.is_wrong and self._shown_defects.isdisjoint(row.defect_keys):
            self._shown_defects.update(row.defect_keys)
            self.write_line(Text.assemble(("found", "bold red"), f": {row.headline}"))
        self.show_line(self, stage=progress.stage, share=progress.share)

    def __rich__(self) -> Text:
        """Return the line as it is now: seconds pass without any news."""
        if self._is_ending():
            return Text("interrupted: the runs under way are ended")
        return render_progress(
            self._progress,
            elapsed_s=elapsed_seconds(self._shown_ns, self._clock),
            delay_reason=self._delay_reason,
        )

    def _explain_delay(self, progress: AuditProgress) -> str:
        """Return the reason why an audit ends later than was shown; empty if it does not."""
        if progress.remaining_s is None:
            return ""
        shown_end_s, self._end_s = self._end_s, progress.spent_s + progress.remaining_s
        if shown_end_s is None or self._end_s <= shown_end_s * DELAY_FACTOR:
            return ""
        is_larger = (progress.total or 0) > (self._progress.total or 0)
        return "more places are due" if is_larger else "runs take longer than before"

    def show_notes(self, notes: Sequence[Note]) -> None:
        """Print the results of the runs without a fault, before any other run begins."""
        for note in notes:
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
        return text.append(f"{position}: {progress.activity}, {spent_s:.0f} s")
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
