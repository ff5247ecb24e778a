"""torchrun's command is started again by chaos; torchrun itself restarts nothing."""

from pathlib import Path
from typing import Any

import pytest

from chaos.faults.kill_node import KillNode
from chaos.model.event import (
    DriverExited,
    FailureDecided,
    FileLoaded,
    Leftover,
    StartedAgain,
    WorkerGroupStarted,
)
from chaos.model.fault_entry import FaultEntry
from chaos.model.scenario import Tier
from chaos.model.trigger import AtStep
from tests.torchrun.conftest import Runs, plan_of
from tests.torchrun.test_runs import killed

pytestmark = [pytest.mark.embedded, pytest.mark.timeout(600)]
JOB = Path(__file__).parents[2] / "scenarios/jobs/spirals_torchrun.py"
NEVER = ("--resume", "never")


def test_a_command_is_started_again_with_the_argument_by_which_it_resumes(runs: Runs) -> None:
    kills = killed(1, 2, rank=1), killed(2, 1, rank=0)
    by: dict[str, Any] = {"restart": "command", "restart_args": {"resume": "always"}}
    plan = plan_of(JOB, *kills, cwd=runs.folder, retries=2, args=NEVER, backend="fork", **by)
    clean = runs.of(plan.build_baseline_plan())

    done = runs.of(plan, clean.history)

    assert done.verdict.status == "pass", done.verdict.headline
    assert done.verdict.restarts.resumed == 2
    history = done.history
    assert [event.start for _, event in history.select_events(StartedAgain)] == [1, 2]
    assert [event.code for _, event in history.select_events(DriverExited)] == [1, 1, 0]
    assert [event.attempt for _, event in history.select_events(WorkerGroupStarted)] == [0, 1, 2]
    decided = [
        (event.attempt, event.decision) for _, event in history.select_events(FailureDecided)
    ]
    assert decided == [(0, "RAISE"), (1, "RAISE")]
    assert not history.count(Leftover)


@pytest.mark.parametrize("disk", ["shared", pytest.param("node", marks=pytest.mark.nightly)])
def test_a_machine_that_is_lost_is_followed_by_another_without_its_disk(
    runs: Runs, disk: Tier
) -> None:
    place = AtStep(epoch=1, step=2, rank=1)
    lost = FaultEntry(at=place, kill_node=KillNode())
    plan = plan_of(JOB, lost, cwd=runs.folder, retries=1, backend="fork", restart="command")
    plan = plan.model_copy(update={"storage": {".": disk}})
    clean = runs.of(plan.build_baseline_plan())

    done = runs.of(plan, clean.history)

    assert done.verdict.status == ("pass" if disk == "shared" else "fail"), done.verdict.headline
    groups = [event for _, event in done.history.select_events(WorkerGroupStarted)]
    assert [{worker.node_id for worker in group.workers} for group in groups] == [
        {"node-0"},
        {"node-1"},
    ]
    assert done.history.count(FileLoaded) == (2 if disk == "shared" else 0)


@pytest.mark.nightly
def test_without_that_argument_it_begins_anew_and_is_told_so(runs: Runs) -> None:
    plan = plan_of(
        JOB,
        killed(1, 2, rank=1),
        cwd=runs.folder,
        retries=1,
        args=NEVER,
        backend="fork",
        restart="command",
    )
    clean = runs.of(plan.build_baseline_plan())

    done = runs.of(plan, clean.history)

    assert done.verdict.status == "fail"
    assert "scratch" in done.verdict.headline
    assert not done.history.count(FileLoaded)
