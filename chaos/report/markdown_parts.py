"""The parts of a result in Markdown: for a pull request, an issue, the summary of a CI step."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from chaos.report.parts import (
    SIGNS,
    CellContent,
    Commands,
    Figures,
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
from chaos.report.screen import escape_controls, join_lines
from chaos.report.sections import list_code_lines
from chaos.wording import format_sentence

LIMIT_BYTES = 1_000_000  # GitHub refuses a step summary of more than 1 MiB
_ACTIVE = re.compile(r"([\\`*_\[\]<>|~])|^(:)(?=:)")  # the last one: a command to GitHub


def render_markdown_parts(parts: Iterable[ReportPart]) -> str:
    """Return the parts as Markdown, a blank line between them; at most what GitHub takes."""
    return fit_text("\n\n".join(_render_parts(parts, level=2)) + "\n")


def _render_parts(parts: Iterable[ReportPart], *, level: int) -> Iterator[str]:
    """Yield the blocks of the parts; titles in them are of this level."""
    for part in (part for part in parts if "markdown" in part.media):
        match part:
            case FindingPart():
                yield f"{'#' * level} {escape_markdown(part.title)}"
                yield escape_markdown(part.sentence)
                yield from _render_parts(part.parts, level=level + 1)
            case Section():
                title = part.heading or part.title
                yield from [f"{'#' * level} {escape_markdown(title)}"] if title else []
                yield from _render_parts(part.parts, level=level + bool(title))
            case _:
                yield from _render_leaf(part)


def _render_leaf(part: ReportPart) -> Iterator[str]:
    """Yield the blocks of a part that holds no others."""
    match part:
        case Headline():
            words = ": ".join(filter(None, (part.subject, part.text)))
            yield f"# {part.sign.emoji} {escape_markdown(words)}"
            texts = (part.reason, *part.notes)
            yield from (_format_prose(text) for text in texts if text)
        case Paragraph():
            yield _format_prose(part.text)
        case LabelledLines():
            yield from _join_bullets(part.select("markdown"))
        case ResultTable():
            rows = [[_format_cell(cell) for cell in row] for row in part.rows]
            yield "\n".join(build_table_lines(part.columns, rows, numbers=part.numbers))
        case Figures():
            names, values = zip(*(figure[:2] for figure in part.values), strict=True)
            yield "\n".join(build_table_lines(names, [[*map(escape_markdown, values)]]))
        case Commands():
            yield from _render_commands(part)
        case SourceLines(lines):
            yield from _join_bullets([*list_code_lines(lines)])
        case _:  # a page alone has it
            pass


def _format_prose(text: str) -> str:
    """Return a sentence; words between two backticks stay code."""
    spans = join_lines(format_sentence(text)).split("`")
    if len(spans) % 2 == 0:  # a backtick without a second one
        return escape_markdown(format_sentence(text))
    return "".join(
        f"`{span}`" if number % 2 else _escape_active(span) for number, span in enumerate(spans)
    )


def _join_bullets(lines: Sequence[ReportLine]) -> Iterator[str]:
    yield from ["\n".join(map(format_bullet, lines))] if lines else []


def _format_cell(content: CellContent) -> str:
    signed_texts = (
        f"{SIGNS[cell.tone].emoji} {escape_markdown(cell.text)}"
        if cell.tone and cell.has_sign
        else escape_markdown(cell.text)
        for cell in split_cell(content)
    )
    return "".join(signed_texts)


def _render_commands(part: Commands) -> Iterator[str]:
    """Yield the commands as a list, or each of several lines as a block."""
    if part.is_long:
        yield from (f"```\n{escape_controls(command)}\n```" for _, command in part.commands)
    elif part.commands:
        yield "\n".join(
            f"- {escape_markdown(label)}: {format_code(text)}" for label, text in part.commands
        )


def format_bullet(line: ReportLine) -> str:
    """Return a line as an item of a list."""
    label = f"**{escape_markdown(line.label)}**: " if line.label else ""
    return f"- {label}{escape_markdown(line.text)}" + (f" ({line.events})" if line.events else "")


def build_table_lines(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Collection[int] = ()
) -> list[str]:
    """Return the lines of a table; the columns of numbers are aligned right."""
    rule = ["---:" if column in numbers else "---" for column in range(len(headings))]
    return ["| " + " | ".join(cells) + " |" for cells in (headings, rule, *rows)]


def escape_markdown(text: str) -> str:
    """Return a text that Markdown shows as it is, on one line."""
    return _escape_active(join_lines(text))


def _escape_active(text: str) -> str:
    return _ACTIVE.sub(r"\\\1\2", text)


def format_code(text: str) -> str:
    """Return a command or a path as Markdown shows it in one line of code."""
    words = join_lines(text)
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", words)), default=0))
    return f"{ticks}{words}{ticks}" if ticks == "`" else f"{ticks} {words} {ticks}"


def fit_text(text: str, *, limit: int = LIMIT_BYTES) -> str:
    """Return a text of at most `limit` bytes, cut at a line, with a note if it was cut."""
    if len(text.encode()) <= limit:
        return text
    tail = "\n\n(cut here: the rest is in the report)\n"
    cut_text = text.encode()[: limit - len(tail.encode())].decode(errors="ignore")
    return cut_text.rpartition("\n")[0] + tail
