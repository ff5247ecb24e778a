"""A fault while a job validates its model."""

import pytest

from chaos.faults.kill_worker import KillWorker
from chaos.model.event import FaultInvoked, ReportBegun
from chaos.model.fault_entry import FaultEntry
from chaos.model.trigger import AtMoment
from tests.forked.conftest import ROOT, RunJob

pytestmark = pytest.mark.timeout(120)
JOB = ROOT / "tests/forked/jobs/validates.py"


def test_a_death_in_validation_comes_after_the_steps_and_before_the_report(run: RunJob) -> None:
    baseline = run(script=JOB).history
    at = FaultEntry(at=AtMoment(epoch=1, moment="validating", rank=0), kill_worker=KillWorker())

    judged = run(script=JOB, ops=(at,), baseline=baseline)

    assert judged.verdict.status == "pass", judged.verdict.headline
    assert "in the validation of epoch 1" in judged.verdict.headline
    (struck,) = [number for number, _ in judged.history.select_events(FaultInvoked)]
    before = [e for n, e in judged.history.select_events(ReportBegun) if n < struck and e.rank == 0]
    assert [begun.epoch for begun in before] == [0]
