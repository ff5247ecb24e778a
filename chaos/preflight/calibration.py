"""Short real runs: those that measure costs, and those that a forecast is compared with."""

import os
import random
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from rich.console import Console

from chaos import runner
from chaos.audit.job_profile import JobProfile, job_profile
from chaos.audit.launcher import launcher_evidence
from chaos.audit.plans import base_plan, with_own_workers
from chaos.check.analysis import RunAnalysis
from chaos.errors import UsageError
from chaos.harness import Harness
from chaos.launch.open import open_backend
from chaos.launch.torchrun.rendezvous import CONF
from chaos.model.event import FaultEnded, FaultInvoked, FitReturned, StepDone
from chaos.model.history import HISTORY, History
from chaos.model.launcher import FACTS
from chaos.model.plan import Op, Plan, PlanBackend
from chaos.model.scenario import FailureBudget
from chaos.model.trigger import AtStep
from chaos.plan.make import make_plan
from chaos.preflight.compression import (
    JOIN_S,
    Losses,
    PlanClock,
    compressed,
    drawn_changes,
    drawn_losses,
    pool_for,
    scale_for,
    timed_ops,
)
from chaos.preflight.load import question_of_runs
from chaos.preflight.market import Market, read_in_short
from chaos.preflight.question import Question, changed
from chaos.preflight.settings import SETTINGS
from chaos.preflight.validation import (
    Validation,
    compared_figures,
    lead_s,
    question_of_validation,
    run_figures,
)
from chaos.run.clock import SystemClock, seconds_since, stamp
from chaos.run.directory import RunDirectory, create, in_reports
from chaos.run.environment import environment
from chaos.run.journal import read_history
from chaos.run.modules import ModuleFile
from chaos.run.ports import Backend
from chaos.scenario_file.load import SUFFIX, load_scenario

# For runs with losses, if the scenario sets none: a job that gives up measures no restart.
RETRIES = 3
# A restart differs from the next. Those in processes of their own take longer.
STRUCK: dict[PlanBackend, int] = {"fork": 6, "ray": 4, "torchrun": 4, "python": 4}


@dataclass(frozen=True)
class RunSettings:
    """Settings of real runs for preflight."""

    reports: Path
    console: Console
    backend: PlanBackend
    runs: int
    #: None for a few losses a run
    scale: float | None = None
    seed: int = 0
    losses: Losses = "kills"


def calibration_runs(
    settings: RunSettings,
    subject: Path,
    words: Sequence[str],
    *,
    known: Sequence[RunAnalysis] = (),
) -> Generator[RunAnalysis]:
    """Run a script or a scenario with and without faults; yield the former, with their baseline.

    `losses` decides on their targets, without notice and with a spare node ready; runs in `known`
    are not repeated. Faults, times and processes are real, on this machine and its network.
    """
    backend, console = settings.backend, settings.console
    with open_backend(backend, console) as opened:
        harness = Harness(settings.reports, console, Path.cwd(), opened, SystemClock())
        alone = plan_without_faults(subject, words, backend)
        clean = harness.baseline(alone)
        plan = with_own_workers(alone, job_profile(clean))
        failure = plan.job.failure or FailureBudget(max_failures=RETRIES)
        job = plan.job.model_copy(update={"failure": failure})
        # Where no spare node is at hand, the restart after a worker's end is what all of them cost.
        only_workers = settings.losses == "kills" or not alone.job.facts.has_spare_nodes
        kind = "kill_worker" if only_workers else "kill_node"
        for at in struck_places(job_profile(clean), count=STRUCK[backend], seed=settings.seed):
            ops = (Op.model_validate({"index": 0, "at": at, kind: {}}),)
            made = next((analysis for analysis in known if analysis.plan.ops == ops), None)
            struck = plan.model_copy(update={"ops": ops, "job": job})
            yield made or harness.run_plan(struck).analysis


