"""A job without retries of Ray's: its script calls `fit()` again, or its command is started again.

Each call is the next attempt of its run.
"""

from pathlib import Path

import pytest

from chaos.audit.plans import build_base_plan
from chaos.check.judge import judge
from chaos.faults.kill_worker import KillWorker
from chaos.launch.forked.backend import ForkBackend
from chaos.model.event import (
    DriverExited,
    FailureDecided,
    FitCalled,
    StartedAgain,
    WorkerGroupStarted,
    WorkerStarted,
)
from chaos.model.history import History
from chaos.model.plan import Op, Plan
from chaos.model.scenario import FailureBudget
from chaos.model.trigger import AtStep
from chaos.model.verdict import Verdict
from chaos.run.directory import create_run
from chaos.run.journal import read_history

pytestmark = [pytest.mark.timeout(180), pytest.mark.embedded]
JOB = Path(__file__).parent / "jobs/tries_again.py"


def ran(
    tmp_path: Path, keeps: str, *, kills: int, job: Path = JOB, restarts: int | None = None
) -> tuple[History, Verdict]:
    places = (AtStep(epoch=epoch + 1, step=2, rank=0) for epoch in range(kills))
    ops = tuple(Op(index=n, at=at, kill_worker=KillWorker()) for n, at in enumerate(places))
    words = ["--keeps", keeps, *(["--once"] if restarts is not None else [])]
    alone = build_base_plan(job, words, cwd=tmp_path, seed=0, workers=1)
    if restarts is not None:
        failure = FailureBudget(max_failures=restarts)
        own = alone.job.model_copy(update={"restart": "command", "failure": failure})
        alone = alone.model_copy(update={"job": own})
    histories = []
    with ForkBackend() as backend:
        plans: tuple[Plan, ...] = (
            alone.build_baseline_plan(),
            alone.model_copy(update={"ops": ops}),
        )
        for number, plan in enumerate(plans):
            directory = create_run(tmp_path, str(number), plan, {})
            backend.execute(plan, directory, lambda _: None)
            histories.append(read_history(directory.journals))
    return histories[1], judge(plans[1], histories[1], histories[0])


@pytest.mark.parametrize(
    "keeps", ["name", *(pytest.param(k, marks=pytest.mark.nightly) for k in ("trainer", "config"))]
)
def test_each_call_is_the_next_attempt_of_the_run(tmp_path: Path, keeps: str) -> None:
    history, verdict = ran(tmp_path, keeps, kills=2)

    assert verdict.status == "pass", verdict.headline
    assert [event.attempt for _, event in history.select_events(WorkerGroupStarted)] == [0, 1, 2]
    assert [event.decision for _, event in history.select_events(FailureDecided)] == [
        "RAISE",
        "RAISE",
    ]
    assert history.count(FitCalled) == 3
    assert {event.settings["max_failures"] for _, event in history.select_events(FitCalled)} == {0}
    handed = [event.checkpoint for _, event in history.select_events(WorkerStarted)]
    assert handed[0] is None
    assert None not in handed[1:]


def test_a_run_of_another_name_begins_anew_and_both_names_are_told(tmp_path: Path) -> None:
    _, verdict = ran(tmp_path, "nothing", kills=1)

    assert verdict.status == "fail"
    assert "named its run tries-again-0 at first, and tries-again-1 at the end" in verdict.headline


def test_a_script_that_gives_up_has_failed(tmp_path: Path) -> None:
    history, verdict = ran(tmp_path, "name", kills=3)

    assert history.count(FitCalled) == 3
    assert verdict.status == "fail"


def test_a_command_that_fails_is_started_again_and_rays_own_retries_stay_as_they_are(
    tmp_path: Path,
) -> None:
    history, verdict = ran(tmp_path, "name", kills=2, restarts=2)

    assert verdict.status == "pass", verdict.headline
    assert [event.start for _, event in history.select_events(StartedAgain)] == [1, 2]
    assert [event.code for _, event in history.select_events(DriverExited)] == [1, 1, 0]
    assert [event.attempt for _, event in history.select_events(WorkerGroupStarted)] == [0, 1, 2]
    assert {event.settings["max_failures"] for _, event in history.select_events(FitCalled)} == {0}


def test_a_command_that_forgets_its_optimizer_is_named_after_a_restart(tmp_path: Path) -> None:
    text = JOB.read_text(encoding="utf-8")
    restores = '        optimizer.load_state_dict(state["optimizer"])\n'
    assert restores in text
    (job := tmp_path / "forgets.py").write_text(text.replace(restores, ""), encoding="utf-8")

    _, verdict = ran(tmp_path, "name", kills=1, job=job, restarts=1)

    assert verdict.status == "fail"
    assert "optimizer" in verdict.headline
