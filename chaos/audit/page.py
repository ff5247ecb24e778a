"""The card as a page, as pictures to share, and in Markdown.

The page is one file, which loads nothing. The pictures are SVG without scripts, fonts or links,
so that a README and a chat can show them: a summary of 1200 x 630 for posts and pull requests,
and a badge. The Markdown is for a pull request, an issue, the summary of a CI step.
"""

import posixpath
from dataclasses import dataclass
from textwrap import shorten, wrap
from urllib.parse import quote

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from chaos.audit.answer import Word, confidence, coverage_share
from chaos.audit.card import Card
from chaos.audit.finding import Finding
from chaos.audit.table import (
    GroupRow,
    KindRow,
    check_rows,
    group_rows,
    kind_rows,
    lost_steps,
    part_rows,
)
from chaos.report.markdown import SIGNS, code, fitted, plain, table
from chaos.report.outcome import Tone
from chaos.report.page import Fact
from chaos.words import plural

PLACES_SHOWN, PLACES_IN_MARKDOWN = 12, 6
_TONES: dict[Word, Tone] = {"pass": "good", "fail": "bad", "inconclusive": "open"}

FINDINGS_SHOWN = 3
LINES_OF_ANSWER, COLUMNS_OF_ANSWER, COLUMNS_OF_FINDING = 2, 78, 104
_LETTER, _PAD = 6.6, 12  # of the badge: pixels of a letter at 11 px, and around a text
_INK: dict[Word, str] = {"pass": "#0f6638", "fail": "#a3201b", "inconclusive": "#734d00"}
_GREY, _PLAIN = "#9aa2ad", "#16191d"
_RIGHT, _WRONG, _OPEN = "#0f6638", "#a3201b", "#734d00"

_env = Environment(
    # The frame, the style and the words are those of the report of a run.
    loader=ChoiceLoader([PackageLoader("chaos.audit"), PackageLoader("chaos.report")]),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@dataclass(frozen=True)
class Omission:
    """Places that were not tried, and the reason."""

    group: str
    why: str


@dataclass(frozen=True)
class Line:
    """One kind of fault: its name and its cells, each with a colour."""

    name: str
    ink: str
    cells: tuple[tuple[str, str], ...]


def render_card(card: Card) -> str:
    """Return the page of an audit: the verdict first, then its evidence."""
    # Altair takes half a second to import, for which `--help` need not wait.
    from chaos.audit.heat_map import heatmap  # noqa: PLC0415
    from chaos.report.chart import bundle  # noqa: PLC0415

    drawn = heatmap(card)
    return _env.get_template("card.html.j2").render(
        card=card,
        tone=tone(card),
        share=coverage_share(card),
        confidence=confidence(card),
        untried=[row.kind for row in kind_rows(card) if row.places and not row.tally.total],
        word=card.sentence,
        facts=facts(card),
        kind_head=KIND_HEAD,
        kinds=kind_rows(card),
        heatmap=drawn,
        svg=Markup(drawn.svg) if drawn else None,  # noqa: S704 (Vega escapes it)
        bundle=Markup(bundle()) if drawn else None,  # noqa: S704 (a library)
        groups=[row for row in group_rows(card) if row.tried],
        parts=part_rows(card),
        checks=[row for row in check_rows(card) if row.broken or row.inconclusive],
        checks_right=sum(not row.broken and not row.inconclusive for row in check_rows(card)),
        omissions=omissions(card),
        shown=PLACES_SHOWN,
        link=quote,
        plural=plural,
        title=title,
    )


def tone(card: Card) -> Tone:
    """Return the look of the verdict; an inconclusive one never looks like success."""
    return _TONES[card.word]


def title(finding: Finding) -> str:
    """Return a finding's title: its check, parts, severity, and extent."""
    defect = finding.defect
    of = f" ({', '.join(defect.parts)})" if defect.parts else ""
    return f"{defect.check}{of}, {defect.severity}: {finding.extent}"


def facts(card: Card) -> tuple[Fact, ...]:
    """Return the figures at the top of the page."""
    landed, planned = card.landed
    tried, places = card.places
    lost = max(lost_steps(card.runs), default=None)
    return (
        Fact("resumes right", f"{card.resumed_right} of {card.resumed}"),
        Fact("places tried", f"{tried} of {places}"),
        Fact("wrong", str(card.broken)),
        *([Fact("severity", card.severity)] if card.severity else []),
        Fact("inconclusive", str(len(card.inconclusive))),
        Fact("began anew", str(card.from_scratch)),
        Fact("faults landed", f"{landed} of {planned}"),
        Fact("recomputed steps, worst", "-" if lost is None else str(lost)),
        Fact("runs with faults", str(card.run_count)),
        *([Fact("places in shared runs", str(card.shared))] if card.shared else []),
        Fact("took", f"{card.seconds:.0f} s"),
        Fact("seed", str(card.seed)),
    )


KIND_HEAD = ("fault", "tried", "right", "wrong", "inconclusive", "began anew")


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


def omissions(card: Card) -> tuple[Omission, ...]:
    """Return the places that were not tried, by group, in numbers."""
    return tuple(Omission(row.group, why) for row in group_rows(card) if (why := _why(row, card)))


def omitted_in_all(card: Card) -> str | None:
    """Return one line on the places that were not tried, and the reason; None if all were."""
    rows = group_rows(card)
    total = sum(row.places for row in rows)
    counts = {
        "not asked for": sum(row.places for row in rows if row.chosen == 0),
        "not sampled": sum(row.places - row.chosen for row in rows if row.chosen),
        "not run": sum(row.chosen - row.tried for row in rows),
    }
    reasons = ", ".join(f"{count} {why}" for why, count in counts.items() if count)
    return f"{sum(counts.values())} of {plural(total, 'place')}: {reasons}" if reasons else None


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
        text=text, left=round(left), right=round(right), ink=_INK[card.word]
    )