def settings_of_start(settings: RunSettings, subject: Path, words: Sequence[str]) -> History:
    """Start a script once, and end it after its first step; return what was seen of its settings.

    Raises `UsageError` if it does not come to its first step.
    """
    plan = plan_without_faults(subject, words, settings.backend)
    ended = {"index": 0, "at": AtStep(epoch=0, step=1, rank=0), "kill_worker": {"ranks": "all"}}
    job = plan.job.model_copy(update={"failure": FailureBudget(max_failures=0)})
    folder = in_reports(settings.reports, "starts") / stamp(SystemClock().wall_ns())
    plan = plan.model_copy(update={"ops": (Op.model_validate(ended),), "job": job})
    with open_backend(settings.backend, settings.console) as backend:
        directory = create(folder, "start", plan, environment(Path.cwd()))
        runner.execute(backend, plan, directory, None)
    history = read_history(directory.journals)
    if not any(True for _ in history.of(StepDone)):
        raise UsageError(
            "it did not come to its first step, so that its settings were not seen",
            f"What it wrote is in {directory.path}.",
            place=str(subject),
        )
    return history


def plan_without_faults(subject: Path, words: Sequence[str], backend: PlanBackend) -> Plan:
    """Return the plan of a script's or a scenario's job without faults.

    Raises `UsageError` for a script that does not call its launcher itself: a scenario says how it
    is started.
    """
    if subject.is_dir():
        raise UsageError("a folder is measured already", "Leave --calibrate out.")
    if subject.name.endswith(SUFFIX):
        plan = make_plan(load_scenario(subject), file=subject.resolve(), seed=0, cwd=Path.cwd())
        launcher, is_known = plan.job.launcher, plan.job.launcher in SETTINGS
    else:
        plan = base_plan(subject, words, cwd=Path.cwd(), seed=0)
        launcher = launcher_evidence(ModuleFile(subject)).launcher
        is_known = not FACTS[launcher].lacks_part("call")
    if not is_known:
        raise UsageError(
            f"{launcher} starts this job, and no more is known of how",
            f"Audit it (`chaos audit --backend {launcher}`), and give the audit's folder as the "
            "--costs of a question; or give a scenario in place of the script.",
            place=str(subject),
        )
    title = f"calibration of {subject.name}"
    return plan.model_copy(update={"backend": backend, "ops": (), "scenario": title})


def struck_places(job: JobProfile, *, count: int, seed: int) -> Iterator[AtStep]:
    """Draw ranks, and steps after the first commit, for the faults."""
    later = [place for place in job.steps if place.epoch > 0]
    if not later:
        raise UsageError(
            "the job reports only once, so that no restart can be measured",
            "Let it run for more epochs; a script's own arguments go after --.",
        )
    draws = random.Random(seed)  # noqa: S311  repeatable is what it must be
    for _ in range(count):
        place = draws.choice(later)
        step = draws.randint(1, job.steps[place])
        yield AtStep(epoch=place.epoch, step=step, rank=place.rank)


# -- validation ---------------------------------------------------------------------------------

# Draws of the measured costs, by whose spread the prediction's interval shows how sure they are.
COSTS_DRAWN = 20
LIMIT_S = 90.0  # the least time limit of a run; one that hangs is reported, and left out
_UNTIL = 10  # times the work: the length of the market, and the time limit of a run
_AWAY, _AWAY_ELASTIC = 1.0, 3.0  # times a restart: the absence of a lost node
_NOTICE = 4.0  # times the longest save on notice: the length of a notice
ENDLESS = 1_000  # restarts of agents, which take no number below 0
NOTICE_S = 0.5  # the shortest notice
_CHAOS_TIMES = {  # chaos's runs have rendezvous times of their own
    "settings.last_call_s": float(CONF["last_call_timeout"]),
    "settings.keep_alive_s": float(CONF["keep_alive_interval"])
    * float(CONF["keep_alive_max_attempt"]),
}


@dataclass(frozen=True)
class ValidationCase:
    """The question of the calibrated runs, and its market in fast motion."""

    question: Question
    market: Market
    pool: int
    spares_starts: bool

    @property
    def run_s(self) -> float:
        """The time limit of a run, for which losses are drawn."""
        return max(LIMIT_S, _UNTIL * (self.question.work_s + self.question.known_costs.begin_s))


