"""A resume that hangs is answered in seconds, by name of the lines; a sleep that ends is none."""

import pytest

from chaos.faults.kill_worker import KillWorker
from chaos.model.event import DeadlinePassed, ThreadWaits
from chaos.model.fault_entry import FaultEntry
from chaos.model.plan import PlanBackend
from chaos.model.trigger import AtStep
from chaos.report.outcome import FinishedRun
from tests.torchrun.conftest import JOBS, Runs, plan_of

pytestmark = [pytest.mark.embedded, pytest.mark.timeout(600)]
IDLE_S = 3.0  # the whole wait of `retry` is longer


def resumed(runs: Runs, after: str, backend: PlanBackend) -> FinishedRun:
    fault = FaultEntry(at=AtStep(epoch=1, step=2, rank=0), kill_worker=KillWorker())
    plan = plan_of(
        JOBS / "waits.py",
        fault,
        cwd=runs.folder,
        retries=1,
        backend=backend,
        args=("--after", after),
    )
    clean = runs.of(plan.build_baseline_plan())
    assert clean.verdict.status == "pass", clean.verdict.headline
    limits = plan.limits.model_copy(update={"idle_s": IDLE_S, "run_s": 60.0})
    return runs.of(plan.model_copy(update={"limits": limits}), clean.history)


@pytest.mark.parametrize("backend", ["fork", pytest.param("torchrun", marks=pytest.mark.nightly)])
def test_a_queue_that_nobody_fills_is_named_with_the_thread_beside_it(
    runs: Runs, backend: PlanBackend
) -> None:
    run = resumed(runs, "queue", backend)

    ((_, ended),) = run.history.select_events(DeadlinePassed)
    assert ended.still_s is not None
    assert ended.still_s < 3 * IDLE_S
    waits = [wait for _, wait in run.history.select_events(ThreadWaits)]
    assert {(w.rank, w.function, w.callee, w.is_main) for w in waits} == {
        (rank, *place)
        for rank in (0, 1)
        for place in (("take", "queue.get", True), ("run", "queue.get", False))
    }
    assert run.verdict.status == "fail"
    assert "ranks 0 and 1 wait in" in run.verdict.headline
    assert "waits.py" in run.verdict.headline


def test_each_rank_is_named_with_its_own_line(runs: Runs) -> None:
    run = resumed(runs, "barrier", "fork")

    waits = {w.rank: w.callee for _, w in run.history.select_events(ThreadWaits) if w.is_main}
    assert waits == {0: "barrier", 1: "queue.get"}
    assert "rank 0 waits in" in run.verdict.headline
    assert "rank 1 waits in" in run.verdict.headline


@pytest.mark.parametrize("backend", ["fork", pytest.param("torchrun", marks=pytest.mark.nightly)])
def test_a_job_that_sleeps_between_its_tries_is_let_go_on(runs: Runs, backend: PlanBackend) -> None:
    run = resumed(runs, "retry", backend)

    assert not any(run.history.select_events(DeadlinePassed))
    assert run.verdict.status == "pass", run.verdict.headline
