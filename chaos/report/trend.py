"""The history of suites as a page: the verdicts of scenarios, and the trend of their figures."""

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import quote

import altair as alt

from chaos.model.summary import (
    GRAVEST_FIRST,
    Changed,
    RunSummary,
    ScenarioKey,
    SuiteSummary,
    changed,
)
from chaos.report import chart as ch
from chaos.report.outcome import STANDINGS, Tone, tone_of_all
from chaos.words import plural

SCENARIOS_DRAWN = 8
SUITES_IN_TABLE = 12

Suites: TypeAlias = Sequence[tuple[str, SuiteSummary]]
Figure: TypeAlias = Callable[[RunSummary], float | None]

_FIGURES: Mapping[str, tuple[str, str, Figure]] = {
    "recovery": ("Slowest recovery", "seconds", lambda run: run.recovery_s),
    "lost": ("Lost steps", "steps", lambda run: run.lost_steps),
    "goodput": ("Goodput", "share of wall time", lambda run: run.goodput),
}
_LINES = [f"var(--line-{number})" for number in range(1, SCENARIOS_DRAWN + 1)]


@dataclass(frozen=True)
class SuiteCell:
    """The verdict of a scenario in one suite; `runs` is its number of runs there."""

    tone: Tone
    word: str
    link: str | None


@dataclass(frozen=True)
class TrendRow:
    """A scenario over the newest suites; None for a suite that it was not part of."""

    scenario: str
    cells: tuple[SuiteCell | None, ...]
    recovery: str
    goodput: str


@dataclass(frozen=True)
class Trend:
    """The content of the page; suites from the oldest to the newest."""

    sentence: str
    tone: Tone
    #: from the last run of each scenario before the newest suite
    changed: Changed | None
    charts: tuple[ch.Chart, ...]
    columns: tuple[tuple[str, str], ...]
    rows: tuple[TrendRow, ...]
    suites: int
    runs: int
    hidden: int


def trend(suites: Suites) -> Trend:
    """Return the page's parts; links are relative to the folder of reports."""
    names = list(dict.fromkeys(run.scenario for _, suite in suites for run in suite.runs))
    drawn = _most_run(suites, names)
    charts = [_standings(suites)] if suites else []
    for name, (title, unit, figure) in _FIGURES.items():
        points = _points(suites, drawn, figure)
        if points:
            charts.append(_lines(name, points, _labels(suites), drawn, title=title, unit=unit))
    shown = suites[-SUITES_IN_TABLE:]
    newest = suites[-1][1] if suites else None
    return Trend(
        sentence=_sentence(suites),
        tone=tone_of_all(newest.runs) if newest else "open",
        changed=changed(_last_runs(suites[:-1]), newest.runs) if newest and suites[:-1] else None,
        charts=tuple(charts),
        columns=tuple((_when(suite.started), _page(f"suites/{name}")) for name, suite in shown),
        rows=tuple(_row(name, shown) for name in names),
        suites=len(suites),
        runs=sum(len(suite.runs) for _, suite in suites),
        hidden=len(names) - len(drawn),
    )


def _last_runs(suites: Suites) -> list[RunSummary]:
    """Return the runs of each scenario in the newest suite in which it was not skipped."""
    found: list[RunSummary] = []
    known = set[ScenarioKey]()
    for _, suite in reversed(suites):
        ran = [run for run in suite.runs if run.standing != "skipped" and run.key not in known]
        found += ran
        known |= {run.key for run in ran}
    return found


def _sentence(suites: Suites) -> str:
    """Return in words the newest suite's verdicts, and how many suites in a row were clean."""
    if not suites:
        return "no suite was run yet"
    runs = [run for run in suites[-1][1].runs if run.standing != "skipped"]
    stood = sum(run.standing == "expected" for run in runs)
    clean = 0
    for _, suite in reversed(suites):
        if tone_of_all(suite.runs) != "good":
            break
        clean += 1
    tail = f", as in the {clean - 1} before it" if clean > 1 else ""
    return f"newest suite: {stood} of {plural(len(runs), 'run')} as expected{tail}"


def _row(scenario: str, shown: Suites) -> TrendRow:
    runs = [[run for run in suite.runs if run.scenario == scenario] for _, suite in shown]
    newest = next((of for of in reversed(runs) if of), [])
    recovery = [run.recovery_s for run in newest if run.recovery_s is not None]
    goodput = [run.goodput for run in newest if run.goodput is not None]
    return TrendRow(
        scenario=scenario,
        cells=tuple(_cell(of) for of in runs),
        recovery=f"{statistics.median(recovery):.1f} s" if recovery else "-",
        goodput=f"{statistics.median(goodput):.0%}" if goodput else "-",
    )


def _cell(runs: Sequence[RunSummary]) -> SuiteCell | None:
    if not runs:
        return None
    worst = min(runs, key=lambda run: GRAVEST_FIRST.index(run.standing))
    stood, look = sum(run.standing == "expected" for run in runs), STANDINGS[worst.standing]
    word = look.word if len(runs) == 1 else f"{stood} of {len(runs)} as expected"
    return SuiteCell(look.tone, word, worst.directory and _page(worst.directory))


