"""Faults that strike a worker, on real processes: what lands, what does not, what is left."""

from pathlib import Path

import psutil
import pytest

from chaos.faults.hang_worker import HangWorker
from chaos.faults.kill_worker import KillWorker
from chaos.faults.pause_worker import PauseWorker
from chaos.faults.poison_step import PoisonStep
from chaos.faults.raise_in_worker import RaiseInWorker
from chaos.faults.slow_worker import SlowWorker
from chaos.model.event import (
    FailureDecided,
    FaultEnded,
    FaultHealed,
    StepDone,
    WorkerGroupStarted,
    WorkerStarted,
)
from chaos.model.fault_entry import FaultEntry
from chaos.model.trigger import AtStep
from tests.forked.conftest import ROOT, Judged, RunJob

pytestmark = pytest.mark.timeout(120)

AT = AtStep(epoch=1, step=2, rank=0)
DIGITS = {"script": ROOT / "scenarios/jobs/digits_ddp.py", "epochs": 2, "batch-size": 128}
STUBBORN = Path(__file__).parent / "jobs/stubborn.py"


def ended(judged: Judged) -> list[tuple[str, str]]:
    return [(event.status, event.detail) for _, event in judged.history.select_events(FaultEnded)]


def processes(pid: int) -> list[psutil.Process]:
    return [psutil.Process(pid)] if psutil.pid_exists(pid) else []


def decisions(judged: Judged) -> list[str]:
    return [event.decision for _, event in judged.history.select_events(FailureDecided)]


def test_an_exception_at_a_step_is_a_failure_that_ray_names(run: RunJob) -> None:
    baseline = run().history

    judged = run(ops=(FaultEntry(at=AT, raise_in_worker=RaiseInWorker()),), baseline=baseline)

    assert judged.verdict.status == "pass", judged.verdict.headline
    assert ended(judged) == [("ok", "InjectedError of rank 0 was recorded")]
    assert decisions(judged) == ["RETRY"]


def test_ranks_raise_together_at_one_step(run: RunJob) -> None:
    fault = FaultEntry(at=AT, raise_in_worker=RaiseInWorker(ranks="all"))
    baseline = run(**DIGITS, workers=2).history

    judged = run(**DIGITS, workers=2, ops=(fault,), baseline=baseline)

    assert judged.verdict.status == "pass", judged.verdict.headline
    last = [(e.rank, e.step) for _, e in judged.history.select_events(StepDone) if e.attempt == 0]
    assert {rank: step for rank, step in last} == {0: 2, 1: 2}  # noqa: C416 - the last one wins


def test_an_exception_can_be_kept_for_a_later_attempt(run: RunJob) -> None:
    faults = (
        FaultEntry(at=AtStep(epoch=1, step=3, rank=0), kill_worker=KillWorker()),
        FaultEntry(at=AT, raise_in_worker=RaiseInWorker(attempts=(1,))),
    )
    baseline = run().history

    judged = run(ops=faults, baseline=baseline)

    assert judged.verdict.status == "pass", judged.verdict.headline
    assert sum(1 for _ in judged.history.select_events(WorkerGroupStarted)) == 3


def test_a_worker_that_ignores_sigterm_is_killed_after_its_grace(run: RunJob) -> None:
    fault = FaultEntry(at=AT, kill_worker=KillWorker(signal="TERM", grace_s=0.2))

    judged = run(script=STUBBORN, ops=(fault,))

    ((status, detail),) = ended(judged)
    assert status == "ok"
    assert detail.endswith("it outlived SIGTERM by 0.2 s, and SIGKILL ended it")


def test_a_pause_holds_a_worker_up_and_costs_no_retry(run: RunJob) -> None:
    baseline = run().history

    judged = run(ops=(FaultEntry(at=AT, pause_worker=PauseWorker(for_s=0.5)),), baseline=baseline)

    assert judged.verdict.status == "pass", judged.verdict.headline
    assert [e.detail[-17:] for _, e in judged.history.select_events(FaultHealed)] == [
        "goes on after 0.5 s"[-17:]
    ]
    assert decisions(judged) == []


def test_a_pause_for_ever_is_healed_and_leaves_no_process(run: RunJob) -> None:
    judged = run(run_s=4.0, ops=(FaultEntry(at=AT, pause_worker=PauseWorker()),))

    assert judged.verdict.status == "fail"
    assert judged.result("terminates") == "fail"
    assert sum(1 for _ in judged.history.select_events(FaultHealed)) == 1
    left = [p for _, e in judged.history.select_events(WorkerStarted) for p in processes(e.pid)]
    assert not psutil.wait_procs(left, timeout=10)[1]


def test_a_straggler_comes_out_the_same(run: RunJob) -> None:
    baseline = run().history
    fault = FaultEntry(at=AT, slow_worker=SlowWorker(delay_s=0.01, steps=3))

    judged = run(ops=(fault,), baseline=baseline)

    assert judged.verdict.status == "pass", judged.verdict.headline


@pytest.mark.nightly  # the limit and the stacks of a hang are in `test_backend`
def test_a_hang_is_noticed_by_nobody_until_the_limit(run: RunJob) -> None:
    judged = run(run_s=4.0, ops=(FaultEntry(at=AT, hang_worker=HangWorker()),))

    assert ended(judged) == [("ok", "rank 0 hangs in Python")]
    assert judged.result("terminates") == "fail"
    assert decisions(judged) == []


def test_a_poisoned_step_spends_the_whole_budget(run: RunJob) -> None:
    judged = run(ops=(FaultEntry(at=AT, poison_step=PoisonStep()),))

    assert decisions(judged) == ["RETRY", "RETRY", "RAISE"]
    assert [status for status, _ in ended(judged)] == ["ok", "ok", "ok"]
    assert judged.result("retry-budget") == "pass"
