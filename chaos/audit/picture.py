"""The card as pictures to share: a summary of 1200 x 630 for posts and pull requests, and a badge.

Both are SVG without scripts, fonts or links, so that a README and a chat can show them.
"""

from dataclasses import dataclass
from textwrap import shorten, wrap

from jinja2 import Environment, PackageLoader, StrictUndefined

from chaos.audit.answer import Word, coverage_share
from chaos.audit.card import Card
from chaos.audit.page import kind_cells, title
from chaos.audit.table import KindRow, kind_rows

FINDINGS_SHOWN = 3
LINES_OF_ANSWER, COLUMNS_OF_ANSWER, COLUMNS_OF_FINDING = 2, 78, 104
_LETTER, _PAD = 6.6, 12  # of the badge: pixels of a letter at 11 px, and around a text
_INK: dict[Word, str] = {"pass": "#0f6638", "fail": "#a3201b", "inconclusive": "#734d00"}
_GREY, _PLAIN = "#9aa2ad", "#16191d"
_RIGHT, _WRONG, _OPEN = "#0f6638", "#a3201b", "#734d00"

_env = Environment(
    loader=PackageLoader("chaos.audit"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@dataclass(frozen=True)
class Line:
    """One kind of fault: its name and its cells, each with a colour."""

    name: str
    ink: str
    cells: tuple[tuple[str, str], ...]


def badge_svg(card: Card) -> str:
    """Return the badge: the answer, the resumes that were right, and the coverage."""
    text = f"{card.word} · resumes {card.resumed_right}/{card.resumed}"
    text += f" · coverage {coverage_share(card):.0%}"
    left, right = (_PAD + _LETTER * len(words) for words in ("chaos", text))
    return _env.get_template("badge.svg.j2").render(
        text=text, left=round(left), right=round(right), ink=_INK[card.word]
    )


def summary_svg(card: Card) -> str:
    """Return the summary: the answer, faults by kind with those not tried, and the causes."""
    answer = card.sentence.partition(": ")[2]
    lines = wrap(answer, COLUMNS_OF_ANSWER, max_lines=LINES_OF_ANSWER, placeholder=" …")
    found = [
        shorten(f"{title(finding)}: {finding.smallest.headline}", COLUMNS_OF_FINDING)
        for finding in card.findings[:FINDINGS_SHOWN]
    ]
    more = len(card.findings) - len(found)
    tried, places = card.places
    return _env.get_template("summary.svg.j2").render(
        card=card,
        script=shorten(card.job.script.rsplit("/", maxsplit=1)[-1], 46),
        word=card.word,
        ink=_INK[card.word],
        answer=[line[:1].upper() + line[1:] if n == 0 else line for n, line in enumerate(lines)],
        kinds=_lines(card),
        found=[*found, *([f"and {more} more"] if more > 0 else [])],
        covered=f"{tried} of {places} places, {coverage_share(card):.0%}",
        share=coverage_share(card),
        ray=card.versions.get("ray", ""),
    )


def _lines(card: Card) -> list[Line]:
    rows = zip(kind_rows(card), kind_cells(card), strict=True)
    return [_line(row, texts) for row, texts in rows]


def _line(row: KindRow, texts: list[str]) -> Line:
    name, *cells = texts
    if not row.tally.total:
        return Line(name, _GREY, tuple((text, _GREY) for text in cells if text))
    counts = (row.tally.right, row.tally.wrong, row.tally.inconclusive, row.tally.from_scratch)
    inks = (_RIGHT, _WRONG, _OPEN, _PLAIN)
    shown = (ink if count else _GREY for count, ink in zip(counts, inks, strict=True))
    return Line(name, _PLAIN, tuple(zip(cells, (_PLAIN, *shown), strict=True)))