def validate_forecast(
    settings: RunSettings, calibrated: Sequence[RunAnalysis], asked: Question
) -> Validation:
    """Run the job `runs` times on the compressed market, and compare with the forecast.

    The costs are those of `calibrated`, other runs of the same job. `asked` has the market, and
    whether the job saves on notice.
    """
    case = validation_case(settings, calibrated, asked)
    folder = in_reports(settings.reports, "validations") / stamp(SystemClock().wall_ns())
    make_runs(settings, calibrated[0].plan, case, folder)
    return compare_with_runs(settings, calibrated, case, folder)


def validation_case(
    settings: RunSettings, calibrated: Sequence[RunAnalysis], asked: Question
) -> ValidationCase:
    """Return the question for the model, and the market for the runs."""
    market = asked.market
    question = question_of_runs(calibrated, source="other runs", market=market)
    if settings.losses == "notices":
        question = changed(question, {"job.saves_on_notice": asked.job.saves_on_notice})
    nodes, costs = question.job.nodes, question.known_costs
    work_s = question.work_s + costs.begin_s
    scale = settings.scale or scale_for(market, nodes=nodes, work_s=work_s)
    away = _AWAY if question.job.min_nodes is None else _AWAY_ELASTIC
    if question.settings.hosts_rendezvous and settings.losses != "kills":
        # chaos loses no host: it would end the job, whatever its restarts.
        question = changed(question, {"job.on_demand_nodes": 1, **_CHAOS_TIMES})
    fast = compressed(
        market,
        scale,
        away_s=away * costs.restart_s if settings.losses == "nodes" else 0.0,
        notice_s=max(NOTICE_S, _NOTICE * question.notice_save_s)
        if settings.losses == "notices"
        else 0.0,
    )
    pool = pool_for(market, nodes=nodes)
    return ValidationCase(question, fast, pool, spares_starts=settings.losses == "kills")


def make_runs(
    settings: RunSettings,
    plan: Plan,
    case: ValidationCase,
    folder: Path,
    *,
    within_s: float | None = None,
) -> int:
    """Make the runs that `folder` lacks, in time; return the number still missing."""
    missing = [n for n in range(settings.runs) if _recorded(folder, n) is None]
    if not missing:
        return 0
    clock = SystemClock()
    start = clock.now_ns()
    with open_backend(settings.backend, settings.console) as backend:
        while missing and (within_s is None or seconds_since(start, clock) < within_s):
            number = missing.pop(0)
            _run(_plan(settings, plan, case, number), backend, folder, number)
            done = settings.runs - len(missing)
            settings.console.print(f"  validation run {done} of {settings.runs}", style="dim")
    return len(missing)


def compare_with_runs(
    settings: RunSettings, calibrated: Sequence[RunAnalysis], case: ValidationCase, folder: Path
) -> Validation:
    """Compare the runs of a folder with the model's forecast of them."""
    analyses = [run for n in range(settings.runs) if (run := _recorded(folder, n)) is not None]
    job, schedule_s = case.question.job, case.question.known_costs.schedule_s
    figures = [run_figures(one, steps=job.steps, schedule_s=schedule_s) for one in analyses]
    finished = [one for one in figures if one is not None]
    if not finished:
        raise UsageError(
            "no run of the validation came to its end", "Is the market too hard? See --scale."
        )
    market = case.market
    if settings.losses == "notices":
        late_s = joined_late_s(analyses, join_s=JOIN_S[settings.backend])
        market = market.model_copy(update={"away_h": late_s / 3600})
    asked = [
        question_of_validation(changed(case.question, {"costs": costs}), market, pool=case.pool)
        for costs in _recosted(case.question, calibrated)
    ]
    struck = sum(_losses_before_end(analysis) for analysis in analyses)
    lost = len(analyses) - len(finished)
    what = (
        f"{len(finished)} runs on {settings.backend}, with {struck} losses of {case.market.name}"
        f"{read_in_short(market)}{_told(settings.losses, market)}; costs from {len(calibrated)} "
        "other runs"
    )
    until_s = case.run_s - fmean(lead_s(one.history, schedule_s) for one in analyses)
    rows = compared_figures(
        asked,
        finished,
        seed=settings.seed,
        spares_starts=case.spares_starts,
        until_s=until_s,
        cut_off=lost,
    )
    notes = (f"{lost} of {len(analyses)} runs did not finish in {until_s:.0f} s",) if lost else ()
    return Validation(what, rows, notes)


