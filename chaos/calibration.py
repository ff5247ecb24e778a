"""Two short runs that measure what a job costs: one left alone and one struck, on fork."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from chaos.audit.base import base_plan, with_own_workers
from chaos.audit.extent import extent
from chaos.backends.open import open_backend
from chaos.errors import UsageError
from chaos.faults.kill_worker import KillWorker
from chaos.harness import Harness
from chaos.model.plan import Op, Plan
from chaos.model.scenario import FailureBudget
from chaos.model.trigger import AtStep
from chaos.plan.make import make_plan
from chaos.run.clock import SystemClock
from chaos.scenario.load import SUFFIX, load_scenario

RETRIES = 3


def calibration_runs(subject: Path, words: Sequence[str], reports: Path, console: Console) -> Path:
    """Run a script or a scenario clean and struck; gives the struck run's folder.

    Faults, times and processes are real; machines and network are this one's.
    """
    if subject.is_dir():
        raise UsageError("a folder is measured already", "Leave --calibrate out.")
    with open_backend("fork", console) as backend:
        harness = Harness(reports, console, Path.cwd(), backend, SystemClock())
        if subject.name.endswith(SUFFIX):
            plan = _of_scenario(subject)
        else:
            plan = _of_script(subject, words, harness)
        run = harness.run_plan(plan)
    return Path(run.directory)


def _of_scenario(subject: Path) -> Plan:
    scenario = load_scenario(subject)
    plan = make_plan(scenario, file=subject.resolve(), seed=0, cwd=Path.cwd())
    return _struck(plan) if not plan.ops else plan.model_copy(update={"backend": "fork"})


def _of_script(subject: Path, words: Sequence[str], harness: Harness) -> Plan:
    plan = base_plan(subject, words, cwd=Path.cwd(), seed=0)
    plan = plan.model_copy(update={"backend": "fork", "scenario": f"calibration of {subject.name}"})
    alone = harness.run_plan(plan)
    return _struck(with_own_workers(plan, extent(alone.history)))


def _struck(plan: Plan) -> Plan:
    """Give the plan with rank 0 killed after the first step behind the first commit."""
    op = Op(index=0, at=AtStep(epoch=1, step=1, rank=0), kill_worker=KillWorker())
    failure = plan.job.failure or FailureBudget(max_failures=RETRIES)
    job = plan.job.model_copy(update={"failure": failure})
    return plan.model_copy(update={"backend": "fork", "ops": (op,), "job": job})
