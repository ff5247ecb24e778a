"""Random faults on a right job give no false alarm on a real cluster either."""

import json
from pathlib import Path

import pytest

from tests.ray.command import chaos

pytestmark = [pytest.mark.ray, pytest.mark.nightly, pytest.mark.timeout(900)]
JOB = "scenarios/smoke/worker_killed_mid_epoch.chaos.yaml"


def test_a_right_job_survives_five_random_plans(tmp_path: Path) -> None:
    ran = chaos("run", JOB, "--random", "5", reports=tmp_path)

    assert ran.code == 0, ran.output
    verdicts = [json.loads((run / "verdict.json").read_text())["status"] for run in ran.runs()]
    assert verdicts == ["pass"] * 5