def _told(losses: Losses, market: Market) -> str:
    away_s = f"{market.away_h * 3600:.2g} s"
    if losses == "nodes":
        return f", each node away for {away_s} in the mean"
    if losses == "notices":
        ahead = f"each announced {market.notice.seconds:.2g} s ahead"
        return f", {ahead}, a new node there {away_s} after it in the mean"
    return ""


def _recosted(question: Question, calibrated: Sequence[RunAnalysis]) -> Iterator[dict[str, object]]:
    """Yield the costs of resampled sets of the runs."""
    draws = random.Random(0)  # noqa: S311
    for _ in range(COSTS_DRAWN):
        again = draws.choices(calibrated, k=len(calibrated))
        other = question_of_runs(again, source="other runs", market=question.market)
        yield other.known_costs.model_dump(mode="json")


def joined_late_s(analyses: Sequence[RunAnalysis], *, join_s: float) -> float:
    """Return how long after a loss its replacement joined, in the mean.

    It is ordered `join_s` before the loss. Where a node takes longer to come up, a start waits for
    it, as it would for a node of a cloud.
    """
    took_s = list[float]()
    for analysis in analyses:
        history, ops = analysis.history, analysis.plan.ops
        began = {event.op: history.time_ns(number) for number, event in history.of(FaultInvoked)}
        took_s += (
            (history.time_ns(number) - began[ended.op]) / 1e9
            for number, ended in history.of(FaultEnded)
            if ended.status == "ok" and ops[ended.op].fault.nodes_added > 0
        )
    return max(0.0, fmean(took_s) - join_s) if took_s else 0.0


def _losses_before_end(analysis: RunAnalysis) -> int:
    """Count the losses before the job's end."""
    over = next((number for number, _ in analysis.history.of(FitReturned)), len(analysis.history))
    ended = (e for n, e in analysis.history.of(FaultEnded) if e.status == "ok" and n < over)
    return sum(analysis.plan.ops[event.op].fault.nodes_added <= 0 for event in ended)


def _plan(settings: RunSettings, plan: Plan, case: ValidationCase, number: int) -> Plan:
    """Return the plan of one run: unlimited retries, and the ops of the market."""
    job, costs, seed = case.question.job, case.question.known_costs, settings.seed + number
    market, until_s, kept, nodes = case.market, case.run_s, job.on_demand_nodes, job.nodes
    if settings.losses == "kills":
        losses = drawn_losses(market, nodes=nodes, pool=case.pool, until_s=until_s, seed=seed)
    else:
        pool = case.pool - kept
        first, changes = drawn_changes(market, pool=pool, until_s=until_s, seed=seed)
        nodes, losses = first + kept, tuple(one.after(kept) for one in changes)
    retries = ENDLESS if plan.job.facts.counted_by == "each agent" else -1
    clock = PlanClock(costs.schedule_s, JOIN_S[settings.backend], market.notice.seconds)
    return plan.model_copy(
        update={
            "ops": timed_ops(losses, settings.losses, clock),
            "job": plan.job.model_copy(update={"failure": FailureBudget(max_failures=retries)}),
            "shape": plan.shape.model_copy(update={"nodes": nodes}),
            "limits": plan.limits.model_copy(update={"run_s": until_s}),
        }
    )


def _run(plan: Plan, backend: Backend, folder: Path, number: int) -> None:
    directory = create(folder, f"{number:03}-{os.getpid()}", plan, environment(Path.cwd()))
    try:
        runner.execute(backend, plan, directory, None)
    finally:
        directory.save_history(read_history(directory.journals))


def _recorded(folder: Path, number: int) -> RunAnalysis | None:
    """Return a run that was made before; None if it was not, or was broken off."""
    found = sorted(folder.glob(f"{number:03}-*/{HISTORY}"))
    if not found:
        return None
    directory = RunDirectory(found[-1].parent)
    return RunAnalysis(directory.load_plan(), directory.load_history())
