"""Short runs that measure what a job costs: one left alone, and some struck at drawn places."""

import random
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from chaos.audit.job_profile import JobProfile, job_profile
from chaos.audit.plans import base_plan, with_own_workers
from chaos.backends.open import open_backend
from chaos.calibration.timed_ops import Losses
from chaos.check.trial import Trial
from chaos.errors import UsageError
from chaos.harness import Harness
from chaos.model.plan import BackendName, Op, Plan
from chaos.model.scenario import FailureBudget
from chaos.model.trigger import AtStep
from chaos.plan.make import make_plan
from chaos.report.outcome import FinishedRun
from chaos.run.clock import SystemClock
from chaos.scenario_file.load import SUFFIX, load_scenario

RETRIES = 3
STRUCK: dict[BackendName, int] = {"fork": 6, "ray": 4}  # a restart differs from the next


@dataclass(frozen=True)
class Trying:
    """How a job is run to hold the model against it; `scale`: None for a few losses a run.

    `folder` holds the runs: those that are there already are not made again.
    """

    reports: Path
    console: Console
    backend: BackendName
    runs: int
    scale: float | None = None
    seed: int = 0
    losses: Losses = "kills"
    folder: Path | None = None


def calibration_runs(
    trying: Trying, subject: Path, words: Sequence[str], *, known: Sequence[Trial] = ()
) -> Generator[Trial]:
    """Run a script or a scenario clean and struck; yields the struck runs, each with its baseline.

    They lose what `losses` says, without notice, and with a spare node at hand; those in `known`
    are not made again. Faults, times and processes are real; machines and network are this one's.
    """
    backend, console = trying.backend, trying.console
    with open_backend(backend, console) as opened:
        harness = Harness(trying.reports, console, Path.cwd(), opened, SystemClock())
        alone = job_alone(subject, words, backend)
        clean = harness.baseline(alone)
        plan = with_own_workers(alone, job_profile(clean))
        kind = "kill_worker" if trying.losses == "kills" else "kill_node"
        for at in struck_places(job_profile(clean), count=STRUCK[backend], seed=trying.seed):
            ops = (Op.model_validate({"index": 0, "at": at, kind: {}}),)
            made = next((trial for trial in known if trial.plan.ops == ops), None)
            yield made or _trial(harness.run_plan(_struck(plan, ops[0])))


def job_alone(subject: Path, words: Sequence[str], backend: BackendName) -> Plan:
    """Give the plan of a script's or a scenario's job with nothing done to it."""
    if subject.is_dir():
        raise UsageError("a folder is measured already", "Leave --calibrate out.")
    if subject.name.endswith(SUFFIX):
        scenario = load_scenario(subject)
        plan = make_plan(scenario, file=subject.resolve(), seed=0, cwd=Path.cwd())
        plan = plan.model_copy(update={"ops": ()})
    else:
        plan = base_plan(subject, words, cwd=Path.cwd(), seed=0)
    title = f"calibration of {subject.name}"
    return plan.model_copy(update={"backend": backend, "scenario": title})


def struck_places(job: JobProfile, *, count: int, seed: int) -> Iterator[AtStep]:
    """Draw steps behind the first commit, and ranks, at which the job is to be struck."""
    later = [(epoch, rank) for epoch, rank in job.steps if epoch > 0]
    if not later:
        raise UsageError(
            "the job reports only once, so that no restart can be measured",
            "Let it run for more epochs; a script's own arguments go after --.",
        )
    draws = random.Random(seed)  # noqa: S311  repeatable is what it must be
    for _ in range(count):
        epoch, rank = draws.choice(later)
        step = draws.randint(1, job.steps[epoch, rank])
        yield AtStep(epoch=epoch, step=step, rank=rank)


def _struck(plan: Plan, op: Op) -> Plan:
    failure = plan.job.failure or FailureBudget(max_failures=RETRIES)
    job = plan.job.model_copy(update={"failure": failure})
    return plan.model_copy(update={"ops": (op,), "job": job})


def _trial(run: FinishedRun) -> Trial:
    return Trial(run.plan, run.history, run.baseline)
