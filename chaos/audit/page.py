"""The card as a page, as pictures to share, and in Markdown.

The page is one file, which loads nothing. The pictures are SVG without scripts, fonts or links,
so that a README and a chat can show them: a summary of 1200 x 630 for posts and pull requests,
and a badge. The Markdown is for a pull request, an issue, the summary of a CI step.
"""

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import shorten, wrap
from urllib.parse import quote

from chaos.audit.card import Card, Word, coverage_share, describe_confidence
from chaos.audit.sections import (
    ON_THE_CARD,
    CauseSection,
    describe_changes,
    describe_equal_results,
    describe_omissions,
    find_untried_kinds,
    list_causes,
    list_remarks,
    summarize_changes,
)
from chaos.audit.site_category import SiteCategory
from chaos.audit.table import (
    GroupRow,
    KindRow,
    build_check_rows,
    collect_lost_steps,
    group_rows,
    kind_rows,
    part_rows,
    wrong_rows,
)
from chaos.check.headline import format_sentence
from chaos.report.ci import SHOWN, AnnotatedLine, find_code_line, format_command
from chaos.report.html import build_drawings, build_environment
from chaos.report.markdown_parts import (
    build_table_lines,
    escape_markdown,
    fit_text,
    format_bullet,
    format_code,
)
from chaos.report.outcome import Tone, format_figure
from chaos.report.parts import SIGNS
from chaos.report.sections import list_code_lines
from chaos.wording import capitalize_first, describe_omitted, plural

PLACES_SHOWN, PLACES_IN_MARKDOWN = 12, 6
_TONES: dict[Word, Tone] = {"pass": "good", "fail": "bad", "inconclusive": "open"}

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

# The frame, the style and the words are those of the report of a run.
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

    figure = draw_heatmap(card)
    checks = build_check_rows(card)
    failing_rows = [row for row in checks if row.broken or row.inconclusive]
    parts, kinds = part_rows(card), build_kind_cells(card)
    return _env.get_template("card.html.j2").render(
        card=card,
        tone=choose_tone(card),
        share=coverage_share(card),
        confidence=describe_confidence(card),
        equal=describe_equal_results(card),
        untried=find_untried_kinds(card),
        word=card.sentence,
        facts=list_figures(card),
        kind_head=KIND_HEAD,
        kind_tones=KIND_TONES,
        kinds=[row for row in kinds if any(row[2:])],
        placeless=[name for name, _, *counts in kinds if not any(counts)],
        heatmap=figure,
        groups=[row for row in group_rows(card) if row.tried],
        parts=parts,
        parts_amiss=[part for part in parts if part.restored < part.resumes],
        parts_right=[part for part in parts if part.restored == part.resumes],
        causes=[*list_causes(card)],
        since=[*describe_changes(card)],
        wrong=wrong_rows(card),
        reports={finding.smallest.number: finding.report for finding in card.findings},
        checks=failing_rows,
        checks_right=len(checks) - len(failing_rows),
        omissions=find_omissions(card),
        omitted=describe_omissions(card),
        shown=PLACES_SHOWN,
        and_more=describe_omitted,
        link=quote,
        plural=plural,
        **build_drawings([figure] if figure else []),
    )


def choose_tone(card: Card) -> Tone:
    """Return the look of the verdict; an inconclusive one never looks like success."""
    return _TONES[card.word]


def list_figures(card: Card) -> dict[str, str]:
    """Return the figures at the top of the page, by name."""
    landed, planned = card.landed
    tried, places = card.places
    figures = {
        "resumes right": f"{card.resumed_right} of {card.resumed}",
        "places tried": f"{tried} of {places}",
        "wrong": str(card.broken),
        "severity": card.severity,
        "inconclusive": str(len(card.inconclusive)),
        "began anew": str(card.scratch_count),
        "faults landed": f"{landed} of {planned}",
        "recomputed steps, worst": format_figure(
            max(collect_lost_steps(card.runs), default=None), "{}"
        ),
        "runs with faults": str(card.run_count),
        "places in shared runs": str(card.shared) if card.shared else None,
        "took": f"{card.seconds:.0f} s",
        "seed": str(card.seed),
    }
    return {name: value for name, value in figures.items() if value is not None}


