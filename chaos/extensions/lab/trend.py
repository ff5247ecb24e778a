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
    RunSummary,
    ScenarioKey,
    SuiteChanges,
    SuiteSummary,
    compare_suites,
)
from chaos.report import chart as ch
from chaos.report.html import build_drawings, build_environment
from chaos.report.outcome import STANDINGS, Tone, find_suite_tone
from chaos.wording import plural

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


_env = build_environment("chaos.extensions.lab")


def render_trend(suites: Suites) -> str:
    """Return the page of the history of suites; links are relative to the folder of reports."""
    trend_view = build_trend(suites)
    return _env.get_template("trend.html.j2").render(
        trend=trend_view, **build_drawings(trend_view.charts)
    )


@dataclass(frozen=True)
class SuiteCell:
    """The verdict of a scenario over all of its runs in one suite."""

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
    changed: SuiteChanges | None
    charts: tuple[ch.Chart, ...]
    columns: tuple[tuple[str, str], ...]
    rows: tuple[TrendRow, ...]
    suites: int
    runs: int
    hidden: int


def build_trend(suites: Suites) -> Trend:
    """Return the page's parts; links are relative to the folder of reports."""
    names = list(dict.fromkeys(run.scenario for _, suite in suites for run in suite.runs))
    drawn_scenarios = _select_frequent(suites, names)
    charts = [_draw_standings(suites)] if suites else []
    for name, (title, unit, figure) in _FIGURES.items():
        points = _build_points(suites, drawn_scenarios, figure)
        if points:
            charts.append(
                _draw_lines(
                    name, points, _build_labels(suites), drawn_scenarios, title=title, unit=unit
                )
            )
    shown_suites = suites[-SUITES_IN_TABLE:]
    newest = suites[-1][1] if suites else None
    return Trend(
        sentence=_describe_suites(suites),
        tone=find_suite_tone(newest.runs) if newest else "open",
        changed=compare_suites(_find_latest_runs(suites[:-1]), newest.runs)
        if newest and suites[:-1]
        else None,
        charts=tuple(charts),
        columns=tuple(
            (_format_time(suite.started), _build_page_link(f"suites/{name}"))
            for name, suite in shown_suites
        ),
        rows=tuple(_build_row(name, shown_suites) for name in names),
        suites=len(suites),
        runs=sum(len(suite.runs) for _, suite in suites),
        hidden=len(names) - len(drawn_scenarios),
    )


def _find_latest_runs(suites: Suites) -> list[RunSummary]:
    """Return the runs of each scenario in the newest suite in which it was not skipped."""
    latest_runs: list[RunSummary] = []
    known_keys = set[ScenarioKey]()
    for _, suite in reversed(suites):
        new_runs = [
            run for run in suite.runs if run.standing != "skipped" and run.key not in known_keys
        ]
        latest_runs += new_runs
        known_keys |= {run.key for run in new_runs}
    return latest_runs


def _describe_suites(suites: Suites) -> str:
    """Return in words the newest suite's verdicts, and how many suites in a row were clean."""
    if not suites:
        return "no suite was run yet"
    runs = [run for run in suites[-1][1].runs if run.standing != "skipped"]
    expected_count = sum(run.standing == "expected" for run in runs)
    clean_count = 0
    for _, suite in reversed(suites):
        if find_suite_tone(suite.runs) != "good":
            break
        clean_count += 1
    tail = f", as in the {clean_count - 1} before it" if clean_count > 1 else ""
    return f"newest suite: {expected_count} of {plural(len(runs), 'run')} as expected{tail}"


def _build_row(scenario: str, shown_suites: Suites) -> TrendRow:
    runs = [[run for run in suite.runs if run.scenario == scenario] for _, suite in shown_suites]
    newest_runs = next((suite_runs for suite_runs in reversed(runs) if suite_runs), [])
    recovery = [run.recovery_s for run in newest_runs if run.recovery_s is not None]
    goodput = [run.goodput for run in newest_runs if run.goodput is not None]
    return TrendRow(
        scenario=scenario,
        cells=tuple(_build_cell(suite_runs) for suite_runs in runs),
        recovery=f"{statistics.median(recovery):.1f} s" if recovery else "-",
        goodput=f"{statistics.median(goodput):.0%}" if goodput else "-",
    )


def _build_cell(runs: Sequence[RunSummary]) -> SuiteCell | None:
    if not runs:
        return None
    worst_run = min(runs, key=lambda run: GRAVEST_FIRST.index(run.standing))
    expected_count, look = (
        sum(run.standing == "expected" for run in runs),
        STANDINGS[worst_run.standing],
    )
    word = look.word if len(runs) == 1 else f"{expected_count} of {len(runs)} as expected"
    return SuiteCell(look.tone, word, worst_run.directory and _build_page_link(worst_run.directory))


