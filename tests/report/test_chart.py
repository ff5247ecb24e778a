"""What stands on the charts, and where."""

import re
import resource
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import altair as alt
import pytest

from chaos.model.history import History, JournalEntry
from chaos.report.chart import Chart, build_bundle
from chaos.report.html import render_run
from chaos.report.loss_chart import build_loss_charts
from chaos.report.outcome import FinishedRun
from chaos.report.timeline import draw_timeline


def layers(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield spec
    for below in spec.get("layer", ()):
        yield from layers(below)


def heights_of_names(chart: Chart) -> dict[str, int]:
    """Return how far below the top each rule's name is written."""
    return {
        layer["data"]["values"][0]["name"]: layer["mark"]["dy"]
        for layer in layers(chart.spec)
        if "text" in layer.get("encoding", {}) and layer["encoding"]["text"]["field"] == "name"
    }


def test_the_first_divergent_step_is_not_written_over_the_fault_beside_it(
    guilty_run: FinishedRun,
) -> None:
    whole, closer = map(heights_of_names, build_loss_charts(guilty_run.analysis))
    diverged = whole.pop("first divergent step")

    assert whole
    assert diverged > max(whole.values()) + 12
    assert closer == {"first divergent step": 2}


def test_the_seconds_of_a_short_run_are_told_apart(valid_run: FinishedRun) -> None:
    def hurried(entry: JournalEntry) -> JournalEntry:
        time_ns = entry.time_ns // 60
        return JournalEntry(time_ns=time_ns, source=entry.source, seq=entry.seq, event=entry.event)

    run = replace(valid_run, history=History([hurried(e) for e in valid_run.history]))
    chart = draw_timeline(run.analysis)

    assert chart is not None
    ticks = re.findall(r"(?<=>)[\d.]+(?=</text>)", chart.svg.partition("seconds")[0])
    assert len(ticks) > 3
    assert len(ticks) == len(set(ticks))


def test_where_addresses_are_limited_nothing_is_drawn_and_the_page_says_so(
    valid_run: FinishedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """V8 ends the process otherwise, and what was judged is not told."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1_500_000_000, 1_500_000_000))
    build_bundle.cache_clear()

    page = render_run(valid_run)

    build_bundle.cache_clear()
    assert "This chart is not drawn" in page
    assert "<svg" not in page
    assert "vegaEmbed(" not in page


def test_every_chart_is_a_valid_specification(guilty_run: FinishedRun) -> None:
    """Charts are made unchecked: the check takes longer than the drawing."""
    timeline = draw_timeline(guilty_run.analysis)
    assert timeline is not None

    for chart in (*build_loss_charts(guilty_run.analysis), timeline):
        alt.LayerChart.from_dict({k: v for k, v in chart.spec.items() if k != "datasets"})
