"""A job that is written for GPUs trains on the CPU of a laptop, and the record says so."""

from pathlib import Path

import pytest

from chaos.model.event import FitCalled, WorkerStarted
from tests.forked.conftest import RunJob, kill

pytestmark = pytest.mark.timeout(120)

WANTS_GPUS = Path(__file__).parent / "jobs/wants_gpus.py"


def test_a_job_for_gpus_is_struck_on_the_cpu(run: RunJob) -> None:
    job = {"script": WANTS_GPUS, "workers": 2}
    baseline = run(**job).history

    judged = run(**job, ops=(kill(epoch=1, step=2),), baseline=baseline)

    assert judged.verdict.status == "pass", judged.verdict.headline
    ((_, called),) = judged.history.select_events(FitCalled)
    assert called.original_settings["use_gpu"] is True
    assert called.original_settings["accelerator_type"] == "H100"
    assert called.original_settings["backend"] == "nccl"
    assert called.settings["resources_per_worker"] == {"CPU": 1}
    assert not any(event.accelerators for _, event in judged.history.select_events(WorkerStarted))
