"""One chart: its Vega-Lite specification, the same as SVG, and a text for screen readers.

Colours are CSS variables of the page, so that one specification is right in light, in
dark and on paper, and in the browser as well as in the SVG.
"""

import re
import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any, Literal, TypeAlias

import altair as alt
import vl_convert as vlc

from chaos.run.cache import get_cached

STATIC_WIDTH = 1040  # of the SVG, which is shown until scripts run, or without scripts
_SHARED = "window.vegaEmbed = vegaEmbed;"
_VEGA_LITE = ".".join(alt.SCHEMA_VERSION.split(".")[:2])  # the version that Altair writes for
# V8 draws. It reserves that much address space, though it uses little memory; with less it ends
# the process by SIGTRAP (vl-convert 1.9, measured: 40 GB are too few, 80 GB enough).
_ADDRESSES = 72 << 30
_NOT_DRAWN = (
    "<p>This chart is not drawn: where the page was made, addresses are limited "
    "(<code>ulimit -v</code>). Where they are not, <code>chaos report</code> draws it.</p>"
)
INK, GRID = "var(--ink-2)", "var(--line)"
BASELINE, RUN, LOST = "var(--baseline)", "var(--run)", "var(--lost)"
LOST_TEXT = "var(--lost-text)"
FAULT, COMMIT, DIVERGED = "var(--fault)", "var(--commit)", "var(--diverged)"


Rows: TypeAlias = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class LegendEntry:
    """One entry of a legend: a name, its glyph and its colour."""

    name: str
    glyph: Literal["wide", "line", "dash", "box", "diamond", "cross"]
    color: str


@dataclass(frozen=True)
class Chart:
    """A chart for a page.

    The legend is part of the page, which can break its lines on a narrow screen.
    """

    name: str
    title: str
    #: names its content, for those who do not see it
    label: str
    #: explains how to read it
    caption: str
    keys: tuple[LegendEntry, ...]
    spec: dict[str, Any]
    svg: str


@dataclass(frozen=True)
class ChartMarks:
    """Marks to draw and their rows by name.

    Rows are kept apart from marks because Altair copies and validates what it holds, which takes
    seconds for some thousand rows.
    """

    chart: alt.LayerChart
    rows: Mapping[str, Rows]
    #: laid over the marks if scripts run
    hover: alt.Chart | None = None


def draw_chart(
    name: str,
    drawing: ChartMarks,
    *,
    title: str,
    label: str,
    caption: str,
    keys: Sequence[LegendEntry],
) -> Chart:
    """Draw a chart in the page's own style."""
    datasets = {key: [*rows] for key, rows in drawing.rows.items()}
    static_spec = {**_apply_style(drawing.chart), "datasets": datasets, "width": STATIC_WIDTH}
    live_chart = drawing.chart if drawing.hover is None else drawing.chart + drawing.hover
    spec = {**_apply_style(live_chart), "datasets": datasets, "description": label}
    svg: str = (
        vlc.vegalite_to_svg(static_spec, vl_version=_VEGA_LITE) if _has_room() else _NOT_DRAWN
    )
    # Several drawings share one page, on which each id must be unique.
    svg = svg.replace('id="clip', f'id="{name}-clip').replace("url(#clip", f"url(#{name}-clip")
    # vl-convert 1.9 completes a link within the page by the address of Vega's own examples.
    svg = re.sub(r'(?<=xlink:href=")https://[^"#]*(?=#)', "", svg)
    return Chart(name, title, label, caption, tuple(keys), spec, svg)


def build_named_chart(name: str) -> alt.Chart:
    """Return a chart over the rows of this name."""
    return alt.Chart(alt.NamedData(name=name))


def encode_color(field: str, colors: Mapping[str, str]) -> alt.Color:
    """Return the encoding of a field by colour; its legend is the page's."""
    scale = alt.Scale(domain=list(colors), range=list(colors.values()))
    return alt.Color(f"{field}:N", scale=scale, legend=None)


def _has_room() -> bool:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return limit == resource.RLIM_INFINITY or limit >= _ADDRESSES


@cache
def build_bundle() -> str:
    """Return the script that draws charts in a browser without a network; about 1 MB.

    It takes more than a second to make, so it is kept for other processes. Empty if
    nothing can be drawn.
    """
    if not _has_room():
        return ""

    def build_script() -> str:
        script: str = vlc.javascript_bundle(_SHARED, vl_version=_VEGA_LITE)
        return script

    return get_cached(
        "charts.js", _SHARED, _VEGA_LITE, version("vl-convert-python"), make=build_script
    )


# As a plain record, and unchecked: Altair copies and checks a chart at each of its `configure_*`,
# which took half of the time of a report. That the specification holds is asked by a test.
_STYLE = {
    "view": {"stroke": None},
    "aria": False,
    "autosize": {"type": "fit-x", "contains": "padding"},
    "font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif",
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "titleFontWeight": "normal",
        "titleFontSize": 12,
        "labelFontSize": 12,
        "gridColor": GRID,
        "domainColor": GRID,
        "tickColor": GRID,
    },
    "text": {"fontSize": 12, "color": INK},
}


def _apply_style(chart: alt.LayerChart) -> dict[str, Any]:
    chart_spec = chart.to_dict(validate=False)
    return {**chart_spec, "width": "container", "background": "transparent", "config": _STYLE}
