"""Random faults on a right job give no false alarm, whatever the seed."""

from pathlib import Path

import pytest
from rich.console import Console

from chaos.harness import Harness
from chaos.launch.forked.backend import ForkBackend
from chaos.run.clock import SystemClock
from tests.forked.conftest import ROOT

JOB = ROOT / "scenarios/smoke/worker_killed_mid_epoch.chaos.yaml"
pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("seeds", [pytest.param(range(50), marks=pytest.mark.nightly)], ids=str)
def test_a_right_job_survives_random_plans(
    seeds: range, backend: ForkBackend, tmp_path: Path
) -> None:
    harness = Harness(tmp_path, Console(quiet=True), ROOT, backend, SystemClock())

    rows = [
        harness.run_suite_plan(plan)
        for plan in harness.draw_plans(JOB, seeds=seeds, backend="fork")
    ]

    assert len(rows) == len(seeds)
    assert not [f"seed {row.seed}: {row.headline}" for row in rows if row.standing != "expected"]
