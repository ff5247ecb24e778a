"""The rows that pages are made of."""

from dataclasses import replace

import pytest

from chaos.model.event import (
    FaultInvoked,
    FitCalled,
    StepDone,
    WorkerStarted,
)
from chaos.model.history import History, JournalEntry
from chaos.model.verdict import Anomaly
from chaos.report.outcome import FinishedRun, build_suite_row
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
from tests.check.tamper import without
from tests.report.rows import until


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


def test_a_fault_that_was_not_seen_to_end_is_said_to_be_so(valid_run: FinishedRun) -> None:
    run = replace(valid_run, history=until(valid_run.history, FaultInvoked))
    (row,) = build_op_rows(run)

    assert (row.status, row.took) == ("not ended", "")


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
