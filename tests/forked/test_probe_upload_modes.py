"""Checkpoints that travel beside training, or that the job puts into storage by itself."""

import pytest

from chaos.audit.job_profile import measure_job
from chaos.faults.kill_worker import KillWorker
from chaos.model.event import FaultInvoked, UploadBegun
from chaos.model.fault_entry import FaultEntry
from chaos.model.trigger import AtMoment, Moment
from tests.forked.conftest import ROOT, RunJob, kill

pytestmark = pytest.mark.timeout(120)
JOB = ROOT / "tests/forked/jobs/upload_modes.py"


@pytest.mark.parametrize("mode", [pytest.param("ASYNC", marks=pytest.mark.nightly), "NO_UPLOAD"])
def test_a_job_that_does_not_upload_in_its_report_is_judged_like_any_other(
    run: RunJob, mode: str
) -> None:
    baseline = run(script=JOB, mode=mode).history

    judged = run(script=JOB, mode=mode, ops=(kill(epoch=2, step=3),), baseline=baseline)

    assert judged.verdict.status == "pass", judged.verdict.headline
    seen = measure_job(baseline)
    assert seen.saved_epochs == (0, 1, 2)
    assert seen.uploads == (((0, 0), (1, 0), (2, 0)) if mode == "ASYNC" else ())


@pytest.mark.parametrize(
    "moment", ["upload_begin", pytest.param("upload_end", marks=pytest.mark.nightly)]
)
def test_an_upload_beside_training_has_the_place_of_its_report(run: RunJob, moment: Moment) -> None:
    baseline = run(script=JOB, mode="ASYNC").history
    at = FaultEntry(at=AtMoment(epoch=1, moment=moment, rank=0), kill_worker=KillWorker())

    judged = run(script=JOB, mode="ASYNC", ops=(at,), baseline=baseline)

    assert judged.verdict.status == "pass", judged.verdict.headline
    assert judged.verdict.restarts.resumed == 1
    struck = next(e for _, e in judged.history.select_events(FaultInvoked))
    uploads = [
        e.epoch for _, e in judged.history.select_events(UploadBegun) if e.attempt == struck.attempt
    ]
    assert uploads == [0, 1]
