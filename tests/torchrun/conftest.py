"""One call that runs a job under torchrun, without a fault and with some, and judges the run."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from chaos import runner
from chaos.backends.torchrun.backend import TorchrunBackend
from chaos.model.fault_entry import FaultEntry
from chaos.model.history import History
from chaos.model.plan import Plan
from chaos.model.scenario import FailureBudget, Job, Scenario
from chaos.plan.make import make_plan
from chaos.report.outcome import FinishedRun
from chaos.run.directory import create
from chaos.run.journal import read_history

JOBS = Path(__file__).parent / "jobs"
RunJob = Callable[..., FinishedRun]


def plan_of(script: Path, *faults: FaultEntry, cwd: Path, retries: int = 0) -> Plan:
    job = Job(
        launcher="torchrun",
        script=str(script),
        workers=2,
        failure=FailureBudget(max_failures=retries),
    )
    scenario = Scenario(scenario=f"{script.stem} under torchrun", job=job, faults=faults)
    return make_plan(scenario, file=cwd / "x.chaos.yaml", seed=0, cwd=cwd)


@dataclass
class Runs:
    """The runs of one test, in a folder of their own, which is the jobs' working directory too."""

    folder: Path

    def of(self, plan: Plan, baseline: History | None = None) -> FinishedRun:
        directory = create(self.folder / "reports" / plan.slug, "run", plan, {})
        with TorchrunBackend() as backend:
            runner.execute(backend, plan, directory, baseline)
        history = read_history(directory.journals)
        return runner.judged(directory, plan, history, baseline, duration_s=1.0)


@pytest.fixture
def run(tmp_path: Path) -> RunJob:
    def with_faults(script: str | Path, *faults: FaultEntry) -> FinishedRun:
        path = JOBS / f"{script}.py" if isinstance(script, str) else script
        runs = Runs(tmp_path)
        clean = runs.of(plan_of(path, cwd=tmp_path).baseline())
        assert clean.verdict.status == "pass", clean.verdict.headline
        return runs.of(plan_of(path, *faults, cwd=tmp_path, retries=len(faults)), clean.history)

    return with_faults
