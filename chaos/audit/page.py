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

from chaos.audit.card import Card, Word, confidence, coverage_share
from chaos.audit.group import Group
from chaos.audit.sections import (
    ON_THE_CARD,
    CauseSection,
    causes,
    equal_results,
    omitted,
    remarks,
    since,
    since_in_words,
    untried,
)
from chaos.audit.table import (
    GroupRow,
    KindRow,
    check_rows,
    group_rows,
    kind_rows,
    lost_steps,
    part_rows,
    wrong_rows,
)
from chaos.check.headline import as_sentence
from chaos.report.ci import SHOWN, AnnotatedPlace, command, place_of
from chaos.report.html import drawings, pages
from chaos.report.markdown import SIGNS, bullet, code, fitted, plain, table
from chaos.report.outcome import Tone, known
from chaos.report.sections import code_of
from chaos.words import and_more, begun, plural

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
_env = pages("chaos.audit")


@dataclass(frozen=True)
class FaultRow:
    """One kind of fault: its name and its cells, each with a colour."""

    name: str
    ink: str
    cells: tuple[tuple[str, str], ...]


def render_card(card: Card) -> str:
    """Return the page of an audit: the verdict first, then its evidence."""
    # Altair takes half a second to import, for which `--help` need not wait.
    from chaos.audit.heat_map import heatmap  # noqa: PLC0415

    drawn = heatmap(card)
    checks = check_rows(card)
    amiss = [row for row in checks if row.broken or row.inconclusive]
    parts, kinds = part_rows(card), kind_cells(card)
    return _env.get_template("card.html.j2").render(
        card=card,
        tone=tone(card),
        share=coverage_share(card),
        confidence=confidence(card),
        equal=equal_results(card),
        untried=untried(card),
        word=card.sentence,
        facts=facts(card),
        kind_head=KIND_HEAD,
        kind_tones=KIND_TONES,
        kinds=[row for row in kinds if any(row[2:])],
        placeless=[name for name, _, *counts in kinds if not any(counts)],
        heatmap=drawn,
        groups=[row for row in group_rows(card) if row.tried],
        parts=parts,
        parts_amiss=[part for part in parts if part.restored < part.resumes],
        parts_right=[part for part in parts if part.restored == part.resumes],
        causes=[*causes(card)],
        since=[*since(card)],
        wrong=wrong_rows(card),
        reports={finding.smallest.number: finding.report for finding in card.findings},
        checks=amiss,
        checks_right=len(checks) - len(amiss),
        omissions=omissions(card),
        omitted=omitted(card),
        shown=PLACES_SHOWN,
        and_more=and_more,
        link=quote,
        plural=plural,
        **drawings([drawn] if drawn else []),
    )


def tone(card: Card) -> Tone:
    """Return the look of the verdict; an inconclusive one never looks like success."""
    return _TONES[card.word]


def facts(card: Card) -> dict[str, str]:
    """Return the figures at the top of the page, by name."""
    landed, planned = card.landed
    tried, places = card.places
    found = {
        "resumes right": f"{card.resumed_right} of {card.resumed}",
        "places tried": f"{tried} of {places}",
        "wrong": str(card.broken),
        "severity": card.severity,
        "inconclusive": str(len(card.inconclusive)),
        "began anew": str(card.from_scratch),
        "faults landed": f"{landed} of {planned}",
        "recomputed steps, worst": known(max(lost_steps(card.runs), default=None), "{}"),
        "runs with faults": str(card.run_count),
        "places in shared runs": str(card.shared) if card.shared else None,
        "took": f"{card.seconds:.0f} s",
        "seed": str(card.seed),
    }
    return {name: value for name, value in found.items() if value is not None}


KIND_HEAD = ("fault", "tried", "right", "wrong", "inconclusive", "began anew")
#: The look of a count in each column but the first; a calm one has no mark.
KIND_TONES: tuple[Tone, ...] = ("calm", "good", "bad", "open", "calm")


def kind_cells(card: Card) -> list[list[str]]:
    """Return the table of faults by kind and result, as text."""
    return [[row.kind, *_kind_cells(row)] for row in kind_rows(card)]


def _kind_cells(row: KindRow) -> list[str]:
    if not row.places:
        return ["no place", "", "", "", ""]
    tried, of = f"{row.tried} of {row.places}", row.tally
    if not of.total:
        return [tried, "not tried", "", "", ""]
    return [tried, *map(str, (of.right, of.wrong, of.inconclusive, of.from_scratch))]


def omissions(card: Card) -> dict[Group, str]:
    """Return the number of places that were not tried, and the reason, by group."""
    return {row.group: why for row in group_rows(card) if (why := _why(row, card))}


def _why(row: GroupRow, card: Card) -> str | None:
    if row.places == 0:
        return f"not in this job: {row.why_none}"
    if row.tried == row.places:
        return None
    left = f"{row.places - row.tried} of {plural(row.places, 'place')}"
    if row.chosen == 0:
        return f"{left}: not asked for (--places, --for)"
    by_sample, cut = row.places - row.chosen, row.chosen - row.tried
    reasons = [f"{by_sample} not sampled"] if by_sample else []
    if cut:
        limit = f"{card.limit} was reached" if card.limit else "the time limit was reached"
        end = limit if card.ended == "budget" else "the audit was interrupted"
        reasons.append(f"{cut} not run: {end}")
    return f"{left}: {', '.join(reasons)}"


