"""Parity with torchrun: the same script and the same kill, with Slurm around torchrun or not."""

import os
import sys
from pathlib import Path

import pytest

from chaos import runner
from chaos.extensions.slurm.backend import SlurmBackend
from chaos.faults.kill_worker import KillWorker
from chaos.launch.torchrun.backend import TorchrunBackend
from chaos.model.event import StepDone
from chaos.model.fault_entry import FaultEntry
from chaos.model.history import History
from chaos.model.plan import Plan
from chaos.model.scenario import ClusterShape, FailureBudget, Job, Scenario
from chaos.model.trigger import AtStep
from chaos.plan.make import make_plan
from chaos.report.outcome import FinishedRun
from chaos.run.directory import create_run
from chaos.run.journal import read_history
from chaos.run.ports import ScriptBackend
from tests.extensions.slurm.conftest import ROOT

pytestmark = [pytest.mark.embedded, pytest.mark.nightly, pytest.mark.timeout(600)]
KILL = FaultEntry(at=AtStep(epoch=1, step=2, rank=1), kill_worker=KillWorker())
SCRIPT = ROOT / "scenarios/jobs/spirals_torchrun.py"
UNDER_TORCHRUN = Job(
    launcher="torchrun", script=str(SCRIPT), workers=2, failure=FailureBudget(max_failures=2)
)
UNDER_SLURM = Job(
    launcher="slurm",
    script=str(ROOT / "scenarios/jobs/slurm/spirals_srun_torchrun.sbatch"),
    workers=2,
    env={"SPIRALS": str(SCRIPT)},
)


def judged(backend: ScriptBackend, job: Job, folder: Path) -> FinishedRun:
    folder.mkdir()
    scenario = Scenario(
        scenario="a kill at a step", job=job, cluster=ClusterShape(nodes=2), faults=(KILL,)
    )
    plan = make_plan(scenario, file=folder / "x.chaos.yaml", seed=0, cwd=folder, backend="ray")

    def of(plan: Plan, baseline: History | None = None) -> FinishedRun:
        directory = create_run(folder / "reports" / plan.slug, "run", plan, {})
        runner.execute(backend, plan, directory, baseline)
        history = read_history(directory.journals)
        return runner.judge_run(directory, plan, history, baseline, duration_s=1.0)

    clean = of(plan.build_baseline_plan())
    assert clean.verdict.status == "pass", clean.verdict.headline
    return of(plan, clean.history)


def losses(history: History) -> dict[tuple[int, int, int], tuple[float | str, ...] | None]:
    """Return the last losses of each rank at each step."""
    done = (event for _, event in history.select_events(StepDone))
    return {(one.rank, one.epoch, one.step): one.losses for one in done}


def test_a_kill_at_a_step_is_the_same_under_slurm_as_under_torchrun(
    slurm: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del slurm
    here = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{here}{os.pathsep}{os.environ['PATH']}")

    with TorchrunBackend() as backend:
        alone = judged(backend, UNDER_TORCHRUN, tmp_path / "torchrun")
    with SlurmBackend() as backend:
        within = judged(backend, UNDER_SLURM, tmp_path / "slurm")

    assert alone.verdict.status == within.verdict.status == "pass", within.verdict.headline
    assert within.verdict.restarts == alone.verdict.restarts
    assert losses(within.history) == losses(alone.history)
    assert losses(alone.history)