def _draw_standings(suites: Suites) -> ch.Chart:
    rows = [
        {"suite": label, "standing": STANDINGS[kind].word, "order": order, "runs": count}
        for label, (_, suite) in zip(_build_labels(suites), suites, strict=True)
        for order, kind in enumerate(STANDINGS)
        if (count := Counter(run.standing for run in suite.runs)[kind])
    ]
    bars = ch.build_named_chart("suites").mark_bar(
        stroke="var(--bg)", strokeWidth=0.5, width={"band": min(1.0, len(suites) / 16)}
    )
    encoded = bars.encode(
        x=_build_suite_axis(_build_labels(suites)),
        y=alt.Y("runs:Q", title="runs", axis=alt.Axis(values=_choose_ticks(suites), format="d")),
        color=ch.encode_color("standing", {look.word: look.color for look in STANDINGS.values()}),
        order="order:Q",
        tooltip=["suite:N", "standing:N", "runs:Q"],
    )
    shown_standings = {row["standing"] for row in rows}
    newest = "; ".join(f"{row['suite']}: {row['runs']} {row['standing']}" for row in rows[-8:])
    return ch.draw_chart(
        "standings",
        ch.ChartMarks(alt.layer(encoded).properties(height=160), {"suites": rows}),
        title="Runs by how they stand",
        label=f"Runs of {len(suites)} suites by how they stand. The newest: {newest}.",
        caption="One bar per call of chaos run, the newest to the right.",
        keys=[
            ch.LegendEntry(standing_look.word, "box", standing_look.color)
            for standing_look in STANDINGS.values()
            if standing_look.word in shown_standings
        ],
    )


def _choose_ticks(suites: Suites) -> list[int]:
    """Return the ticks of an axis of counts: a few whole numbers."""
    max_runs = max((len(suite.runs) for _, suite in suites), default=0)
    return list(range(0, max_runs + 1, max(1, -(-max_runs // 5))))


def _draw_lines(
    name: str,
    points: list[dict[str, Any]],
    labels: Sequence[str],
    drawn_scenarios: Sequence[str],
    *,
    title: str,
    unit: str,
) -> ch.Chart:
    colors = dict(zip(drawn_scenarios, _LINES, strict=False))
    form = ".0%" if name == "goodput" else ",.3~f"
    base = ch.build_named_chart("points").encode(
        x=_build_suite_axis(labels),
        y=alt.Y("value:Q", title=unit, axis=alt.Axis(format=form), scale=alt.Scale(zero=True)),
        color=ch.encode_color("scenario", colors),
        tooltip=["scenario:N", "suite:N", alt.Tooltip("value:Q", format=form), "runs:Q"],
    )
    layers = alt.layer(
        base.mark_line(strokeWidth=2), base.mark_point(filled=True, size=50, opacity=1)
    )
    shown_scenarios = {point["scenario"] for point in points}
    latest_points = {point["scenario"]: point for point in points}
    newest = "; ".join(
        f"{scenario} {point['value']:.3g}" for scenario, point in latest_points.items()
    )
    return ch.draw_chart(
        name,
        ch.ChartMarks(layers.properties(height=200), {"points": points}),
        title=title,
        label=f"{title} ({unit}) by suite. The newest: {newest}.",
        caption="The median where a scenario ran several times in a suite.",
        keys=[
            ch.LegendEntry(scenario, "line", color)
            for scenario, color in colors.items()
            if scenario in shown_scenarios
        ],
    )


def _build_points(
    suites: Suites, drawn_scenarios: Sequence[str], figure: Figure
) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = []
    for label, (_, suite) in zip(_build_labels(suites), suites, strict=True):
        for scenario in drawn_scenarios:
            runs = [run for run in suite.runs if run.scenario == scenario]
            values = [value for run in runs if (value := figure(run)) is not None]
            if values:
                median = round(statistics.median(values), 4)
                points.append(
                    {"suite": label, "scenario": scenario, "value": median, "runs": len(values)}
                )
    return points


def _build_suite_axis(labels: Sequence[str]) -> alt.X:
    axis = alt.Axis(labelAngle=-35, labelOverlap=True)
    return alt.X(
        "suite:N", title=None, sort=list(labels), axis=axis, scale=alt.Scale(domain=list(labels))
    )


def _select_frequent(suites: Suites, names: Sequence[str]) -> list[str]:
    counts = Counter(run.scenario for _, suite in suites for run in suite.runs)
    frequent_names = set(sorted(names, key=lambda name: -counts[name])[:SCENARIOS_DRAWN])
    return [name for name in names if name in frequent_names]


def _build_labels(suites: Suites) -> list[str]:
    """Return a label per suite, with numbers for suites of the same minute."""
    labels: list[str] = []
    for _, suite in suites:
        time_text = _format_time(suite.started)
        same_count = sum(label.partition(" #")[0] == time_text for label in labels)
        labels.append(f"{time_text} #{same_count + 1}" if same_count else time_text)
    return labels


def _format_time(started: str) -> str:
    """Return `2026-11-21T01:45:00Z` for display, to the minute."""
    return started[5:16].replace("T", " ")


def _build_page_link(directory: str) -> str:
    return quote(f"{directory}/report.html")
