"""A Lightning script, as its documentation writes one, is struck unmodified."""

import pytest

from tests.fork.conftest import ROOT, RunJob, kill

pytest.importorskip("lightning", reason="pip install ray-train-chaos[lightning]")
pytestmark = pytest.mark.timeout(120)


def test_a_killed_rank_of_a_lightning_job_comes_out_bitwise_equal(run: RunJob) -> None:
    script = ROOT / "scenarios/jobs/digits_lightning.py"
    baseline = run(script=script, workers=2).history

    judged = run(script=script, workers=2, ops=(kill(epoch=2, step=5, rank=1),), baseline=baseline)

    assert judged.verdict.validity == "valid", judged.verdict.headline
