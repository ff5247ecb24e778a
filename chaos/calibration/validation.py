"""Runs of a job that a compressed market strikes by the clock, beside what the model foretold."""

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from chaos.backends.open import open_backend
from chaos.calibration.timed_strikes import TimedStrikes
from chaos.check.trial import Trial
from chaos.errors import UsageError
from chaos.model.plan import BackendName, Plan
from chaos.model.scenario import FailureBudget
from chaos.preflight.ask import question_of_runs
from chaos.preflight.comparison import Validation
from chaos.preflight.compression import Loss, compressed, drawn_losses, pool_for, scale_for
from chaos.preflight.course import Course, course_of
from chaos.preflight.foretold import asked_of, compared
from chaos.preflight.market import Market
from chaos.preflight.question import Question
from chaos.run.clock import Clock, SystemClock, stamp
from chaos.run.directory import create
from chaos.run.environment import environment
from chaos.run.journal import read_history
from chaos.run.ports import Backend

COSTS_DRAWN = 20
LIMIT_S = 90.0  # on a run, at least: one that hangs is said to, and left out
_UNTIL = 60  # times the work: losses are drawn for so long


@dataclass(frozen=True)
class Trying:
    """How a job is run to hold the model against it; `scale`: None for a few losses a run."""

    reports: Path
    console: Console
    backend: BackendName
    runs: int
    scale: float | None = None
    seed: int = 0


def validation(trying: Trying, calibrated: Sequence[Trial], market: Market) -> Validation:
    """Run the job `runs` times on the compressed market, and compare with the forecast.

    The costs are those of `calibrated`, other runs of the same job.
    """
    question = question_of_runs(calibrated, source="other runs", market=market)
    nodes, costs = question.job.nodes, question.costs
    assert costs is not None
    work_s = question.work_s + costs.begin_s
    scale = trying.scale or scale_for(market, nodes=nodes, work_s=work_s)
    fast, pool = compressed(market, scale), pool_for(market, nodes=nodes)
    losses = [
        drawn_losses(fast, nodes=nodes, pool=pool, until_s=_UNTIL * work_s, seed=seed)
        for seed in range(trying.seed, trying.seed + trying.runs)
    ]
    plan = _with_retries(calibrated[0].plan, run_s=max(LIMIT_S, 20 * work_s))
    found = list(_runs(trying, plan, losses, steps=question.job.steps))
    courses = [course for course, _ in found if course is not None]
    if not courses:
        raise UsageError(
            "no run of the validation came to its end", "Is the market too hard? See --scale."
        )
    asked = [asked_of(other, fast, pool=pool) for other in _recosted(question, calibrated)]
    struck, lost = sum(count for _, count in found), trying.runs - len(courses)
    what = (
        f"{len(courses)} runs on {trying.backend}, struck {struck} times by {fast.name}; costs "
        f"from {len(calibrated)} other runs"
    )
    notes = (f"{lost} of {trying.runs} runs did not finish and are left out",) if lost else ()
    return Validation(what, compared(asked, courses, seed=trying.seed), notes)


def _recosted(question: Question, calibrated: Sequence[Trial]) -> Iterator[Question]:
    """Give the question with its costs from runs drawn again and again from those there are."""
    draws = random.Random(0)  # noqa: S311
    for _ in range(COSTS_DRAWN):
        again = draws.choices(calibrated, k=len(calibrated))
        yield question_of_runs(again, source="other runs", market=question.market)


def _runs(
    trying: Trying, plan: Plan, losses: Sequence[Sequence[Loss]], *, steps: int
) -> Iterator[tuple[Course | None, int]]:
    """Run the job once for each row of losses; gives its course, and how often it was struck."""
    clock = SystemClock()
    folder = trying.reports / "validations" / stamp(clock.wall_ns())
    with open_backend(trying.backend, trying.console) as backend:
        for n, row in enumerate(losses):
            trial, struck = _run(plan, backend, folder, (n, row), clock)
            trying.console.print(f"  validation run {n + 1} of {len(losses)}", style="dim")
            yield course_of(trial, steps=steps), struck


def _with_retries(plan: Plan, *, run_s: float) -> Plan:
    """Give the plan with nothing done to it, and retries for ever."""
    job = plan.job.model_copy(update={"failure": FailureBudget(max_failures=-1)})
    limits = plan.limits.model_copy(update={"run_s": run_s})
    return plan.model_copy(update={"job": job, "ops": (), "limits": limits})


def _run(
    plan: Plan, backend: Backend, folder: Path, numbered: tuple[int, Sequence[Loss]], clock: Clock
) -> tuple[Trial, int]:
    number, losses = numbered
    directory = create(folder, f"{number:03}-{os.getpid()}", plan, environment(Path.cwd()))
    strikes = TimedStrikes(losses, clock=clock, seed=number)
    try:
        backend.execute(plan, directory, strikes)
    finally:
        history = read_history(directory.journals)
        directory.save_history(history)
    return Trial(plan, history), strikes.struck
