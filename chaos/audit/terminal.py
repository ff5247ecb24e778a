"""The card in a terminal, 80 columns wide."""

from collections.abc import Iterator, Sequence

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from chaos.audit.card import Card
from chaos.audit.finding import Finding
from chaos.audit.page import omitted_in_all, tone
from chaos.audit.table import Cell, Fate, cells, columns, group_rows, part_rows
from chaos.check.result import plural

UNKNOWN_SHOWN = 3
_MARKS: dict[Fate, tuple[str, str]] = {
    "survived": ("✓", "green"),
    "some lost": ("✗", "red"),
    "all lost": ("✗", "bold red"),
    "cannot be told": ("?", "yellow"),
}
_TONES = {"good": ("✓", "green"), "bad": ("✗", "bold red"), "open": ("?", "yellow")}


def show_card(card: Card) -> RenderableType:
    """Give the card: verdict, heat map, findings, what it rests on, where it lies."""
    mark, style = _TONES.get(tone(card), ("?", "yellow"))
    lines: list[RenderableType] = [
        Text.assemble((f"{mark} {_script(card)} {card.sentence}", style)),
        Text(""),
        heat_table(card),
        Text(""),
    ]
    lines += [_finding(finding, card) for finding in card.findings]
    return Lines(*lines, _labelled([*_tail(card)]))


def heat_table(card: Card) -> Table:
    """Give one line per group: a mark per epoch, counts, and the steps that were lost."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("struck", no_wrap=True)
    table.add_column(f"epoch {_span(columns(card))}", no_wrap=True)
    table.add_column("survived", justify="right", no_wrap=True)
    table.add_column("lost: worst", justify="right", no_wrap=True)
    table.add_column("mean", justify="right", no_wrap=True)
    found = {(cell.group, cell.column): cell for cell in cells(card)}
    for row in group_rows(card):
        if row.struck == 0:
            continue
        marks = [_mark(found.get((row.group, n))) for n in range(len(columns(card)))]
        style = "red" if row.broken else ("yellow" if row.unknown else "")
        table.add_row(
            Text(row.group),
            Text.assemble(*marks),
            Text(f"{row.survived} of {row.struck}", style=style),
            Text("-" if row.lost_max is None else str(row.lost_max)),
            Text("-" if row.lost_mean is None else f"{row.lost_mean:.1f}"),
        )
    return table


def _mark(cell: Cell | None) -> tuple[str, str]:
    return ("·", "dim") if cell is None else _MARKS[cell.fate]


def _span(labels: tuple[str, ...]) -> str:
    first, last = labels[0].split("-")[0], labels[-1].split("-")[-1]
    return first if first == last else f"{first}-{last}"


def _script(card: Card) -> str:
    return card.job.script.rsplit("/", maxsplit=1)[-1]


def _finding(finding: Finding, card: Card) -> Panel:
    groups = ", ".join(f"{group} ({count})" for group, count in finding.groups.items())
    rows = [
        ("where", "dim", groups),
        ("repro", "dim", f"chaos run {card.folder}/{finding.repro}"),
        ("report", "dim", f"{card.folder}/{finding.report}"),
    ]
    if finding.confirmation is not None:
        seen = f"{finding.confirmation}: {finding.confirmation.headline}"
        rows.append(("on Ray", "dim", seen))
    lines = Lines(Text(finding.smallest.headline, style="bold"), Text(""), _labelled(rows))
    head = (finding.defect.check, "bold red")
    title = Text.assemble(head, f" at {plural(finding.count, 'place')}")
    return Panel(lines, title=title, title_align="left", border_style="red", padding=(0, 1))


def _labelled(rows: Sequence[tuple[str, str, str]]) -> Table:
    """Lay texts beside their labels; a long path is broken, never cut."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, style, text in rows:
        grid.add_row(Text(label, style=style), Text(text))
    return grid


def _state(card: Card) -> str:
    """Say which parts of the state came back at every resume, and which did not."""
    rows = part_rows(card)
    lost = [
        f"{row.component} {row.standing} ({row.lost} of {row.resumes})" for row in rows if row.lost
    ]
    back = [row.component for row in rows if row.restored and not row.lost and not row.idle]
    parts = [*lost, *([f"restored: {', '.join(back)}"] if back else [])]
    return "; ".join(parts)


def _tail(card: Card) -> Iterator[tuple[str, str, str]]:
    for run in card.unknown[:UNKNOWN_SHOWN]:
        yield "unknown", "yellow", f"{run.group}, {run.name}: {run.headline}"
    more = len(card.unknown) - UNKNOWN_SHOWN
    if more > 0:
        yield "", "yellow", f"and {more} more, on the card"
    if text := _state(card):
        yield "state", "dim", text
    yield "job", "dim", card.size
    landed, planned = card.landed
    yield "rests on", "dim", f"{landed} of {planned} faults landed; {card.repetition}"
    for note in card.notes:
        yield note.kind, "yellow", note.text
    if omitted := omitted_in_all(card):
        yield "left out", "dim", omitted
    if missing := [row.group for row in group_rows(card) if row.places == 0]:
        yield "not there", "dim", f"{', '.join(missing)}: see the card"
    yield "again", "dim", card.command
    yield "card", "dim", f"{card.folder}/card.html"
    yield "badge", "dim", card.badge
