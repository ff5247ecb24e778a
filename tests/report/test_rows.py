"""The rows that charts and pages are made of."""

from dataclasses import replace

import pytest

from chaos.model.event import (
    Event,
    FaultInvoked,
    FitCalled,
    StepDone,
    WorkerStarted,
)
from chaos.model.history import History, JournalEntry
from chaos.model.trigger import AtMoment
from chaos.model.verdict import Anomaly
from chaos.report import loss_chart
from chaos.report import timeline as timelines
from chaos.report.html import render_run
from chaos.report.loss_chart import build_step_series
from chaos.report.outcome import FinishedRun, build_suite_row, build_unrun_row, find_versions
from chaos.report.page import (
    EVENTS_PER_ANOMALY,
    EventLine,
    OmittedEvents,
    build_event_lines,
    build_facts,
    build_op_rows,
    build_restart_rows,
    build_settings,
    describe_devices,
    select_excerpt,
)
from chaos.report.result import Result
from chaos.report.sections import describe_verdict
from chaos.report.timeline import LANES, build_swimlane, build_worker_spans, draw_timeline
from chaos.resume.steps import Steps
from tests.check.tamper import changed, without


def test_a_row_carries_the_measures_of_its_run(valid_run: FinishedRun) -> None:
    row = build_suite_row(valid_run)

    assert (row.attempts, row.lost_steps, row.recovery_s) == (2, 5, 3.466)
    assert (row.seed, row.backend, row.versions["ray"]) == (7, "ray", "2.60.0")
    assert row.standing == "expected"


def test_steps_that_nobody_sees_are_not_counted_as_none_lost(valid_run: FinishedRun) -> None:
    assert valid_run.baseline is not None
    seen, alone = (without(h, StepDone) for h in (valid_run.history, valid_run.baseline))
    run = replace(valid_run, history=seen, baseline=alone)

    assert build_suite_row(run).lost_steps is None
    assert {row.lost for row in build_restart_rows(run)} == {"-"}
    assert build_facts(run)["steps lost"] == "-"
    with pytest.raises(ValueError, match="no step that could be watched"):
        _ = Result(run).lost_steps
    assert "no step watched" in repr(Result(run))


def test_a_scenario_that_did_not_run_has_no_measures() -> None:
    row = build_unrun_row(scenario="s", file="f", error="e")

    assert (row.standing, row.attempts, row.recovery_s) == ("not_run", None, None)


def test_versions_are_found_with_and_without_a_table_of_their_own() -> None:
    assert find_versions({"versions": {"ray": "2.60.0"}}) == {"ray": "2.60.0"}
    assert find_versions({"ray": "2.60.0", "gpus": []}) == {"ray": "2.60.0"}
    assert find_versions({"versions": None}) == {}


def test_words_tell_expectation_from_surprise(
    valid_run: FinishedRun, guilty_run: FinishedRun, expected_invalid_run: FinishedRun
) -> None:
    assert describe_verdict(valid_run.verdict) == "pass"
    assert describe_verdict(guilty_run.verdict) == "fail"
    assert describe_verdict(expected_invalid_run.verdict) == "fail, as the scenario expects"


def test_lost_steps_are_those_that_a_later_attempt_did_again(valid_run: FinishedRun) -> None:
    rows = {(span.attempt, span.rank): span for span in build_worker_spans(valid_run.analysis.run)}

    assert {key: sum(s.is_lost for s in span.steps) for key, span in rows.items()} == {
        (0, 0): 5,
        (0, 1): 5,
        (1, 0): 0,
        (1, 1): 0,
    }


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


def test_swimlanes_hold_bars_and_phases_in_order_of_time(valid_run: FinishedRun) -> None:
    rows = build_swimlane(valid_run.analysis)
    phases = [bar.kind for bar in rows.bars if bar.lane == "controller"]

    assert rows.lanes == ("controller", "rank 0", "rank 1")
    assert phases == ["schedule", "start", "detect", "teardown", "schedule", "start", "restore"]
    assert all(bar.since_s <= bar.until_s for bar in rows.bars)
    assert sum(mark.kind == "commit" for mark in rows.marks) == 4
    assert [mark.lane for mark in rows.marks if mark.kind == "fault"] == ["rank 1"]


def of_many_ranks(history: History, ranks: int) -> History:
    """Let every step be made by many ranks."""
    entries = []
    for entry in history:
        what = entry.event
        if isinstance(what, StepDone):
            for rank in range(ranks):
                done = StepDone(
                    attempt=what.attempt,
                    rank=rank,
                    epoch=what.epoch,
                    step=what.step,
                    losses=what.losses,
                )
                entries.append(JournalEntry(time_ns=entry.time_ns, source="w", seq=0, event=done))
        else:
            entries.append(entry)
    return History(entries)


def test_of_many_ranks_the_struck_one_is_drawn(valid_run: FinishedRun) -> None:
    run = replace(valid_run, history=of_many_ranks(valid_run.history, 40))
    rows = build_swimlane(run.analysis)
    chart = draw_timeline(run.analysis)

    assert len(rows.lanes) == LANES + 1
    assert "rank 1" in rows.lanes
    assert rows.hidden == 40 - LANES
    assert chart is not None
    assert "24 more ranks" in chart.caption


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


