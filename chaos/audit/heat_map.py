"""The heat map of an audit: groups of places against epochs."""

from collections.abc import Sequence
from dataclasses import asdict

import altair as alt

from chaos.audit.card import Card
from chaos.audit.site_category import SITE_CATEGORIES
from chaos.audit.table import CoverageCell, Fate, build_cells
from chaos.report import chart as ch
from chaos.wording import plural

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


def draw_heatmap(card: Card) -> ch.Chart | None:
    """Draw the result of each group and epoch, in grey if it was not tried."""
    rows = build_cells(card)
    if not rows:
        return None
    fates = [fate for fate in _FILLS if any(row.tally.fate == fate for row in rows)]
    return ch.draw_chart(
        "heatmap",
        _build_drawing(card, rows),
        title="Places",
        label=_describe_cells(card, rows),
        caption=(
            "Runs in which the job resumed with the same result, of those with a fault in each "
            "group of places and epoch. Grey: places that the job has and that were not tried. "
            "A run with several faults stands in the epoch of the first. A red cell leads to the "
            "first of its runs."
        ),
        keys=[ch.LegendEntry(_WORDS[fate], "box", _FILLS[fate][0]) for fate in fates],
    )


def _build_drawing(card: Card, rows: tuple[CoverageCell, ...]) -> ch.ChartMarks:
    groups = [group for group in SITE_CATEGORIES if any(row.group == group for row in rows)]
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
    base, (fill, ink) = ch.build_named_chart("cells"), _colors()
    box = base.mark_rect(cornerRadius=3).encode(x=x, y=y, color=fill, tooltip=tooltip)
    text = base.mark_text(fontWeight=600).encode(x=x, y=y, text="counts:N", color=ink)
    # Vega makes a link of every row of a layer, also to null.
    link = (
        ch.build_named_chart("wrong")
        .mark_rect(opacity=0)
        .encode(x=x, y=y, tooltip=tooltip, href="run:N")
    )
    chart = alt.layer(box, text, link).resolve_scale(color="independent")
    counts = [_build_datum(row) for row in rows]
    wrong = [{**_build_datum(row), "run": f"#run-{row.wrong.number}"} for row in rows if row.wrong]
    data = {"cells": counts, "wrong": wrong}
    return ch.ChartMarks(chart.properties(height=ROW_HEIGHT * len(groups)), data)


def _build_datum(row: CoverageCell) -> dict[str, object]:
    counts = "-" if row.tally.total == 0 else f"{row.tally.right}/{row.tally.total}"
    return {
        "group": row.group,
        "epochs": row.epochs,
        "column": row.column,
        "places": row.places,
        "lost_max": row.lost_max,
        **asdict(row.tally),
        "total": row.tally.total,
        "fate": row.tally.fate,
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


def _describe_cells(card: Card, rows: tuple[CoverageCell, ...]) -> str:
    wrong_cells = [row for row in rows if row.tally.fate in ("some wrong", "all wrong")]
    runs = plural(len(card.runs), "place")
    if not wrong_cells:
        return f"{runs}, none wrong; {card.right} with the same result"
    worst = ", ".join(
        f"{row.group} in epoch {row.epochs}: {row.tally.wrong} of {row.tally.total} wrong"
        for row in wrong_cells[:12]
    )
    return f"{runs}, {card.broken} wrong: {worst}"
