"""The parts of a result in a terminal, or as plain lines where there is none."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Column, Table
from rich.text import Text

from chaos.report.parts import (
    SIGNS,
    CellContent,
    Commands,
    FindingPart,
    Headline,
    LabelledLines,
    Paragraph,
    ReportLine,
    ReportPart,
    ResultTable,
    Section,
    SourceLines,
    split_cell,
)
from chaos.report.screen import (
    LABEL_WIDTH,
    build_bare_table,
    build_labelled_table,
    render_plain,
)
from chaos.report.sections import list_code_lines

_STYLES = {"plain": "", "strong": "bold", "quiet": "dim"}


def print_parts(parts: Iterable[ReportPart], console: Console) -> None:
    """Print the parts with a blank line between them; a command or a path is never broken.

    Findings have a frame in a terminal.
    """
    for renderable in render_parts(parts, is_framed=console.is_terminal):
        is_unbroken = isinstance(renderable, Text) and bool(renderable.no_wrap)
        console.print(renderable, soft_wrap=is_unbroken)


def render_plain_parts(parts: Sequence[ReportPart]) -> str:
    """Return the parts as plain text, without colours and line breaks."""
    return render_plain(lambda console: print_parts(parts, console))


def render_parts(
    parts: Iterable[ReportPart], *, is_framed: bool = False, is_dense: bool = False
) -> Iterator[RenderableType]:
    """Yield what a terminal shows of the parts, a blank line between any two.

    Dense ones have it only between two tables, and before a finding.
    """
    previous_part = None
    for part in parts:
        renderables = [*_render_part(part, is_framed=is_framed)] if "terminal" in part.media else []
        if not renderables:
            continue
        is_apart = isinstance(part, FindingPart) or (
            isinstance(part, ResultTable) and isinstance(previous_part, ResultTable)
        )
        if previous_part is not None and (is_apart or not is_dense):
            yield Text("")
        yield from renderables
        previous_part = part


def _render_part(part: ReportPart, *, is_framed: bool) -> Iterator[RenderableType]:
    match part:
        case FindingPart():
            yield from _render_finding(part, is_framed=is_framed)
        case Section():
            yield from [Text(part.title, style="bold")] if part.title else []
            yield from render_parts(part.parts, is_framed=is_framed, is_dense=True)
        case _:
            yield from _render_leaf(part)


def _render_leaf(part: ReportPart) -> Iterator[RenderableType]:
    """Yield a part that holds no others."""
    match part:
        case Headline():
            words = ": ".join(filter(None, (part.subject, part.text, part.reason)))
            yield Text(f"{part.sign.mark} {words}", style=part.sign.style)
            yield from map(Text, part.notes)
        case Paragraph():
            style = SIGNS[part.tone].style if part.tone else _STYLES[part.style]
            yield Text(part.text, style=style)
        case LabelledLines() | SourceLines():
            lines = _list_lines(part)
            yield from [_build_line_table(lines)] if lines else []
        case ResultTable():
            yield _build_table(part)
        case Commands():
            yield from _render_commands(part)
        case _:  # a page alone has it
            pass


def _build_line_table(lines: Sequence[ReportLine]) -> Table:
    """Return lines beside their labels; of equal labels only the first is shown."""
    previous_labels = ["", *(line.label for line in lines)]
    return build_labelled_table(
        (
            "" if line.label == previous_label else line.label,
            SIGNS[line.tone].style,
            f"{line.text}  [{line.events}]" if line.events else line.text,
        )
        for line, previous_label in zip(lines, previous_labels, strict=False)
    )


def _build_table(part: ResultTable) -> Table:
    table = build_bare_table(
        *(
            Column(
                name,
                justify="right" if number in part.numbers else "left",
                no_wrap=number not in part.breakable,
                overflow="fold",
            )
            for number, name in enumerate(part.columns)
        )
    )
    for row in part.rows:
        table.add_row(*map(render_cell, row))
    return table


def render_cell(content: CellContent) -> Text:
    """Return a cell of a table in its colours."""
    text = Text()
    for cell in split_cell(content):
        sign = SIGNS[cell.tone] if cell.tone else None
        mark = f"{sign.mark} " if sign and cell.has_sign else ""
        text.append(f"{mark}{cell.text}", style=sign.style if sign else "")
    return text


def _render_commands(part: Commands) -> Iterator[Text]:
    for label, command in part.commands:
        line = Text.assemble((f"{label:<{LABEL_WIDTH}}  " if label else "", "dim"), command)
        line.no_wrap, line.overflow = True, "ignore"
        yield line


def _render_finding(part: FindingPart, *, is_framed: bool) -> Iterator[RenderableType]:
    """Yield a finding; its commands stand below its frame, which would break them."""
    style = SIGNS["bad"].style
    title, sentence = Text(part.title, style=style), Text(part.sentence, style="bold")
    rows = [
        (line.label, SIGNS[line.tone].style, line.text)
        for inner in part.parts
        for line in _list_lines(inner)
    ]
    table = build_labelled_table(rows, label_width=0 if is_framed else LABEL_WIDTH)
    if is_framed:
        frame = Group(sentence, Text(""), table) if rows else sentence
        yield Panel(frame, title=title, title_align="left", border_style=style, padding=(0, 1))
    else:
        yield from (title, sentence)
        yield from [table] if rows else []
    for inner in part.parts:
        if isinstance(inner, Commands):
            yield from _render_commands(inner)


def _list_lines(part: ReportPart) -> Sequence[ReportLine]:
    if isinstance(part, SourceLines):
        return [*list_code_lines(part.lines)]
    return part.select("terminal") if isinstance(part, LabelledLines) else ()
