"""Random faults on a right job give no false alarm, whatever the seed."""

from pathlib import Path

import pytest
from rich.console import Console

from chaos.backends.fork.backend import ForkBackend
from chaos.harness import Harness
from chaos.run.clock import SystemClock
from tests.fork.conftest import ROOT

JOB = ROOT / "scenarios/smoke/worker_killed_mid_epoch.chaos.yaml"
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]


def test_a_right_job_survives_random_plans(backend: ForkBackend, tmp_path: Path) -> None:
    harness = Harness(tmp_path, Console(quiet=True), ROOT, backend, SystemClock())

    plans = harness.random_plans(JOB, seeds=range(50), backend="fork")

    rows = [harness.row(plan) for plan in plans]

    assert len(rows) == 50
    assert not [f"seed {row.seed}: {row.why}" for row in rows if row.standing != "expected"]