def test_epochs_too_many_to_see_are_drawn_as_one_bar(
    valid_run: FinishedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timelines, "EPOCH_BARS", 5)
    rows = build_swimlane(valid_run.analysis)
    bars = [bar for bar in rows.bars if bar.kind.endswith("epoch")]

    assert len(bars) == 4
    assert bars[0].what == "attempt 0, epoch 0 and later"


def until(history: History, kind: type[Event]) -> History:
    """Cut a history after the first event of a kind, as if nothing more was recorded."""
    number, _ = next(history.select_events(kind))
    return History(history[: number + 1])


def test_a_worker_without_a_step_has_a_bar_all_the_same(valid_run: FinishedRun) -> None:
    run = replace(valid_run, history=until(valid_run.history, WorkerStarted))
    chart = draw_timeline(run.analysis)

    assert [bar.what for bar in build_swimlane(run.analysis).bars][:1] == ["attempt 0, no step"]
    assert chart is not None


def test_a_fault_that_was_not_seen_to_end_is_said_to_be_so(valid_run: FinishedRun) -> None:
    run = replace(valid_run, history=until(valid_run.history, FaultInvoked))
    (row,) = build_op_rows(run)

    assert (row.status, row.took) == ("not ended", "")


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


def test_each_restart_shows_what_it_cost(valid_run: FinishedRun) -> None:
    (row,) = build_restart_rows(valid_run)

    assert row.resume_source == "checkpoint_000001, epoch 2"
    assert row.lost == "5 steps"
    # detect, teardown, schedule, start, restore
    assert row.phase_durations == ("0.66 s", "0.03 s", "1.90 s", "0.84 s", "0.03 s")
    assert row.total == "3.47 s"


def test_an_op_shows_whom_it_struck_and_how_it_ended(
    valid_run: FinishedRun, unknown_run: FinishedRun
) -> None:
    (landed,), (in_doubt,) = build_op_rows(valid_run), build_op_rows(unknown_run)

    assert landed.target == "rank 1 · pid 201 · node node1nod"
    assert (landed.status, in_doubt.status) == ("ok", "info")


def test_an_excerpt_keeps_evidence_with_what_is_around_it(guilty_run: FinishedRun) -> None:
    rows = select_excerpt(guilty_run.history, guilty_run.verdict)
    numbers = [row.number for row in rows if isinstance(row, EventLine)]
    hidden = sum(row.events for row in rows if isinstance(row, OmittedEvents))

    assert {141, 142, 143, 144, 145} <= set(numbers)
    assert [row.number for row in rows if isinstance(row, EventLine) and row.is_evidence] == [143]
    assert len(numbers) + hidden == len(guilty_run.history)


def test_an_excerpt_of_many_anomalies_stays_readable(guilty_run: FinishedRun) -> None:
    everything = Anomaly(message="all", events=tuple(range(-5, 10_000)))

    assert len(build_event_lines(guilty_run.history, everything.events)) <= EVENTS_PER_ANOMALY


def started(rank: int, *accelerators: str) -> JournalEntry:
    event = WorkerStarted(
        attempt=0,
        rank=rank,
        world_size=2,
        pid=1,
        node_id="n",
        checkpoint=None,
        epoch=0,
        accelerators=accelerators,
    )
    return JournalEntry(time_ns=rank, source=f"worker-{rank}", seq=0, event=event)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ((), ""),
        ((started(0), started(1)), "CPU"),
        ((started(0, "GPU 0"), started(1, "GPU 1")), "rank 0: GPU 0; rank 1: GPU 1"),
        ((started(0, "GPU 0"), started(1)), "rank 0: GPU 0; rank 1: CPU"),
    ],
)
def test_the_settings_say_which_device_each_rank_ran_on(
    entries: tuple[JournalEntry, ...], said: str
) -> None:
    assert describe_devices(History(entries)) == said


def test_settings_say_what_was_replaced(valid_run: FinishedRun) -> None:
    groups = {group.title: group for group in build_settings(valid_run)}
    in_force = {row.name: row for row in groups["In force at trainer.fit()"].rows}

    assert in_force["max_failures"].before == "0"
    assert in_force["storage_path"].before == "/home/me/ray_results"
    assert in_force["train_loop_config.lr"].value == "0.05"
    assert in_force["train_loop_config.lr"].before is None
    assert {"Job", "Plan", "Versions and machine"} <= set(groups)


def test_a_replaced_setting_that_is_not_in_force_by_name_is_told_all_the_same(
    valid_run: FinishedRun,
) -> None:
    called = FitCalled(
        trainer="T",
        workers=1,
        run_name="n",
        storage_path="s",
        settings={},
        original_settings={"odd": 3},
    )
    entries = [JournalEntry(time_ns=0, source="driver", seq=0, event=called)]
    rows = build_settings(replace(valid_run, history=History(entries)))[0].rows

    assert [(row.value, row.before) for row in rows if row.name == "odd"] == [
        ("set by the scenario", "3")
    ]
