"""The card as a page, as pictures to share, and as a paragraph.

The page is one file, which loads nothing. The pictures are SVG without scripts, fonts or links,
so that a README and a chat can show them: a summary of 1200 x 630 for posts and pull requests,
and a badge. The paragraph is for a pull request.
"""

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import shorten, wrap

from chaos.audit.answer import coverage_share, describe_confidence
from chaos.audit.card import Card
from chaos.audit.parts import KIND_TONES, build_kind_cells, choose_tone, list_parts
from chaos.audit.sections import (
    ON_THE_CARD,
    find_untried_kinds,
    list_causes,
    summarize_changes,
)
from chaos.report.ci import SHOWN, AnnotatedLine, find_code_line, format_command
from chaos.report.html import build_environment, render_page
from chaos.report.markdown_parts import escape_markdown, fit_text, format_code
from chaos.report.outcome import Tone
from chaos.report.parts import SIGNS
from chaos.wording import capitalize_first, describe_omitted, format_sentence

FINDINGS_SHOWN = 3
LINES_OF_ANSWER, COLUMNS_OF_ANSWER, COLUMNS_OF_FINDING = 2, 78, 104
# Of the summary: the first row of faults, a row, the gap below them, a line of a finding, and the
# lowest of these.
FIRST_ROW, ROW, GAP, FOUND_LINE, LOWEST = 300, 34, 44, 26, 584
_LETTER, _PAD = 6.6, 12  # of the badge: pixels of a letter at 11 px, and around a text
_GREY, _PLAIN = "#9aa2ad", "#16191d"
_INKS: dict[Tone, str] = {
    "good": "#0f6638",
    "bad": "#a3201b",
    "open": "#734d00",
    "calm": _PLAIN,
}

_env = build_environment("chaos.audit")


@dataclass(frozen=True)
class FaultRow:
    """One kind of fault: its name and its cells, each with a colour."""

    name: str
    ink: str
    cells: tuple[tuple[str, str], ...]


def render_card(card: Card) -> str:
    """Return the page of an audit: the verdict first, then its evidence."""
    # Altair takes half a second to import, for which `--help` need not wait.
    from chaos.audit.heat_map import draw_heatmap  # noqa: PLC0415

    versions = "".join(f" · {name} {version}" for name, version in card.versions.items())
    return render_page(
        [*list_parts(card, draw_heatmap(card))],
        kind="resilience card of a training job",
        heading=posixpath.basename(card.job.script),
        title=f"{card.sentence}: {card.job.script}",
        footer=f"Made by chaos {card.version} from `{card.folder}`{versions}.",
    )


def badge_svg(card: Card) -> str:
    """Return the badge: the answer, the resumes that were right, and the coverage."""
    text = f"{card.word} · resumes {card.resumed_right}/{card.resumed}"
    text += f" · coverage {coverage_share(card):.0%}"
    left, right = (_PAD + _LETTER * len(words) for words in ("chaos", text))
    return _env.get_template("badge.svg.j2").render(
        text=text, left=round(left), right=round(right), ink=_INKS[choose_tone(card)]
    )


def summary_svg(card: Card) -> str:
    """Return the summary: the answer, faults by kind with those not tried, and the causes."""
    answer = capitalize_first(card.evidence)
    lines = wrap(answer, COLUMNS_OF_ANSWER, max_lines=LINES_OF_ANSWER, placeholder=" …")
    cause_lines = [
        shorten(f"{cause.title}: {cause.brief}", COLUMNS_OF_FINDING, placeholder=" …")
        for cause in list_causes(card)
    ]
    if (extra_count := len(cause_lines) - FINDINGS_SHOWN) > 0:
        cause_lines[FINDINGS_SHOWN:] = [describe_omitted(extra_count, ON_THE_CARD)]
    tried, places = card.places
    kinds = [_build_row(name, cells) for name, *cells in build_kind_cells(card) if any(cells[1:])]
    # The rows of faults have what the findings leave of the picture, and these follow the last row.
    rows = max(len(kinds) - 1, 1)
    row_height = min(ROW, (LOWEST - GAP - FOUND_LINE * (len(cause_lines) - 1) - FIRST_ROW) // rows)
    return _env.get_template("summary.svg.j2").render(
        card=card,
        script=shorten(card.job.script.rsplit("/", maxsplit=1)[-1], 46),
        word=card.word,
        ink=_INKS[choose_tone(card)],
        answer=lines,
        kinds=kinds,
        row_height=row_height,
        found=cause_lines,
        found_from=FIRST_ROW + row_height * (len(kinds) - 1) + GAP,
        covered=f"{tried} of {places} places, {coverage_share(card):.0%}",
        share=coverage_share(card),
    )


def _build_row(name: str, cells: Sequence[str]) -> FaultRow:
    if not cells[-1]:
        return FaultRow(name, _GREY, tuple((text, _GREY) for text in cells if text))
    toned_cells = zip(cells, KIND_TONES, strict=True)
    inks = (_GREY if text == "0" else _INKS[tone] for text, tone in toned_cells)
    return FaultRow(name, _PLAIN, tuple(zip(cells, inks, strict=True)))


def render_paragraph(card: Card) -> str:
    """Return a paragraph for a pull request, and a line per cause with its command."""
    script = escape_markdown(posixpath.basename(card.job.script))
    untried_kinds, claim = find_untried_kinds(card), describe_confidence(card)
    texts = [
        (
            f"{SIGNS[choose_tone(card)].emoji} **chaos audit of {script}: "
            f"{escape_markdown(card.sentence)}.**"
        ),
        f"Coverage: {coverage_share(card):.0%} of the places, of {escape_markdown(card.size)}.",
        *([escape_markdown(format_sentence(claim))] if claim else []),
        *([escape_markdown(words)] if (words := summarize_changes(card)) else []),
        *([f"Not tested: {escape_markdown(', '.join(untried_kinds))}."] if untried_kinds else []),
    ]
    cause_lines = [
        f"- {escape_markdown(cause.title)}. {escape_markdown(cause.sentence)} "
        f"{format_code(cause.remedy)}"
        for cause in list_causes(card)
    ]
    return fit_text("\n".join([" ".join(texts), *(["", *cause_lines] if cause_lines else []), ""]))


def build_annotations(card: Card) -> list[str]:
    """Return GitHub's workflow commands: an error for each thing that is wrong, at its line."""
    script = AnnotatedLine(card.job.script, 1)
    return [
        format_command(
            "error",
            (find_code_line(cause.finding.lines) if cause.finding is not None else None) or script,
            cause.title,
            f"{cause.sentence}\n{cause.remedy}",
        )
        for cause in list(list_causes(card))[:SHOWN]
    ]
