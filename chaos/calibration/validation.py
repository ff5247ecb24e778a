"""Runs of a job that a compressed market strikes by the clock, beside what the model foretold."""

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.backends.open import open_backend
from chaos.calibration.runs import Trying
from chaos.calibration.timed_ops import JOIN_S, Clock, Losses, timed_ops
from chaos.check.trial import Trial
from chaos.errors import UsageError
from chaos.model.event import FaultEnded, FitReturned
from chaos.model.history import HISTORY
from chaos.model.plan import Plan
from chaos.model.scenario import FailureBudget
from chaos.preflight.ask import question_of_runs
from chaos.preflight.change import changed
from chaos.preflight.comparison import Validation
from chaos.preflight.compression import (
    Changes,
    compressed,
    drawn_changes,
    drawn_losses,
    pool_for,
    scale_for,
)
from chaos.preflight.course import Course, course_of
from chaos.preflight.foretold import asked_of, compared
from chaos.preflight.market import Market
from chaos.preflight.question import Question
from chaos.run.clock import SystemClock, seconds_since, stamp
from chaos.run.directory import RunDirectory, create
from chaos.run.environment import environment
from chaos.run.journal import read_history
from chaos.run.ports import Backend

COSTS_DRAWN = 20
LIMIT_S = 90.0  # on a run, at least: one that hangs is said to, and left out
_UNTIL = 10  # times the work: so long does the market go on, and is a run waited for
_AWAY, _AWAY_ELASTIC = 1.0, 3.0  # times a restart: so long is a lost node away
_NOTICE = 4.0  # times what a save on notice takes at most
NOTICE_S = 0.5  # at least


@dataclass(frozen=True)
class Posed:
    """The question of the calibrated runs, and its market in fast motion."""

    question: Question
    market: Market
    pool: int
    spares_starts: bool

    @property
    def run_s(self) -> float:
        """How long a run is waited for, and the market goes on."""
        assert self.question.costs is not None
        return max(LIMIT_S, _UNTIL * (self.question.work_s + self.question.costs.begin_s))


def validation(trying: Trying, calibrated: Sequence[Trial], asked: Question) -> Validation:
    """Run the job `runs` times on the compressed market, and compare with the forecast.

    The costs are those of `calibrated`, other runs of the same job. `asked` has the market, and
    whether the job saves on notice.
    """
    posed = posed_by(trying, calibrated, asked)
    folder = trying.folder or trying.reports / "validations" / stamp(SystemClock().wall_ns())
    record(trying, calibrated[0].plan, posed, folder)
    return held_against(trying, calibrated, posed, folder)


def posed_by(trying: Trying, calibrated: Sequence[Trial], asked: Question) -> Posed:
    """Return what is asked of the model, and of the runs."""
    market = asked.market
    question = question_of_runs(calibrated, source="other runs", market=market)
    if trying.losses == "notices":
        question = changed(question, {"job.saves_on_notice": asked.job.saves_on_notice})
    nodes, costs = question.job.nodes, question.costs
    assert costs is not None
    work_s = question.work_s + costs.begin_s
    scale = trying.scale or scale_for(market, nodes=nodes, work_s=work_s)
    save_s = costs.step_s + costs.save_s + costs.upload_s + question.settings.preemption_poll_s
    away = _AWAY if question.job.min_nodes is None else _AWAY_ELASTIC
    fast = compressed(
        market,
        scale,
        away_s=away * costs.restart_s if trying.losses == "nodes" else 0.0,
        notice_s=max(NOTICE_S, _NOTICE * save_s) if trying.losses == "notices" else 0.0,
    )
    pool = pool_for(market, nodes=nodes)
    return Posed(question, fast, pool, spares_starts=trying.losses == "kills")


def record(
    trying: Trying, plan: Plan, posed: Posed, folder: Path, *, within_s: float | None = None
) -> int:
    """Make the runs that `folder` lacks, in time; returns how many it lacks then."""
    missing = [n for n in range(trying.runs) if _recorded(folder, n) is None]
    clock = SystemClock()
    if not missing:
        return 0
    start = clock.now_ns()
    with open_backend(trying.backend, trying.console) as backend:
        while missing and (within_s is None or seconds_since(start, clock) < within_s):
            number = missing.pop(0)
            _run(_plan(trying, plan, posed, number), backend, folder, number)
            done = trying.runs - len(missing)
            trying.console.print(f"  validation run {done} of {trying.runs}", style="dim")
    return len(missing)


