"""Checkpoints that travel beside training, or that the job puts into storage by itself."""

import pytest

from chaos.audit.job_profile import job_profile
from chaos.audit.places import coverage, kill_map
from tests.fork.conftest import ROOT, RunJob, kill

pytestmark = pytest.mark.timeout(120)
JOB = ROOT / "tests/fork/jobs/upload_modes.py"


@pytest.mark.parametrize("mode", ["ASYNC", "NO_UPLOAD"])
def test_a_job_that_does_not_upload_in_its_report_is_judged_like_any_other(
    run: RunJob, mode: str
) -> None:
    baseline = run(script=JOB, mode=mode).history

    judged = run(script=JOB, mode=mode, ops=(kill(epoch=2, step=3),), baseline=baseline)

    assert judged.verdict.status == "pass", judged.verdict.headline
    seen = job_profile(baseline)
    assert (seen.saved, seen.uploads) == ((0, 1, 2), ())
    rows = {row.group: row for row in coverage(seen, kill_map(seen, seed=0), seed=0)}
    assert "beside training has no place" in (rows["upload begins"].why_none or "")
