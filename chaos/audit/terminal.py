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
from chaos.audit.page import KIND_HEAD, kind_cells
from chaos.audit.run_row import Defect, RunRow
from chaos.audit.sections import CauseSection, causes, remarks, since
from chaos.audit.table import Fate, cells, group_rows, kind_rows
from chaos.check.grade import ACCEPTED
from chaos.report.live import MovingLine
from chaos.report.outcome import Tone
from chaos.report.screen import bare_table, labelled, numbers
from chaos.report.sections import Line, code_of
from chaos.report.terminal import once
from chaos.run.clock import Clock, seconds_since

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
LATER = 1.1  # as much later than the end known so far an audit may end without a reason being shown
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
    yield from _commands([*once(since(card), _INKS)])
    yield Text("")
    if card.runs:
        yield from (kind_table(card), Text(""), heat_table(card), Text(_LEGEND, style="dim"))
        yield Text("")
    for cause in causes(card):
        yield from _cause(cause, card, framed=framed)
    tail = [*once((line for line in remarks(card) if not _was_shown(line)), _INKS)]
    yield from [labelled(tail)] if framed else _commands(tail)
    yield from _commands(
        [
            ("again", "dim", card.command),
            ("card", "dim", f"{card.folder}/card.html"),
            ("badge", "dim", card.badge),
        ]
    )


def _was_shown(line: Line) -> bool:
    """Return whether a remark is a note, which was shown before the first fault."""
    return line.label in ("note", "warning") and ACCEPTED not in line.text


def kind_table(card: Card) -> Table:
    """Return one line per kind of fault, in grey if it was not tried."""
    table = bare_table(gap=1)
    for number, name in enumerate(KIND_HEAD):
        table.add_column(name, justify="right" if number > 1 else "left", no_wrap=True)
    for row, texts in zip(kind_rows(card), kind_cells(card), strict=True):
        style = "red" if row.tally.wrong else ("" if row.tally.total else "dim")
        table.add_row(*(Text(text, style=style) for text in texts))
    return table


def heat_table(card: Card) -> Table:
    """Return one line per group: a mark per epoch, counts, and recomputed steps."""
    table = bare_table(
        Column("place", no_wrap=True),
        Column(f"epoch {_span(card.columns)}", no_wrap=True),
        *numbers("tried", "resumes", "recomputed"),
    )
    found = {(cell.group, cell.column): _MARKS[cell.tally.fate] for cell in cells(card)}
    for row in group_rows(card):
        if row.places == 0:
            continue
        marks = [found.get((row.group, n), (" ", "")) for n in range(len(card.columns))]
        style = "red" if row.tally.wrong else ("yellow" if row.tally.inconclusive else "")
        lost = "-" if row.lost_mean is None else f"{row.lost_mean:.0f}, max {row.lost_max}"
        table.add_row(
            Text(row.group, style="" if row.tried else "dim"),
            Text.assemble(*marks),
            Text(f"{row.tried} of {row.places}", style="" if row.tried else "dim"),
            Text(f"{row.resumed_right} of {row.resumed}" if row.resumed else "-", style=style),
            Text(lost),
        )
    return table


def _span(labels: tuple[str, ...]) -> str:
    first, last = labels[0].split("-")[0], labels[-1].split("-")[-1]
    return first if first == last else f"{first}-{last}"


def _cause(cause: CauseSection, card: Card, *, framed: bool) -> Iterator[RenderableType]:
    finding, rows, style = cause.finding, list[_Row](), "bold red"
    ways = [(cause.label, "dim", cause.remedy)]
    if finding is not None:
        groups = ", ".join(f"{group} ({count})" for group, count in finding.groups.items())
        rows.append(("where", "dim", groups))
        rows += [(line.label, "dim", line.text) for line in code_of(finding.lines)]
        ways.append(("report", "dim", f"{card.folder}/{finding.report}"))
        if finding.elsewhere:
            rows.append(("on Ray", "dim", finding.elsewhere))
    head, says = Text(cause.title, style=style), Text(cause.sentence, style="bold")
    if framed:
        below: list[RenderableType] = [Text(""), labelled(rows)] if rows else []
        yield Panel(
            Lines(says, *below),
            title=head,
            title_align="left",
            border_style=style,
            padding=(0, 1),
        )
    else:
        yield from (head, says, *_commands(rows))
    yield from _commands(ways)
    yield Text("")