def held_against(
    trying: Trying, calibrated: Sequence[Trial], posed: Posed, folder: Path
) -> Validation:
    """Compare the runs of a folder with what the model foretells of them."""
    trials = [run for n in range(trying.runs) if (run := _recorded(folder, n)) is not None]
    steps = posed.question.job.steps
    found: list[Course | None] = [course_of(trial, steps=steps) for trial in trials]
    courses = [course for course in found if course is not None]
    if not courses:
        raise UsageError(
            "no run of the validation came to its end", "Is the market too hard? See --scale."
        )
    asked = [
        asked_of(changed(posed.question, {"costs": costs}), posed.market, pool=posed.pool)
        for costs in _recosted(posed.question, calibrated)
    ]
    struck = sum(_struck(trial) for trial in trials)
    lost = len(trials) - len(courses)
    what = (
        f"{len(courses)} runs on {trying.backend}, struck {struck} times by {posed.market.name}"
        f"{_told(trying.losses, posed.market)}; costs from {len(calibrated)} other runs"
    )
    notes = (f"{lost} of {len(trials)} runs did not finish and are left out",) if lost else ()
    rows = compared(asked, courses, seed=trying.seed, spares_starts=posed.spares_starts)
    return Validation(what, rows, notes)


def _told(losses: Losses, market: Market) -> str:
    if losses == "nodes":
        return f", each node away for {market.away_h * 3600:.2g} s in the mean"
    if losses == "notices":
        return f", each announced {market.notice.seconds:.2g} s ahead"
    return ""


def _recosted(question: Question, calibrated: Sequence[Trial]) -> Iterator[dict[str, object]]:
    """Return the costs from runs drawn again and again from those there are."""
    draws = random.Random(0)  # noqa: S311
    for _ in range(COSTS_DRAWN):
        again = draws.choices(calibrated, k=len(calibrated))
        costs = question_of_runs(again, source="other runs", market=question.market).costs
        assert costs is not None
        yield costs.model_dump(mode="json")


def _struck(trial: Trial) -> int:
    """Count the losses that came about before the job's end."""
    over = next((number for number, _ in trial.history.of(FitReturned)), len(trial.history))
    ended = (e for n, e in trial.history.of(FaultEnded) if e.status == "ok" and n < over)
    return sum(trial.plan.ops[event.op].fault.nodes_added <= 0 for event in ended)


def _plan(trying: Trying, plan: Plan, posed: Posed, number: int) -> Plan:
    """Return the plan of one run: retries without limit, and the ops of the market."""
    nodes, costs, seed = posed.question.job.nodes, posed.question.costs, trying.seed + number
    assert costs is not None
    if trying.losses == "kills":
        losses = drawn_losses(
            posed.market, nodes=nodes, pool=posed.pool, until_s=posed.run_s, seed=seed
        )
        drawn = Changes(nodes, losses)
    else:
        drawn = drawn_changes(posed.market, pool=posed.pool, until_s=posed.run_s, seed=seed)
    clock = Clock(costs.schedule_s, JOIN_S[trying.backend], posed.market.notice.seconds)
    return plan.model_copy(
        update={
            "ops": timed_ops(drawn.each, trying.losses, clock),
            "job": plan.job.model_copy(update={"failure": FailureBudget(max_failures=-1)}),
            "shape": plan.shape.model_copy(update={"nodes": drawn.first}),
            "limits": plan.limits.model_copy(update={"run_s": posed.run_s}),
        }
    )


def _run(plan: Plan, backend: Backend, folder: Path, number: int) -> None:
    directory = create(folder, f"{number:03}-{os.getpid()}", plan, environment(Path.cwd()))
    try:
        backend.execute(plan, directory, lambda _: None)
    finally:
        directory.save_history(read_history(directory.journals))


def _recorded(folder: Path, number: int) -> Trial | None:
    """Return a run that was made before, None where it was not, or was broken off."""
    found = sorted(folder.glob(f"{number:03}-*/{HISTORY}"))
    if not found:
        return None
    directory = RunDirectory(found[-1].parent)
    return Trial(directory.load_plan(), directory.load_history())
