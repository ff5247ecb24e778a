"""A script that calls `fit()` again after a failure: each call is the next attempt of its run."""

from pathlib import Path

import pytest

from chaos.audit.plans import base_plan
from chaos.check.judge import judge
from chaos.faults.kill_worker import KillWorker
from chaos.launch.forked.backend import ForkBackend
from chaos.model.event import FailureDecided, FitCalled, WorkerGroupStarted, WorkerStarted
from chaos.model.history import History
from chaos.model.plan import Op, Plan
from chaos.model.trigger import AtStep
from chaos.model.verdict import Verdict
from chaos.run.directory import create
from chaos.run.journal import read_history

pytestmark = [pytest.mark.timeout(180), pytest.mark.embedded]
JOB = Path(__file__).parent / "jobs/tries_again.py"


def ran(tmp_path: Path, keeps: str, *, kills: int) -> tuple[History, Verdict]:
    places = (AtStep(epoch=epoch + 1, step=2, rank=0) for epoch in range(kills))
    ops = tuple(Op(index=n, at=at, kill_worker=KillWorker()) for n, at in enumerate(places))
    alone = base_plan(JOB, ["--keeps", keeps], cwd=tmp_path, seed=0, workers=1)
    histories = []
    with ForkBackend() as backend:
        plans: tuple[Plan, ...] = (alone.baseline(), alone.model_copy(update={"ops": ops}))
        for number, plan in enumerate(plans):
            directory = create(tmp_path, str(number), plan, {})
            backend.execute(plan, directory, lambda _: None)
            histories.append(read_history(directory.journals))
    return histories[1], judge(plans[1], histories[1], histories[0])


@pytest.mark.parametrize("keeps", ["name", "trainer", "config"])
def test_each_call_is_the_next_attempt_of_the_run(tmp_path: Path, keeps: str) -> None:
    history, verdict = ran(tmp_path, keeps, kills=2)

    assert verdict.status == "pass", verdict.headline
    assert [event.attempt for _, event in history.of(WorkerGroupStarted)] == [0, 1, 2]
    assert [event.decision for _, event in history.of(FailureDecided)] == ["RAISE", "RAISE"]
    assert history.count(FitCalled) == 3
    assert {event.settings["max_failures"] for _, event in history.of(FitCalled)} == {0}
    handed = [event.checkpoint for _, event in history.of(WorkerStarted)]
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
