"""One call that runs a job under torchrun, without a fault and with some, and judges the run."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chaos import runner
from chaos.launch.torchrun.backend import TorchrunBackend
from chaos.model.fault_entry import FaultEntry
from chaos.model.history import History
from chaos.model.plan import Plan, PlanBackend
from chaos.model.scenario import ClusterShape, FailureBudget, Job, Scenario
from chaos.plan.make import make_plan
from chaos.report.outcome import FinishedRun
from chaos.run.directory import create_run
from chaos.run.journal import read_history
from tests.planted import BUGS, planted

JOBS = Path(__file__).parent / "jobs"
RunJob = Callable[..., FinishedRun]


def script_of(name: str, folder: Path) -> Path:
    """Return the script of a job; one with a planted bug is written into a folder."""
    return planted(name, folder) if name in BUGS else JOBS / f"{name}.py"


def plan_of(
    script: Path,
    *faults: FaultEntry,
    cwd: Path,
    retries: int = 0,
    backend: PlanBackend = "torchrun",
    args: tuple[str, ...] = (),
    nodes: int = 1,
    least: int | None = None,
    **more: Any,
) -> Plan:
    job = Job(
        launcher="torchrun",
        script=str(script),
        args=args,
        workers=2,
        min_workers=least,
        failure=FailureBudget(max_failures=retries),
        **more,
    )
    cluster = ClusterShape(nodes=nodes)
    name = f"{script.stem} under torchrun"
    scenario = Scenario(scenario=name, job=job, cluster=cluster, faults=faults)
    return make_plan(scenario, file=cwd / "x.chaos.yaml", seed=0, cwd=cwd, backend=backend)


@dataclass
class Runs:
    """The runs of one test; the folder is theirs alone, and the jobs' working directory."""

    folder: Path
    backend: TorchrunBackend

    def of(self, plan: Plan, baseline: History | None = None) -> FinishedRun:
        directory = create_run(self.folder / "reports" / plan.slug, "run", plan, {})
        runner.execute(self.backend, plan, directory, baseline)
        history = read_history(directory.journals)
        return runner.judge_run(directory, plan, history, baseline, duration_s=1.0)


@pytest.fixture(scope="session")
def torchrun() -> Iterator[TorchrunBackend]:
    with TorchrunBackend() as backend:
        yield backend


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one folder for all: jobs that work in another are forked from another root."""
    return tmp_path_factory.mktemp("desk")


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one folder for all temporary files of the jobs."""
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture
def runs(
    desk: Path, scratch: Path, torchrun: TorchrunBackend, monkeypatch: pytest.MonkeyPatch
) -> Runs:
    monkeypatch.setenv("TMPDIR", str(scratch))
    for left in desk.iterdir():  # by the last test
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    return Runs(desk, torchrun)


@pytest.fixture
def run(runs: Runs, scratch: Path) -> RunJob:
    def with_faults(
        script: str | Path, *faults: FaultEntry, backend: PlanBackend = "torchrun"
    ) -> FinishedRun:
        path = script_of(script, scratch.parent) if isinstance(script, str) else script
        plan = plan_of(path, *faults, cwd=runs.folder, retries=len(faults), backend=backend)
        clean = runs.of(plan.build_baseline_plan())
        assert clean.verdict.status == "pass", clean.verdict.headline
        return runs.of(plan, clean.history)

    return with_faults
