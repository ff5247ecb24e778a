"""A script's own command: real processes, real signals, and chaos that starts it again."""

import json
from pathlib import Path

import pytest

from chaos.model.event import (
    DriverExited,
    FailureDecided,
    FaultInvoked,
    FileLoaded,
    Leftover,
    StartedAgain,
    StepDone,
    WorkerStarted,
)
from tests.called import chaos
from tests.python.conftest import SCENARIOS, RunScenario

pytestmark = [pytest.mark.embedded, pytest.mark.timeout(600)]


def test_a_plain_script_is_started_again_with_the_argument_by_which_it_resumes(
    run: RunScenario,
) -> None:
    done = run("alone_killed_mid_epoch")

    assert done.verdict.status == "pass", done.verdict.headline
    assert done.verdict.restarts.resumed == 1
    history = done.history
    assert [(e.rank, e.world_size) for _, e in history.select_events(WorkerStarted)] == [
        (0, 1),
        (0, 1),
    ]
    assert [event.code for _, event in history.select_events(DriverExited)] == [-9, 0]
    assert [event.start for _, event in history.select_events(StartedAgain)] == [1]
    decided = [(e.attempt, e.decision, e.charged) for _, e in history.select_events(FailureDecided)]
    assert decided == [(0, "RETRY", "failures")]
    assert {event.attempt for _, event in history.select_events(FileLoaded)} == {1}


@pytest.mark.parametrize(
    "scenario",
    [pytest.param("alone_begins_anew", marks=pytest.mark.nightly), "alone_optimizer_lost"],
)
def test_a_wrong_script_is_named(run: RunScenario, scenario: str) -> None:
    done = run(scenario)

    assert done.verdict.as_expected, done.verdict.headline
    assert done.verdict.status == "fail"


@pytest.mark.parametrize("by", [pytest.param("fork", marks=pytest.mark.nightly), "process"])
def test_processes_that_the_script_starts_are_its_ranks(run: RunScenario, by: str) -> None:
    done = run("spawned_killed_mid_epoch", args={"by": by})

    assert done.verdict.status == "pass", done.verdict.headline
    assert done.verdict.restarts.resumed == 1
    started = [
        (e.attempt, e.rank, e.world_size) for _, e in done.history.select_events(WorkerStarted)
    ]
    assert sorted(started) == [(0, 0, 2), (0, 1, 2), (1, 0, 2), (1, 1, 2)]
    assert not done.history.count(Leftover)


@pytest.mark.nightly  # half a minute, in which chaos waits for them
def test_processes_that_outlive_their_parent_are_named_and_ended(run: RunScenario) -> None:
    done = run("forked_parent_killed")

    assert done.verdict.as_expected, done.verdict.headline
    left = [number for number, _ in done.history.select_events(Leftover)]
    [again] = [number for number, _ in done.history.select_events(StartedAgain)]
    assert left
    assert max(left) < again
    steps = [e.attempt for number, e in done.history.select_events(StepDone) if number > again]
    assert set(steps) == {1}


def test_sigterm_before_the_machine_goes_lets_it_save_within_the_epoch(run: RunScenario) -> None:
    done = run("machine_preempted_saves")

    assert done.verdict.status == "pass", done.verdict.headline
    assert done.history.count(FaultInvoked) == 1


@pytest.mark.nightly
def test_a_command_whose_machine_is_lost_begins_on_another_one(run: RunScenario) -> None:
    done = run("machine_lost")

    assert done.verdict.status == "pass", done.verdict.headline
    nodes = {(e.attempt, e.node_id) for _, e in done.history.select_events(WorkerStarted)}
    assert nodes == {(0, "node-0"), (1, "node-1")}


@pytest.mark.nightly
@pytest.mark.parametrize(
    "scenario",
    [
        "hung_within_patience",
        "retries_used_up",
        "spawned_optimizer_lost",
        "spawned_raises_once",
        "straggler",
    ],
)
def test_other_faults_come_out_as_stated(run: RunScenario, scenario: str) -> None:
    assert run(scenario).verdict.as_expected


@pytest.mark.nightly
@pytest.mark.parametrize("by", ["fork", "spawn"])
def test_an_audit_finds_out_how_many_ranks_a_script_starts(tmp_path: Path, by: str) -> None:
    script = SCENARIOS.parent / "jobs/spirals_spawned.py"
    words = ("--max-runs", "1", "--format", "json", "--", "--by", by)

    done = chaos("audit", str(script), *words, folder=tmp_path)

    card = json.loads(done.out)
    assert done.code == 2, done.err  # one place is no answer
    assert (card["job"]["launcher"], card["job"]["workers"]) == ("python", 2)
    assert card["verdict"]["broken"] == 0
    assert [run["resumed"] for run in card["runs"]] == [1]
