"""The card as a page: one file, which loads nothing."""

from dataclasses import dataclass
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
from chaos.report.page import Fact, Tone
from chaos.words import plural

PLACES_SHOWN = 12
_TONES: dict[Word, Tone] = {"pass": "good", "fail": "bad", "inconclusive": "open"}

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
