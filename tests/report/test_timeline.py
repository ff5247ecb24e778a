"""Swimlanes: bars, phases, and the steps that were lost."""

from dataclasses import replace

import pytest

from chaos.model.event import (
    WorkerStarted,
)
from chaos.report import timeline as timelines
from chaos.report.outcome import FinishedRun
from chaos.report.timeline import LANES, build_swimlane, build_worker_spans, draw_timeline
from tests.report.rows import of_many_ranks, until


def test_lost_steps_are_those_that_a_later_attempt_did_again(valid_run: FinishedRun) -> None:
    rows = {(span.attempt, span.rank): span for span in build_worker_spans(valid_run.analysis.run)}

    assert {key: sum(s.is_lost for s in span.steps) for key, span in rows.items()} == {
        (0, 0): 5,
        (0, 1): 5,
        (1, 0): 0,
        (1, 1): 0,
    }


def test_swimlanes_hold_bars_and_phases_in_order_of_time(valid_run: FinishedRun) -> None:
    rows = build_swimlane(valid_run.analysis)
    phases = [bar.kind for bar in rows.bars if bar.lane == "controller"]

    assert rows.lanes == ("controller", "rank 0", "rank 1")
    assert phases == ["schedule", "start", "detect", "teardown", "schedule", "start", "restore"]
    assert all(bar.since_s <= bar.until_s for bar in rows.bars)
    assert sum(mark.kind == "commit" for mark in rows.marks) == 4
    assert [mark.lane for mark in rows.marks if mark.kind == "fault"] == ["rank 1"]


def test_of_many_ranks_the_struck_one_is_drawn(valid_run: FinishedRun) -> None:
    run = replace(valid_run, history=of_many_ranks(valid_run.history, 40))
    rows = build_swimlane(run.analysis)
    chart = draw_timeline(run.analysis)

    assert len(rows.lanes) == LANES + 1
    assert "rank 1" in rows.lanes
    assert rows.hidden == 40 - LANES
    assert chart is not None
    assert "24 more ranks" in chart.caption


def test_epochs_too_many_to_see_are_drawn_as_one_bar(
    valid_run: FinishedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timelines, "EPOCH_BARS", 5)
    rows = build_swimlane(valid_run.analysis)
    bars = [bar for bar in rows.bars if bar.kind.endswith("epoch")]

    assert len(bars) == 4
    assert bars[0].what == "attempt 0, epoch 0 and later"


def test_a_worker_without_a_step_has_a_bar_all_the_same(valid_run: FinishedRun) -> None:
    run = replace(valid_run, history=until(valid_run.history, WorkerStarted))
    chart = draw_timeline(run.analysis)

    assert [bar.what for bar in build_swimlane(run.analysis).bars][:1] == ["attempt 0, no step"]
    assert chart is not None
