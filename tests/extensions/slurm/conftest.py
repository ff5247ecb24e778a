"""One call that runs a scenario of `scenarios/slurm`; skipped where Slurm is not installed."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos import runner
from chaos.errors import UnmetNeedError
from chaos.extensions.slurm.backend import SlurmBackend
from chaos.extensions.slurm.programs import find_missing_slurm
from chaos.job_failure import check_needs
from chaos.model.history import History
from chaos.model.plan import Plan
from chaos.plan.make import make_plan
from chaos.report.outcome import FinishedRun
from chaos.run.directory import create_run
from chaos.run.journal import read_history
from chaos.scenario_file.load import load_scenario

ROOT = Path(__file__).parents[3]
SCENARIOS = ROOT / "scenarios/slurm"
RunScenario = Callable[[str], FinishedRun]


@pytest.fixture
def slurm() -> None:
    if missing := find_missing_slurm():
        pytest.skip(f"Slurm is not installed: no {missing[0]}")


@pytest.fixture
def run(slurm: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunScenario:
    """Return a function that runs a scenario by its name, after its baseline."""
    del slurm
    # The scripts start `python` and `torchrun`, as in an environment that is activated.
    here = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{here}{os.pathsep}{os.environ['PATH']}")
    desk = tmp_path / "desk"
    desk.mkdir()
    (desk / "scenarios").symlink_to(ROOT / "scenarios")  # the jobs' paths begin there

    def of(plan: Plan, baseline: History | None = None) -> FinishedRun:
        directory = create_run(tmp_path / "reports" / plan.slug, "run", plan, {})
        with SlurmBackend() as backend:
            runner.execute(backend, plan, directory, baseline)
        history = read_history(directory.journals)
        return runner.judge_run(directory, plan, history, baseline, duration_s=1.0)

    def ran(name: str) -> FinishedRun:
        file = SCENARIOS / f"{name}.chaos.yaml"
        plan = make_plan(load_scenario(file), file=file, seed=0, cwd=desk, backend="ray")
        try:
            check_needs(plan, os.environ)
        except UnmetNeedError as error:
            pytest.skip(str(error))
        clean = of(plan.build_baseline_plan())
        assert clean.verdict.status == "pass", clean.verdict.headline
        return of(plan, clean.history)

    return ran