def _commands(rows: Sequence[_Row]) -> Iterator[Text]:
    """Yield commands and paths beside their labels, each in one line of any length."""
    for label, style, text in rows:
        line = Text.assemble((f"{label:<10} ", style), text)
        line.no_wrap, line.overflow = True, "ignore"
        yield line


class AuditDisplay(MovingLine):
    """The progress of an audit in a terminal; `show` is called once for each change."""

    def __init__(
        self, console: Console, clock: Clock, *, is_ending: Callable[[], bool] = lambda: False
    ) -> None:
        """`is_ending`: whether it was interrupted, and ends the runs under way."""
        super().__init__(console, ticks=True)
        self._clock, self._is_ending = clock, is_ending
        self._news = AuditProgress("", 0, None)
        self._came_ns = clock.now_ns()
        #: why the time that is left has become more; empty if it has not
        self._more = ""
        self._end_s: float | None = None  # as last shown, since the audit began
        self._found: set[Defect] = set()

    def show(self, progress: AuditProgress) -> None:
        self._more = self._why_more(progress)
        self._news, self._came_ns = progress, self._clock.now_ns()
        row = progress.last
        if row is not None and row.is_wrong and self._found.isdisjoint(row.defects):
            self._found.update(row.defects)
            self.write(Text.assemble(("found", "bold red"), f": {row.headline}"))
        self.say(self, stage=progress.stage, share=progress.share)

    def __rich__(self) -> Text:
        """Return the line as it is now: seconds pass without any news."""
        if self._is_ending():
            return Text("interrupted: the runs under way are ended")
        return line(self._news, since_s=seconds_since(self._came_ns, self._clock), more=self._more)

    def _why_more(self, progress: AuditProgress) -> str:
        """Return the reason why an audit ends later than was shown; empty if it does not."""
        if progress.left_s is None:
            return ""
        before, self._end_s = self._end_s, progress.spent_s + progress.left_s
        if before is None or self._end_s <= before * LATER:
            return ""
        is_larger = (progress.total or 0) > (self._news.total or 0)
        return "more places are due" if is_larger else "runs take longer than before"

    def tell(self, notes: Sequence[Note]) -> None:
        """Print the results of the runs without a fault, before any other run begins."""
        for note in notes:
            self.write(note_line(note))


def line(progress: AuditProgress, *, since_s: float = 0.0, more: str = "") -> Text:
    """Return an audit's progress in one line, so many seconds after the last news.

    `more`: the reason why more time is left than was shown before.
    """
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(progress.stage, style="bold")
    spent_s = progress.spent_s + since_s
    if progress.doing:
        of = "" if progress.total is None else f" {progress.done + 1} of {progress.total}"
        return text.append(f"{of}: {progress.doing}, {spent_s:.0f} s")
    places = progress.done if progress.total is None else f"{progress.done}/{progress.total}"
    text.append(f"  {places} places")
    if progress.wrong:
        text.append(f"  {progress.wrong} failed")
    within = "" if progress.limit_s is None else f" of {progress.limit_s:.0f}"
    text.append(f"  {spent_s:.0f}{within} s")
    if progress.left_s is not None and progress.limit_s is None and progress.share < 1:
        left = f", {max(0.0, progress.left_s - since_s):.0f} s left"
        text.append(f"{left} ({more})" if more else left)
    if progress.last is not None:
        text.append("  ").append_text(_last(progress.last))
    return text


def note_line(note: Note) -> Text:
    """Return a note as a line that stays."""
    return Text.assemble(
        (f"{note.kind}: ", "yellow" if note.kind == "warning" else "dim"), note.text
    )


def _last(run: RunRow) -> Text:
    mark, style = _LAMPS[run.status]
    if run.is_anew:
        mark, style = "o", "dim"  # which tests no resume
    return Text.assemble((mark, style), f" {run.group}: {run.name}")
