"""The card as a page: one file, which loads nothing."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from urllib.parse import quote

import altair as alt
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from chaos.audit.answer import Word, confidence, coverage_share
from chaos.audit.card import Card
from chaos.audit.finding import Finding
from chaos.audit.group import GROUPS
from chaos.audit.table import (
    Cell,
    Fate,
    GroupRow,
    KindRow,
    cells,
    check_rows,
    group_rows,
    kind_rows,
    lost_steps,
    part_rows,
)
from chaos.report import chart as ch
from chaos.report.page import Fact, Tone
from chaos.words import plural

ROW_HEIGHT = 30
_FILLS: dict[Fate, tuple[str, str]] = {  # of a cell, and of the numbers in it
    "right": ("var(--good-bg)", "var(--good)"),
    "some wrong": ("var(--bad-bg)", "var(--bad)"),
    "all wrong": ("var(--bad)", "var(--bg)"),
    "inconclusive": ("var(--open-bg)", "var(--open)"),
    "from scratch": ("var(--line)", "var(--ink-2)"),
    "not tried": ("var(--panel)", "var(--ink-3)"),
}
_WORDS: dict[Fate, str] = {
    "right": "resumed, with the same result",
    "some wrong": "not the same after some faults",
    "all wrong": "not the same after any fault",
    "inconclusive": "inconclusive",
    "from scratch": "began anew: no resume was tested (0)",
    "not tried": "not tried (-)",
}


def heatmap(card: Card) -> ch.Chart | None:
    """Draw the result of each group and epoch, in grey if it was not tried."""
    rows = cells(card)
    if not rows:
        return None
    fates = [fate for fate in _FILLS if any(row.fate == fate for row in rows)]
    return ch.drawn(
        "heatmap",
        _drawing(card, rows),
        title="Places",
        label=_in_words(card, rows),
        caption=(
            "Runs in which the job resumed with the same result, of those with a fault in each "
            "group of places and epoch. Grey: places that the job has and that were not tried. "
            "A run with several faults stands in the epoch of the first."
        ),
        keys=[ch.Key(_WORDS[fate], "box", _FILLS[fate][0]) for fate in fates],
    )


def _drawing(card: Card, rows: tuple[Cell, ...]) -> ch.Drawing:
    groups = [group for group in GROUPS if any(row.group == group for row in rows)]
    x, y = _epoch_axis(card.columns), _group_axis(groups)
    tooltip = [
        alt.Tooltip("group:N", title="places"),
        alt.Tooltip("epochs:N", title="epoch"),
        alt.Tooltip("right:Q", title="resumed, right"),
        alt.Tooltip("from_scratch:Q", title="began anew, right"),
        alt.Tooltip("wrong:Q", title="wrong"),
        alt.Tooltip("inconclusive:Q", title="inconclusive"),
        alt.Tooltip("total:Q", title="tried"),
        alt.Tooltip("places:Q", title="places"),
        alt.Tooltip("lost_max:Q", title="recomputed steps, worst"),
    ]
    base, (fill, ink) = ch.named("cells"), _colors()
    box = base.mark_rect(cornerRadius=3).encode(x=x, y=y, color=fill, tooltip=tooltip)
    text = base.mark_text(fontWeight=600).encode(x=x, y=y, text="counts:N", color=ink)
    chart = alt.layer(box, text).resolve_scale(color="independent")
    counts = [_datum(row) for row in rows]
    return ch.Drawing(chart.properties(height=ROW_HEIGHT * len(groups)), {"cells": counts})


def _datum(row: Cell) -> dict[str, object]:
    counts = "-" if row.tally.total == 0 else f"{row.tally.right}/{row.tally.total}"
    return {
        "group": row.group,
        "epochs": row.epochs,
        "column": row.column,
        "places": row.places,
        "lost_max": row.lost_max,
        **asdict(row.tally),
        "total": row.tally.total,
        "fate": row.fate,
        "counts": counts,
    }


def _epoch_axis(labels: tuple[str, ...]) -> alt.X:
    return alt.X(
        "epochs:O",
        title="epoch" if all(label.isdigit() for label in labels) else "epochs",
        sort=list(labels),
        scale=alt.Scale(domain=list(labels), paddingInner=0.04),
        axis=alt.Axis(orient="top", labelAngle=0, ticks=False, domain=False),
    )


def _group_axis(names: Sequence[str]) -> alt.Y:
    return alt.Y(
        "group:N",
        title=None,
        sort=list(names),
        scale=alt.Scale(domain=list(names), paddingInner=0.12),
        axis=alt.Axis(ticks=False, domain=False, labelLimit=220, labelPadding=8),
    )


def _colors() -> tuple[alt.Color, alt.Color]:
    """Return the colours of the cells, and of the numbers in them."""
    fates, pairs = list(_FILLS), list(_FILLS.values())
    scales = (alt.Scale(domain=fates, range=list(colors)) for colors in zip(*pairs, strict=True))
    fill, ink = (alt.Color("fate:N", scale=scale, legend=None) for scale in scales)
    return fill, ink


def _in_words(card: Card, rows: tuple[Cell, ...]) -> str:
    lost = [row for row in rows if row.fate in ("some wrong", "all wrong")]
    runs = plural(len(card.runs), "run with a fault", "runs with a fault")
    if not lost:
        return f"{runs}, none wrong; {card.right} resumed with the same result"
    worst = ", ".join(
        f"{row.group} in epoch {row.epochs}: {row.tally.wrong} of {row.tally.total} wrong"
        for row in lost[:12]
    )
    return f"{runs}, {card.broken} wrong: {worst}"


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
        bundle=Markup(ch.bundle()) if drawn else None,  # noqa: S704 (a library)
        groups=[row for row in group_rows(card) if row.struck],
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
    """Return a finding's title: its check, parts, severity, and number of places."""
    defect, places = finding.defect, plural(finding.count, "place")
    of = f" ({', '.join(defect.parts)})" if defect.parts else ""
    return f"{defect.check}{of}, {defect.severity}: {places}"


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
        "not run": sum(row.chosen - row.struck for row in rows),
    }
    reasons = ", ".join(f"{count} {why}" for why, count in counts.items() if count)
    return f"{sum(counts.values())} of {plural(total, 'place')}: {reasons}" if reasons else None


def _why(row: GroupRow, card: Card) -> str | None:
    if row.places == 0:
        return f"not in this job: {row.why_none}"
    if row.struck == row.places:
        return None
    left = f"{row.places - row.struck} of {plural(row.places, 'place')}"
    if row.chosen == 0:
        return f"{left}: not asked for (--places, --for)"
    by_sample, cut = row.places - row.chosen, row.chosen - row.struck
    reasons = [f"{by_sample} not sampled"] if by_sample else []
    if cut:
        limit = f"{card.limit} was reached" if card.limit else "the time limit was reached"
        end = limit if card.ended == "budget" else "the audit was interrupted"
        reasons.append(f"{cut} not run: {end}")
    return f"{left}: {', '.join(reasons)}"