KIND_HEAD = ("fault", "tried", "right", "wrong", "inconclusive", "began anew")
#: The look of a count in each column but the first; a calm one has no mark.
KIND_TONES: tuple[Tone, ...] = ("calm", "good", "bad", "open", "calm")


def build_kind_cells(card: Card) -> list[list[str]]:
    """Return the table of faults by kind and result, as text."""
    return [[row.kind, *_build_kind_row(row)] for row in kind_rows(card)]


def _build_kind_row(row: KindRow) -> list[str]:
    if not row.places:
        return ["no place", "", "", "", ""]
    tried_text, tally = f"{row.tried} of {row.places}", row.tally
    if not tally.total:
        return [tried_text, "not tried", "", "", ""]
    return [
        tried_text,
        *map(str, (tally.right, tally.wrong, tally.inconclusive, tally.from_scratch)),
    ]


def find_omissions(card: Card) -> dict[SiteCategory, str]:
    """Return the number of places that were not tried, and the reason, by group."""
    return {
        row.group: reason for row in group_rows(card) if (reason := _explain_omission(row, card))
    }


def _explain_omission(row: GroupRow, card: Card) -> str | None:
    if row.places == 0:
        return f"not in this job: {row.why_none}"
    if row.tried == row.places:
        return None
    omission = f"{row.places - row.tried} of {plural(row.places, 'place')}"
    if row.chosen == 0:
        return f"{omission}: not asked for (--places, --for)"
    unsampled_count, unrun_count = row.places - row.chosen, row.chosen - row.tried
    reasons = [f"{unsampled_count} not sampled"] if unsampled_count else []
    if unrun_count:
        limit = f"{card.limit} was reached" if card.limit else "the time limit was reached"
        end_reason = limit if card.ended == "budget" else "the audit was interrupted"
        reasons.append(f"{unrun_count} not run: {end_reason}")
    return f"{omission}: {', '.join(reasons)}"


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


def render_markdown(card: Card) -> str:
    """Return an audit: the verdict, its figures, a section per finding, the omissions."""
    figures, script = list_figures(card), escape_markdown(posixpath.basename(card.job.script))
    lines = [
        f"# {SIGNS[choose_tone(card)].emoji} {script}: {escape_markdown(card.sentence)}",
        "",
    ]
    lines += [
        *build_table_lines([*figures], [[escape_markdown(value) for value in figures.values()]]),
        "",
    ]
    lines += [*map(format_bullet, describe_changes(card)), ""] if card.since else []
    lines += [*build_table_lines(KIND_HEAD, build_kind_cells(card)), ""]
    lines += [*map(format_bullet, list_remarks(card)), ""]
    for cause in list_causes(card):
        lines += _build_section(cause)
    omitted_groups = find_omissions(card)
    if omitted_groups:
        groups = [
            f"- {group}: {escape_markdown(reason)}" for group, reason in omitted_groups.items()
        ]
        lines += ["## Not tried", "", *groups, ""]
    return fit_text("\n".join([*lines, format_code(card.command), ""]))


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


def _build_section(cause: CauseSection) -> list[str]:
    lines = [f"## {escape_markdown(cause.title)}", "", escape_markdown(cause.sentence), ""]
    if cause.finding is not None:
        places = [escape_markdown(place) for place in cause.finding.places[:PLACES_IN_MARKDOWN]]
        extra_count = cause.finding.count - PLACES_IN_MARKDOWN
        places += [describe_omitted(extra_count, ON_THE_CARD)] if extra_count > 0 else []
        lines += ["; ".join(places), ""]
        lines += [
            f"- {line.label}: {escape_markdown(line.text)}"
            for line in list_code_lines(cause.finding.lines)
        ]
        lines += [""] if cause.finding.lines else []
    return [*lines, format_code(cause.remedy), ""]