def summary_svg(card: Card) -> str:
    """Return the summary: the answer, faults by kind with those not tried, and the causes."""
    answer = card.sentence.partition(": ")[2]
    lines = wrap(answer, COLUMNS_OF_ANSWER, max_lines=LINES_OF_ANSWER, placeholder=" …")
    found = [
        shorten(f"{title(finding)}: {finding.headline}", COLUMNS_OF_FINDING)
        for finding in card.findings[:FINDINGS_SHOWN]
    ]
    if card.retries.is_finding:
        found = [shorten(f"settings: {card.retries.sentence}", COLUMNS_OF_FINDING), *found]
        found = found[:FINDINGS_SHOWN]
    more = len(card.findings) + card.retries.is_finding - len(found)
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


def card_in_markdown(card: Card) -> str:
    """Return an audit: the verdict, its figures, a section per finding, the omissions."""
    shown, script = facts(card), plain(posixpath.basename(card.job.script))
    lines = [
        f"# {SIGNS[tone(card)]} {script}: {plain(card.sentence)}",
        "",
    ]
    lines += [*table([fact.name for fact in shown], [[plain(fact.value) for fact in shown]]), ""]
    lines += [*table(KIND_HEAD, kind_cells(card)), ""]
    lines += [f"- {plain(reason)}" for reason in card.reasons if card.word == "inconclusive"]
    if card.retries.is_finding:
        lines.append(f"- settings: {plain(card.retries.sentence)}; {plain(card.retries.fix)}")
    if card.retries.note is not None:
        lines.append(f"- retries: {plain(card.retries.note)}")
    lines += [f"- {note.kind}: {plain(note.text)}" for note in card.notes]
    lines += [f"- replaced: {plain(str(row))}" for row in card.replaced]
    lines.append("")
    for finding in card.findings:
        lines += _section(card, finding)
    left = omissions(card)
    if left:
        lines += ["## Not tried", "", *(f"- {o.group}: {plain(o.why)}" for o in left), ""]
    return fitted("\n".join([*lines, code(card.command), ""]))


def paragraph(card: Card) -> str:
    """Return a paragraph for a pull request, and a line per cause with its command."""
    script = plain(posixpath.basename(card.job.script))
    untried = [row.kind for row in kind_rows(card) if row.places and not row.tally.total]
    sure = confidence(card)
    texts = [
        f"{SIGNS[tone(card)]} **chaos audit of {script}: {plain(card.sentence)}.**",
        f"Coverage: {coverage_share(card):.0%} of the places, of {plain(card.size)}.",
        *([plain(sure[:1].upper() + sure[1:] + ".")] if sure else []),
        *([f"Not tested: {plain(', '.join(untried))}."] if untried else []),
    ]
    causes = [
        f"- {plain(title(finding))}. {plain(finding.headline)} "
        f"{code(f'chaos run {card.folder}/{finding.repro}')}"
        for finding in card.findings
    ]
    if card.retries.is_finding:
        causes.insert(0, f"- settings: {plain(card.retries.sentence)}. {plain(card.retries.fix)}")
    return fitted("\n".join([" ".join(texts), *(["", *causes] if causes else []), ""]))


def _section(card: Card, finding: Finding) -> list[str]:
    places = ", ".join(plain(place) for place in finding.places[:PLACES_IN_MARKDOWN])
    more = finding.count - PLACES_IN_MARKDOWN
    return [
        f"## {plain(title(finding))}",
        "",
        plain(finding.headline),
        "",
        places + (f" and {more} more" if more > 0 else ""),
        "",
        code(f"chaos run {card.folder}/{finding.repro}"),
        "",
    ]