def badge_svg(card: Card) -> str:
    """Return the badge: the answer, the resumes that were right, and the coverage."""
    text = f"{card.word} · resumes {card.resumed_right}/{card.resumed}"
    text += f" · coverage {coverage_share(card):.0%}"
    left, right = (_PAD + _LETTER * len(words) for words in ("chaos", text))
    return _env.get_template("badge.svg.j2").render(
        text=text, left=round(left), right=round(right), ink=_INKS[tone(card)]
    )


def summary_svg(card: Card) -> str:
    """Return the summary: the answer, faults by kind with those not tried, and the causes."""
    answer = begun(card.sentence.partition(": ")[2])
    lines = wrap(answer, COLUMNS_OF_ANSWER, max_lines=LINES_OF_ANSWER, placeholder=" …")
    found = [
        shorten(f"{cause.title}: {cause.brief}", COLUMNS_OF_FINDING, placeholder=" …")
        for cause in causes(card)
    ]
    if (more := len(found) - FINDINGS_SHOWN) > 0:
        found[FINDINGS_SHOWN:] = [and_more(more, ON_THE_CARD)]
    tried, places = card.places
    kinds = [_line(name, cells) for name, *cells in kind_cells(card) if any(cells[1:])]
    # The rows of faults have what the findings leave of the picture, and these follow the last row.
    rows = max(len(kinds) - 1, 1)
    row_height = min(ROW, (LOWEST - GAP - FOUND_LINE * (len(found) - 1) - FIRST_ROW) // rows)
    return _env.get_template("summary.svg.j2").render(
        card=card,
        script=shorten(card.job.script.rsplit("/", maxsplit=1)[-1], 46),
        word=card.word,
        ink=_INKS[tone(card)],
        answer=lines,
        kinds=kinds,
        row_height=row_height,
        found=found,
        found_from=FIRST_ROW + row_height * (len(kinds) - 1) + GAP,
        covered=f"{tried} of {places} places, {coverage_share(card):.0%}",
        share=coverage_share(card),
    )


def _line(name: str, cells: Sequence[str]) -> FaultRow:
    if not cells[-1]:
        return FaultRow(name, _GREY, tuple((text, _GREY) for text in cells if text))
    looks = zip(cells, KIND_TONES, strict=True)
    inks = (_GREY if text == "0" else _INKS[tone] for text, tone in looks)
    return FaultRow(name, _PLAIN, tuple(zip(cells, inks, strict=True)))


def card_in_markdown(card: Card) -> str:
    """Return an audit: the verdict, its figures, a section per finding, the omissions."""
    shown, script = facts(card), plain(posixpath.basename(card.job.script))
    lines = [
        f"# {SIGNS[tone(card)]} {script}: {plain(card.sentence)}",
        "",
    ]
    lines += [*table([*shown], [[plain(value) for value in shown.values()]]), ""]
    lines += [*map(bullet, since(card)), ""] if card.since else []
    lines += [*table(KIND_HEAD, kind_cells(card)), ""]
    lines += [*map(bullet, remarks(card)), ""]
    for cause in causes(card):
        lines += _section(cause)
    left = omissions(card)
    if left:
        groups = [f"- {group}: {plain(why)}" for group, why in left.items()]
        lines += ["## Not tried", "", *groups, ""]
    return fitted("\n".join([*lines, code(card.command), ""]))


def paragraph(card: Card) -> str:
    """Return a paragraph for a pull request, and a line per cause with its command."""
    script = plain(posixpath.basename(card.job.script))
    left, sure = untried(card), confidence(card)
    texts = [
        f"{SIGNS[tone(card)]} **chaos audit of {script}: {plain(card.sentence)}.**",
        f"Coverage: {coverage_share(card):.0%} of the places, of {plain(card.size)}.",
        *([plain(as_sentence(sure))] if sure else []),
        *([plain(words)] if (words := since_in_words(card)) else []),
        *([f"Not tested: {plain(', '.join(left))}."] if left else []),
    ]
    found = [
        f"- {plain(cause.title)}. {plain(cause.sentence)} {code(cause.remedy)}"
        for cause in causes(card)
    ]
    return fitted("\n".join([" ".join(texts), *(["", *found] if found else []), ""]))


def annotations(card: Card) -> list[str]:
    """Return GitHub's workflow commands: an error for each thing that is wrong, at its line."""
    script = AnnotatedPlace(card.job.script, 1)
    return [
        command(
            "error",
            (place_of(cause.finding.lines) if cause.finding is not None else None) or script,
            cause.title,
            f"{cause.sentence}\n{cause.remedy}",
        )
        for cause in list(causes(card))[:SHOWN]
    ]


def _section(cause: CauseSection) -> list[str]:
    lines = [f"## {plain(cause.title)}", "", plain(cause.sentence), ""]
    if cause.finding is not None:
        places = [plain(place) for place in cause.finding.places[:PLACES_IN_MARKDOWN]]
        more = cause.finding.count - PLACES_IN_MARKDOWN
        places += [and_more(more, ON_THE_CARD)] if more > 0 else []
        lines += ["; ".join(places), ""]
        lines += [f"- {line.label}: {plain(line.text)}" for line in code_of(cause.finding.lines)]
        lines += [""] if cause.finding.lines else []
    return [*lines, code(cause.remedy), ""]