def _standings(suites: Suites) -> ch.Chart:
    rows = [
        {"suite": label, "standing": STANDINGS[kind].word, "order": order, "runs": count}
        for label, (_, suite) in zip(_labels(suites), suites, strict=True)
        for order, kind in enumerate(STANDINGS)
        if (count := Counter(run.standing for run in suite.runs)[kind])
    ]
    bars = ch.named("suites").mark_bar(
        stroke="var(--bg)", strokeWidth=0.5, width={"band": min(1.0, len(suites) / 16)}
    )
    encoded = bars.encode(
        x=_x(_labels(suites)),
        y=alt.Y("runs:Q", title="runs", axis=alt.Axis(values=_whole(suites), format="d")),
        color=ch.colored("standing", {look.word: look.color for look in STANDINGS.values()}),
        order="order:Q",
        tooltip=["suite:N", "standing:N", "runs:Q"],
    )
    seen = {row["standing"] for row in rows}
    newest = "; ".join(f"{row['suite']}: {row['runs']} {row['standing']}" for row in rows[-8:])
    return ch.drawn(
        "standings",
        ch.Drawing(alt.layer(encoded).properties(height=160), {"suites": rows}),
        title="Runs by how they stand",
        label=f"Runs of {len(suites)} suites by how they stand. The newest: {newest}.",
        caption="One bar per call of chaos run, the newest to the right.",
        keys=[ch.Key(k.word, "box", k.color) for k in STANDINGS.values() if k.word in seen],
    )


def _whole(suites: Suites) -> list[int]:
    """Return the ticks of an axis of counts: a few whole numbers."""
    most = max((len(suite.runs) for _, suite in suites), default=0)
    return list(range(0, most + 1, max(1, -(-most // 5))))


def _lines(
    name: str,
    points: list[dict[str, Any]],
    labels: Sequence[str],
    drawn: Sequence[str],
    *,
    title: str,
    unit: str,
) -> ch.Chart:
    colors = dict(zip(drawn, _LINES, strict=False))
    form = ".0%" if name == "goodput" else ",.3~f"
    base = ch.named("points").encode(
        x=_x(labels),
        y=alt.Y("value:Q", title=unit, axis=alt.Axis(format=form), scale=alt.Scale(zero=True)),
        color=ch.colored("scenario", colors),
        tooltip=["scenario:N", "suite:N", alt.Tooltip("value:Q", format=form), "runs:Q"],
    )
    layers = alt.layer(
        base.mark_line(strokeWidth=2), base.mark_point(filled=True, size=50, opacity=1)
    )
    seen = {point["scenario"] for point in points}
    last = {point["scenario"]: point for point in points}
    newest = "; ".join(f"{scenario} {point['value']:.3g}" for scenario, point in last.items())
    return ch.drawn(
        name,
        ch.Drawing(layers.properties(height=200), {"points": points}),
        title=title,
        label=f"{title} ({unit}) by suite. The newest: {newest}.",
        caption="The median where a scenario ran several times in a suite.",
        keys=[
            ch.Key(scenario, "line", color)
            for scenario, color in colors.items()
            if scenario in seen
        ],
    )


def _points(suites: Suites, drawn: Sequence[str], figure: Figure) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = []
    for label, (_, suite) in zip(_labels(suites), suites, strict=True):
        for scenario in drawn:
            runs = [run for run in suite.runs if run.scenario == scenario]
            values = [value for run in runs if (value := figure(run)) is not None]
            if values:
                middle = round(statistics.median(values), 4)
                points.append(
                    {"suite": label, "scenario": scenario, "value": middle, "runs": len(values)}
                )
    return points


def _x(labels: Sequence[str]) -> alt.X:
    axis = alt.Axis(labelAngle=-35, labelOverlap=True)
    return alt.X(
        "suite:N", title=None, sort=list(labels), axis=axis, scale=alt.Scale(domain=list(labels))
    )


def _most_run(suites: Suites, names: Sequence[str]) -> list[str]:
    counts = Counter(run.scenario for _, suite in suites for run in suite.runs)
    kept = set(sorted(names, key=lambda name: -counts[name])[:SCENARIOS_DRAWN])
    return [name for name in names if name in kept]


def _labels(suites: Suites) -> list[str]:
    """Return a label per suite, with numbers for suites of the same minute."""
    labels: list[str] = []
    for _, suite in suites:
        plain = _when(suite.started)
        same = sum(label.partition(" #")[0] == plain for label in labels)
        labels.append(f"{plain} #{same + 1}" if same else plain)
    return labels


def _when(started: str) -> str:
    """Return `2026-11-21T01:45:00Z` for display, to the minute."""
    return started[5:16].replace("T", " ")


def _page(directory: str) -> str:
    return quote(f"{directory}/report.html")
