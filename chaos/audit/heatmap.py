"""What the job survives, by group of places and by epoch, drawn."""

from collections.abc import Sequence
from dataclasses import asdict

import altair as alt

from chaos.audit.card import Card
from chaos.audit.group import GROUPS
from chaos.audit.table import Cell, Fate, cells, columns
from chaos.check.result import plural
from chaos.report import chart as ch

ROW_HEIGHT = 30
_FILLS: dict[Fate, tuple[str, str]] = {  # of a cell, and of the numbers in it
    "survived": ("var(--good-bg)", "var(--good)"),
    "some lost": ("var(--bad-bg)", "var(--bad)"),
    "all lost": ("var(--bad)", "var(--bg)"),
    "cannot be told": ("var(--open-bg)", "var(--open)"),
}
_WORDS: dict[Fate, str] = {
    "survived": "the job came out the same",
    "some lost": "not after every strike",
    "all lost": "not after any strike",
    "cannot be told": "cannot be told",
}


def heatmap(card: Card) -> ch.Chart | None:
    """Draw how many strikes of each group and epoch the job survived; None without any."""
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
            "Strikes that the job survived, of those in each group of places and epoch. A strike "
            "at several places stands in the epoch of the first. Empty: nothing was struck there."
        ),
        keys=[ch.Key(_WORDS[fate], "box", _key_color(fate)) for fate in fates],
    )


def _drawing(card: Card, rows: tuple[Cell, ...]) -> ch.Drawing:
    groups = [group for group in GROUPS if any(row.group == group for row in rows)]
    x, y = _epochs(columns(card)), _groups(groups)
    tooltip = [
        alt.Tooltip("group:N", title="places"),
        alt.Tooltip("epochs:N", title="epoch"),
        alt.Tooltip("survived:Q"),
        alt.Tooltip("total:Q", title="struck"),
        alt.Tooltip("unknown:Q", title="cannot be told"),
        alt.Tooltip("lost_max:Q", title="steps lost, worst"),
    ]
    base, (fill, ink) = ch.named("cells"), _colors()
    box = base.mark_rect(cornerRadius=3).encode(x=x, y=y, color=fill, tooltip=tooltip)
    text = base.mark_text(fontWeight=600).encode(x=x, y=y, text="counts:N", color=ink)
    chart = alt.layer(box, text).resolve_scale(color="independent")
    counts = [
        {**asdict(row), "fate": row.fate, "counts": f"{row.survived}/{row.total}"} for row in rows
    ]
    return ch.Drawing(chart.properties(height=ROW_HEIGHT * len(groups)), {"cells": counts})


def _epochs(labels: tuple[str, ...]) -> alt.X:
    return alt.X(
        "epochs:O",
        title="epoch" if all(label.isdigit() for label in labels) else "epochs",
        sort=list(labels),
        scale=alt.Scale(domain=list(labels), paddingInner=0.04),
        axis=alt.Axis(orient="top", labelAngle=0, ticks=False, domain=False),
    )


def _groups(names: Sequence[str]) -> alt.Y:
    return alt.Y(
        "group:N",
        title=None,
        sort=list(names),
        scale=alt.Scale(domain=list(names), paddingInner=0.12),
        axis=alt.Axis(ticks=False, domain=False, labelLimit=220, labelPadding=8),
    )


def _colors() -> tuple[alt.Color, alt.Color]:
    """Give the colours of the cells, and of the numbers in them."""
    fates, pairs = list(_FILLS), list(_FILLS.values())
    scales = (alt.Scale(domain=fates, range=list(colors)) for colors in zip(*pairs, strict=True))
    fill, ink = (alt.Color("fate:N", scale=scale, legend=None) for scale in scales)
    return fill, ink


def _key_color(fate: Fate) -> str:
    fill, ink = _FILLS[fate]
    return fill if fate == "all lost" else f"color-mix(in srgb, {ink} 45%, {fill})"


def _in_words(card: Card, rows: tuple[Cell, ...]) -> str:
    lost = [row for row in rows if row.fate in ("some lost", "all lost")]
    if not lost:
        return f"{plural(len(card.runs), 'strike')}, {card.survived} survived, in every group"
    worst = ", ".join(
        f"{row.group} in epoch {row.epochs}: {row.survived} of {row.total} survived"
        for row in lost[:12]
    )
    return f"{plural(len(card.runs), 'strike')}, {card.survived} survived. Not all in: {worst}"
