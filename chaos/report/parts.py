"""The parts of a result: a report says which parts it has, and the renderers how they look.

A verdict, an audit, a guard's report, a search, a comparison and a preflight are each a function
from a result to parts. `terminal_parts`, `markdown_parts` and `html` render any of them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, TypeAlias

from chaos.model.verdict import JobLine
from chaos.report.outcome import Tone

if TYPE_CHECKING:
    from chaos.report.chart import Chart

Medium: TypeAlias = Literal["terminal", "markdown", "page"]
EVERYWHERE: tuple[Medium, ...] = ("terminal", "markdown", "page")


class Sign(NamedTuple):
    """The look of a tone: its mark in text, its style in a terminal, its sign in Markdown."""

    mark: str
    style: str
    emoji: str


SIGNS: Mapping[Tone, Sign] = {
    "good": Sign("✓", "green", "✅"),
    "bad": Sign("✗", "bold red", "❌"),
    "open": Sign("?", "yellow", "❔"),
    "calm": Sign("✗", "dim", "☑️"),
}


@dataclass(frozen=True)
class ReportLine:
    """One thing to report, with its label: a check, a part of the state, or a word."""

    tone: Tone
    label: str
    text: str
    #: The events that show it, in words; may be empty.
    events: str = ""
    #: What a page adds to it, in smaller type.
    aside: str = ""
    media: Collection[Medium] = EVERYWHERE


@dataclass(frozen=True)
class ReportPart:
    """A piece of a result, the same in every report."""

    #: The name by which a page's template chooses.
    kind: ClassVar[str]
    #: Where it is shown.
    media: Collection[Medium] = field(default=EVERYWHERE, kw_only=True)


@dataclass(frozen=True)
class Headline(ReportPart):
    """The answer, which stands first."""

    kind = "headline"
    tone: Tone
    text: str
    #: What the answer is about; on a page this is its title.
    subject: str = ""
    #: The reason for the answer, behind it or below it.
    reason: str = ""
    notes: Sequence[str] = ()
    #: Notes of a page, which has room for them.
    page_notes: Sequence[str] = ()
    #: The sign, where it is not the tone's.
    special_sign: Sign | None = None
    #: A share from 0 to 1, and its words, which a page shows as a bar.
    meter: tuple[float, str] | None = None

    @property
    def sign(self) -> Sign:
        return self.special_sign or SIGNS[self.tone]


@dataclass(frozen=True)
class Paragraph(ReportPart):
    """A sentence or more; a page and Markdown begin it with a capital and end it with a stop."""

    kind = "paragraph"
    text: str
    style: Literal["plain", "strong", "quiet"] = "plain"
    #: The look of all of it in a terminal.
    tone: Tone | None = None


@dataclass(frozen=True)
class LabelledLines(ReportPart):
    """Findings, notes and figures, each in a line with a label."""

    kind = "lines"
    lines: Sequence[ReportLine]

    def select(self, medium: Medium) -> list[ReportLine]:
        """Return the lines that a medium has."""
        return [line for line in self.lines if medium in line.media]


@dataclass(frozen=True)
class Cell:
    """A cell of a table that is more than its text."""

    text: str
    tone: Tone | None = None
    #: Whether the sign of its tone stands before it.
    has_sign: bool = False
    is_code: bool = False
    #: What a page adds to it, in smaller type.
    aside: str = ""
    link: str = ""


#: Text, a cell, or cells that stand side by side as one.
CellContent: TypeAlias = str | Cell | Sequence[Cell]


@dataclass(frozen=True)
class ResultTable(ReportPart):
    """A table; the first cell of a row is its name."""

    kind = "table"
    columns: Sequence[str]
    rows: Sequence[Sequence[CellContent]]
    #: The columns of numbers, aligned right.
    numbers: Collection[int] = ()
    #: The columns whose text a narrow terminal breaks.
    breakable: Collection[int] = (0,)


@dataclass(frozen=True)
class Figures(ReportPart):
    """The figures of a result at a glance: a name, a value and, on a page, its range."""

    kind = "figures"
    values: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Commands(ReportPart):
    """Paths, and commands to copy, each with its label: no renderer breaks them."""

    kind = "commands"
    commands: Sequence[tuple[str, str]]
    #: Whether they have several lines each, which Markdown keeps; a name of others has one.
    is_long: bool = False
    #: Where they lead on a page, by label.
    links: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SourceLines(ReportPart):
    """Lines of the job's code; a page shows them with their neighbours."""

    kind = "code"
    lines: Sequence[JobLine]


@dataclass(frozen=True)
class ChartPart(ReportPart):
    """A drawing, which only a page has."""

    kind = "chart"
    chart: "Chart"


@dataclass(frozen=True)
class FindingPart(ReportPart):
    """A thing that is wrong: its title, its sentence, and what shows it."""

    kind = "finding"
    title: str
    sentence: str
    parts: Sequence[ReportPart] = ()


@dataclass(frozen=True)
class Section(ReportPart):
    """Parts that belong together, with a title or without."""

    kind = "section"
    parts: Sequence[ReportPart]
    title: str = ""
    #: The title of a page and in Markdown, where each section has one.
    heading: str = ""
    #: Its id on a page.
    name: str = ""
    #: What a page shows in place of it until it is opened.
    summary: str = ""


def limit_media(*media: Medium, parts: Iterable[ReportPart]) -> Section:
    """Return parts that only these media have."""
    return Section([*parts], media=media)


def list_charts(parts: Iterable[ReportPart]) -> "Iterator[Chart]":
    """Yield the drawings of a page."""
    for part in parts:
        if isinstance(part, ChartPart):
            yield part.chart
        elif isinstance(part, FindingPart | Section) and "page" in part.media:
            yield from list_charts(part.parts)


def split_cell(content: CellContent) -> Sequence[Cell]:
    """Return the cells that stand side by side in one cell of a table."""
    if isinstance(content, Cell):
        return (content,)
    return (Cell(content),) if isinstance(content, str) else content
