"""The swimlanes of a run, drawn."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import altair as alt

from chaos.check.trial import Trial
from chaos.report import chart as ch
from chaos.report.goodput import COLORS
from chaos.report.swimlane import RECOVERY, Swimlane, swimlane

LANE_HEIGHT = 46
NARROWEST_NAMED = 0.03  # of the whole width

_PHASES: dict[str, str] = {phase: COLORS[phase] for phase in RECOVERY}
_EPOCHS = {"even epoch": "var(--epoch-even)", "odd epoch": "var(--epoch-odd)"}
_LOST = {"lost work": ch.LOST}
_PALETTE = {**_EPOCHS, **_LOST, **_PHASES}
_CROSS = "M-1,-.6L-.6,-1L0,-.4L.6,-1L1,-.6L.4,0L1,.6L.6,1L0,.4L-.6,1L-1,.6L-.4,0Z"


def timeline(trial: Trial) -> ch.Chart | None:
    """Draw what every rank did when; None where no worker was ever seen."""
    rows = swimlane(trial)
    if not rows.bars:
        return None
    return ch.drawn(
        "timeline",
        _drawing(rows),
        title="Timeline",
        label=_in_words(trial, rows),
        caption=_caption(rows),
        keys=_keys(rows),
    )


def _drawing(rows: Swimlane) -> ch.Drawing:
    y = alt.Y("lane:N", title=None, sort=list(rows.lanes), axis=alt.Axis(ticks=False, domain=False))
    # A mark on the last moment needs a little room to be seen whole.
    end_s = 1.01 * max(bar.until_s for bar in rows.bars)
    layers = {
        "epochs": _bars("epochs", y, height=26, end_s=end_s),
        "lost": _bars("lost", y, height=26, end_s=end_s),
        "phases": _bars("phases", y, height=16, end_s=end_s),
        "names": _names(y),
        "attempts": _attempts(y),
        "steps": _ticks(y),
        "marks": _marks(y),
    }
    # A layer without rows has no extent, of which Vega warns.
    full = {name: found for name, found in _tables(rows).items() if found}
    chart = alt.layer(*[layer for name, layer in layers.items() if name in full])
    return ch.Drawing(chart.properties(height=LANE_HEIGHT * len(rows.lanes)), full)


def _tables(rows: Swimlane) -> dict[str, ch.Rows]:
    bars = [asdict(bar) for bar in rows.bars]
    marks = [asdict(mark) for mark in rows.marks]
    epochs = _of_kinds(bars, _EPOCHS)
    lost = _of_kinds(bars, _LOST)
    over_lost = {(bar["lane"], bar["since_s"]) for bar in lost}
    room_s = NARROWEST_NAMED * max(bar.until_s for bar in rows.bars)
    return {
        "epochs": epochs,
        "lost": lost,
        "phases": _of_kinds(bars, _PHASES),
        "names": [
            {**bar, "is_lost": (bar["lane"], bar["since_s"]) in over_lost}
            for bar in epochs
            if bar["until_s"] - bar["since_s"] > room_s
        ],
        "attempts": _apart(_of_kinds(marks, {"attempt": ""}), least_s=3 * room_s),
        "steps": _of_kinds(marks, {"step": ""}),
        "marks": _of_kinds(marks, {"commit": "", "fault": ""}),
    }


def _apart(rows: list[dict[str, Any]], *, least_s: float) -> list[dict[str, Any]]:
    """Leave out what would be written over the one before."""
    kept: list[dict[str, Any]] = []
    for row in rows:
        if not kept or row["at_s"] - kept[-1]["at_s"] >= least_s:
            kept.append(row)
    return kept


def _of_kinds(rows: list[dict[str, Any]], kinds: Mapping[str, str]) -> list[dict[str, Any]]:
    return [row for row in rows if row["kind"] in kinds]


def _bars(name: str, y: alt.Y, *, height: int, end_s: float) -> alt.Chart:
    x = alt.X(
        "since_s:Q",
        title="seconds since the run began",
        scale=alt.Scale(domain=[0, end_s], nice=False),
        axis=alt.Axis(format=",~f"),
    )
    scale = alt.Scale(domain=list(_PALETTE), range=list(_PALETTE.values()))
    tooltip = [
        alt.Tooltip("what:N"),
        alt.Tooltip("since_s:Q", title="from (s)", format=".2f"),
        alt.Tooltip("until_s:Q", title="to (s)", format=".2f"),
    ]
    color = alt.Color("kind:N", scale=scale, legend=None)
    chart = ch.named(name).mark_bar(height=height)
    return chart.encode(x=x, x2="until_s:Q", y=y, color=color, tooltip=tooltip)


def _names(y: alt.Y) -> alt.Chart:
    """Write the epoch into each bar."""
    ink = alt.condition("datum.is_lost", alt.value("var(--on-lost)"), alt.value("var(--on-epoch)"))
    text = ch.named("names").mark_text(align="left", baseline="middle", fontSize=11, dx=4, dy=-4)
    return text.encode(x="since_s:Q", y=y, text="name:N", color=ink)


def _attempts(y: alt.Y) -> alt.Chart:
    """Write the attempt above the moment at which its workers were up."""
    text = ch.named("attempts").mark_text(
        align="left", baseline="middle", fontSize=11, dy=-17, color=ch.INK
    )
    return text.encode(x="at_s:Q", y=y, text="what:N")


def _ticks(y: alt.Y) -> alt.Chart:
    tick = ch.named("steps").mark_tick(color="var(--tick)", thickness=1, height=8, yOffset=9)
    return tick.encode(x="at_s:Q", y=y, tooltip=_moment())


def _marks(y: alt.Y) -> alt.Chart:
    scale = alt.Scale(domain=["commit", "fault"], range=["diamond", _CROSS])
    point = ch.named("marks").mark_point(
        filled=True, size=170, opacity=1, stroke="var(--bg)", strokeWidth=1
    )
    return point.encode(
        x="at_s:Q",
        y=y,
        shape=alt.Shape("kind:N", scale=scale, legend=None),
        color=alt.condition(alt.datum.kind == "fault", alt.value(ch.FAULT), alt.value(ch.COMMIT)),
        tooltip=_moment(),
    )


def _moment() -> list[alt.Tooltip]:
    return [alt.Tooltip("what:N"), alt.Tooltip("at_s:Q", title="at (s)", format=".3f")]


def _keys(rows: Swimlane) -> list[ch.Key]:
    seen = {bar.kind for bar in rows.bars} | {mark.kind for mark in rows.marks}
    keys = [ch.Key(kind, "box", color) for kind, color in {**_LOST, **_PHASES}.items()]
    keys += [ch.Key("commit", "diamond", ch.COMMIT), ch.Key("fault", "cross", ch.FAULT)]
    return [key for key in keys if key.name in seen]


def _caption(rows: Swimlane) -> str:
    hidden = f" {rows.hidden} more ranks are not drawn." if rows.hidden else ""
    return (
        "Each bar is one worker's life in one attempt, shaded by epoch; ticks below it are "
        f"finished steps. The controller's lane shows commits and what each start was spent on."
        f"{hidden}"
    )


def _in_words(trial: Trial, rows: Swimlane) -> str:
    faults = [f"{m.what} at {m.at_s:.1f} s" for m in rows.marks if m.kind == "fault"]
    phases = [bar.what for bar in rows.bars if bar.kind in _PHASES]
    return (
        f"Timeline of {len(rows.lanes) - 1} ranks over {len(trial.run.attempts)} attempts. "
        f"Faults: {'; '.join(faults) or 'none'}. Starts: {'; '.join(phases) or 'none'}."
    )
