"""torchrun's command is started again by chaos; torchrun itself restarts nothing."""

from pathlib import Path
from typing import Any

import pytest

from chaos.model.event import (
    DriverExited,
    FailureDecided,
    FileLoaded,
    Leftover,
    StartedAgain,
    WorkerGroupStarted,
)
from tests.torchrun.conftest import Runs, plan_of
from tests.torchrun.test_runs import killed

pytestmark = [pytest.mark.embedded, pytest.mark.timeout(600)]
JOB = Path(__file__).parents[2] / "scenarios/jobs/spirals_torchrun.py"
NEVER = ("--resume", "never")


def test_a_command_is_started_again_with_the_argument_by_which_it_resumes(runs: Runs) -> None:
    kills = killed(1, 2, rank=1), killed(2, 1, rank=0)
    by: dict[str, Any] = {"restart": "command", "restart_args": {"resume": "always"}}
    plan = plan_of(JOB, *kills, cwd=runs.folder, retries=2, args=NEVER, backend="fork", **by)
    clean = runs.of(plan.baseline())

    done = runs.of(plan, clean.history)

    assert done.verdict.status == "pass", done.verdict.headline
    assert done.verdict.restarts.resumed == 2
    history = done.history
    assert [event.start for _, event in history.of(StartedAgain)] == [1, 2]
    assert [event.code for _, event in history.of(DriverExited)] == [1, 1, 0]
    assert [event.attempt for _, event in history.of(WorkerGroupStarted)] == [0, 1, 2]
    decided = [(event.attempt, event.decision) for _, event in history.of(FailureDecided)]
    assert decided == [(0, "RAISE"), (1, "RAISE")]
    assert not history.count(Leftover)


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
    clean = runs.of(plan.baseline())

    done = runs.of(plan, clean.history)

    assert done.verdict.status == "fail"
    assert "scratch" in done.verdict.headline
    assert not done.history.count(FileLoaded)
