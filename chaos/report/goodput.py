"""Goodput as rows and as a chart: the run beside its baseline, and by attempt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from chaos.check.analysis import RunAnalysis
from chaos.check.goodput import PHASES, Ledger, Phase, ledger, ledger_of, meaning
from chaos.model.launcher import LauncherWords
from chaos.report import chart as ch
from chaos.report.page import SHORT_NS

ATTEMPTS_SHOWN = 12
BAR_HEIGHT = 30

COLORS: Mapping[Phase, str] = {
    "productive": "var(--productive)",
    "checkpoint": "var(--checkpoint)",
    "replay": ch.LOST,
    "detect": "var(--detect)",
    "teardown": "var(--teardown)",
    "schedule": "var(--schedule)",
    "start": "var(--start)",
    "restore": "var(--restore)",
    "other": "var(--other)",
}


@dataclass(frozen=True)
class PhaseRow:
    """One phase: its name, and its time in all, in each attempt and in the baseline."""

    phase: Phase
    color: str
    meaning: str
    seconds: str
    share: str
    baseline: str
    by_attempt: tuple[str, ...]


@dataclass(frozen=True)
class Goodput:
    """The ledger for a page."""

    sentence: str
    wall: str
    baseline_wall: str
    #: those with a column of their own
    attempts: tuple[int, ...]
    #: the number of the others
    hidden: int
    rows: tuple[PhaseRow, ...]
    chart: ch.Chart
    is_short: bool = False


def goodput(analysis: RunAnalysis) -> Goodput | None:
    """Return the time of a run by phase; None if no time was recorded."""
    found = ledger_of(analysis)
    if not found.wall_ns:
        return None
    clean = ledger(analysis.reference) if analysis.reference else None
    shown = found.attempts[:ATTEMPTS_SHOWN]
    return Goodput(
        sentence=sentence(found, clean),
        wall=_s(found.wall_ns / 1e9),
        baseline_wall="" if clean is None else _s(clean.wall_ns / 1e9),
        attempts=shown,
        hidden=len(found.attempts) - len(shown),
        rows=goodput_rows(found, clean, shown, analysis.terms),
        chart=_drawn(found, clean, shown),
        is_short=found.wall_ns < SHORT_NS,
    )


def sentence(found: Ledger, clean: Ledger | None) -> str:
    """Return in words the goodput, the baseline's, and the phases with most of the rest."""
    assert found.goodput is not None
    of_clean = clean.goodput if clean else None
    beside = "" if of_clean is None else f" (the baseline: {of_clean:.0%})"
    rest = {phase: s for phase, s in found.seconds().items() if phase != "productive" and s > 0}
    most = sorted(rest, key=lambda phase: -rest[phase])[:3]
    where = ", ".join(f"{phase} {_s(rest[phase])}" for phase in most)
    tail = f"; most of the rest: {where}" if where else ""
    return f"{found.goodput:.0%} of {_s(found.wall_ns / 1e9)} was productive{beside}{tail}."


def goodput_rows(
    found: Ledger, clean: Ledger | None, attempts: Sequence[int], terms: LauncherWords
) -> tuple[PhaseRow, ...]:
    """Return a row per phase that took any time, here or in the baseline."""
    seconds = found.seconds()
    of_clean = clean.seconds() if clean else {}
    by_attempt = [found.seconds(attempt=attempt) for attempt in attempts]
    return tuple(
        PhaseRow(
            phase=phase,
            color=COLORS[phase],
            meaning=meaning(phase, terms),
            seconds=_s(seconds[phase]),
            share=f"{seconds[phase] * 1e9 / found.wall_ns:.1%}",
            baseline=_s(of_clean[phase]) if of_clean else "",
            by_attempt=tuple(_s(of[phase]) for of in by_attempt),
        )
        for phase in PHASES
        if seconds[phase] or of_clean.get(phase)
    )


def _drawn(found: Ledger, clean: Ledger | None, attempts: Sequence[int]) -> ch.Chart:
    bars = {"this run": found.seconds()}
    if clean is not None and clean.wall_ns:
        bars = {"baseline": clean.seconds(), **bars}
    if len(found.attempts) > 1:
        bars |= {f"attempt {a}": found.seconds(attempt=a) for a in attempts}
    rows = [row for lane, seconds in bars.items() for row in _pieces(lane, seconds)]
    seen = {row["phase"] for row in rows}
    return ch.drawn(
        "goodput",
        ch.Drawing(_bars(list(bars)), {"pieces": rows}),
        title="Goodput",
        label=_in_words(bars),
        caption="Each bar is wall time, cut by what it was spent on; the pieces add up to all of "
        "it. An attempt is charged from its own scheduling until the next one's.",
        keys=[ch.Key(phase, "box", COLORS[phase]) for phase in PHASES if phase in seen],
    )


def _pieces(lane: str, seconds: Mapping[Phase, float]) -> list[dict[str, Any]]:
    total, at_s, rows = sum(seconds.values()), 0.0, list[dict[str, Any]]()
    for phase in PHASES:
        if seconds[phase]:
            piece = {"lane": lane, "phase": phase, "since_s": round(at_s, 4)}
            at_s += seconds[phase]
            share = round(seconds[phase] / total, 4)
            rows.append({**piece, "until_s": round(at_s, 4), "s": seconds[phase], "share": share})
    return rows


def _bars(lanes: Sequence[str]) -> alt.LayerChart:
    chart = ch.named("pieces").mark_bar(height=18, stroke="var(--bg)", strokeWidth=0.5)
    encoded = chart.encode(
        x=alt.X("since_s:Q", title="seconds", axis=alt.Axis(format=",~f")),
        x2="until_s:Q",
        y=alt.Y("lane:N", title=None, sort=list(lanes), axis=alt.Axis(ticks=False, domain=False)),
        color=ch.colored("phase", {phase: COLORS[phase] for phase in PHASES}),
        tooltip=[
            alt.Tooltip("lane:N", title="of"),
            alt.Tooltip("phase:N"),
            alt.Tooltip("s:Q", title="seconds", format=".3f"),
            alt.Tooltip("share:Q", format=".1%"),
        ],
    )
    return alt.layer(encoded).properties(height=BAR_HEIGHT * len(lanes))


def _in_words(bars: Mapping[str, Mapping[Phase, float]]) -> str:
    lanes = (
        f"{lane}: " + ", ".join(f"{phase} {_s(s)}" for phase, s in seconds.items() if s)
        for lane, seconds in bars.items()
    )
    return f"Where the time went. {'; '.join(lanes)}."


def _s(value: float) -> str:
    return f"{value:.2f} s"
