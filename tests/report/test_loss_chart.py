"""The line of losses, its repeated steps and its breaks."""

from dataclasses import replace

import pytest

from chaos.model.event import (
    StepDone,
)
from chaos.model.history import History, JournalEntry
from chaos.model.trigger import AtMoment
from chaos.report import loss_chart
from chaos.report.html import render_run
from chaos.report.loss_chart import build_step_series
from chaos.report.outcome import FinishedRun
from chaos.resume.steps import Steps
from tests.check.tamper import changed
from tests.report.rows import of_many_ranks


def test_a_track_lays_repeated_steps_over_each_other(valid_run: FinishedRun) -> None:
    line = build_step_series(valid_run.analysis, [1])
    positions = {
        series: [point.position for point in line.points if point.series == series]
        for series in ("baseline", "this run", "lost work")
    }

    assert positions["baseline"] == positions["this run"] == list(range(1, 93))
    assert positions["lost work"] == [47, 48, 49, 50, 51]
    assert line.find_trigger_position(valid_run.plan.ops[0].at) == 51


def test_the_band_of_lost_steps_begins_where_the_attempt_went_on(
    valid_run: FinishedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysis = valid_run.analysis
    (restart,) = analysis.restarts
    resumed = Steps(s for s in restart.attempt.steps if s.step > 3 or s.epoch > 2)
    later = replace(restart, attempt=replace(restart.attempt, steps=resumed))

    begins = []
    for rows in (restart, later):
        monkeypatch.setitem(analysis.__dict__, "restarts", (rows,))
        chart = loss_chart.draw_lost_bands(analysis, build_step_series(analysis, [1]))
        assert chart is not None
        begins.append(chart.to_dict()["data"]["values"][0]["from"])

    assert begins == [46, 49]


def test_a_loss_that_is_no_number_breaks_the_line_and_nothing_else(
    valid_run: FinishedRun,
) -> None:
    def spoiled(entry: JournalEntry) -> JournalEntry:
        if not isinstance(entry.event, StepDone) or entry.event.step != 7:
            return entry
        what = StepDone(
            attempt=entry.event.attempt,
            rank=entry.event.rank,
            epoch=entry.event.epoch,
            step=7,
            losses=("nan",),
        )
        return JournalEntry(time_ns=entry.time_ns, source=entry.source, seq=entry.seq, event=what)

    run = replace(valid_run, history=History([spoiled(e) for e in valid_run.history]))
    charts = loss_chart.build_loss_charts(run.analysis)

    assert [r["loss"] for r in charts[0].spec["datasets"]["steps"] if r["step"] == 7].count(
        None
    ) == 8


def test_steps_without_a_loss_are_no_chart_and_the_page_says_so(valid_run: FinishedRun) -> None:
    def silent(history: History) -> History:
        return changed(history, StepDone, losses=())

    assert valid_run.baseline is not None
    run = replace(valid_run, history=silent(valid_run.history), baseline=silent(valid_run.baseline))

    assert loss_chart.build_loss_charts(run.analysis) == ()
    assert "No loss of a step was seen." in render_run(run)


def test_a_long_line_is_thinned_but_keeps_the_first_divergent_step(
    guilty_run: FinishedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_chart, "POINTS_PER_LINE", 10)
    steps = loss_chart.build_loss_charts(guilty_run.analysis)[0].spec["datasets"]["steps"]
    mine = [row["position"] for row in steps if row["series"] == "this run" and row["rank"] == 0]

    assert len(mine) < 30
    assert {46, 47, 51} <= set(mine)


def test_without_a_baseline_the_chart_says_so(valid_run: FinishedRun) -> None:
    run = replace(valid_run, baseline=None)
    chart = loss_chart.build_loss_charts(run.analysis)[0]

    assert "no baseline" in chart.label
    assert [key.name for key in chart.keys] == ["this run", "lost work"]


def test_one_rank_needs_no_choice_of_ranks(valid_run: FinishedRun) -> None:
    history = of_many_ranks(valid_run.history, 1)
    run = replace(valid_run, history=history, baseline=history)
    (param, *_) = loss_chart.build_loss_charts(run.analysis)[0].spec["params"]

    assert "bind" not in param


def test_a_moment_of_a_report_lies_at_the_end_of_its_epoch(valid_run: FinishedRun) -> None:
    line = build_step_series(valid_run.analysis, [0])

    assert line.find_trigger_position(AtMoment(epoch=1, moment="reported", rank=0)) == 46
    assert line.find_trigger_position(AtMoment(epoch=3, moment="committed", rank=0)) == 92
