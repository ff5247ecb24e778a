"""Short real runs: those that measure costs, and those that a forecast is compared with."""

import os
import random
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from rich.console import Console

from chaos import runner
from chaos.audit.job_profile import JobProfile, measure_job
from chaos.audit.plans import build_base_plan, set_script_workers
from chaos.check.analysis import RunAnalysis
from chaos.errors import UsageError
from chaos.extensions.preflight.compression import (
    JOIN_S,
    Losses,
    PlanClock,
    choose_pool,
    choose_scale,
    compress_market,
    draw_changes,
    draw_losses,
    timed_ops,
)
from chaos.extensions.preflight.load import build_run_question
from chaos.extensions.preflight.market import Market, summarize_reading
from chaos.extensions.preflight.question import Question, change_question
from chaos.extensions.preflight.settings import SETTINGS, RaySettings
from chaos.extensions.preflight.validation import (
    Validation,
    build_validation_question,
    compare_figures,
    lead_s,
    run_figures,
)
from chaos.harness import Harness
from chaos.launch.backends import open_backend
from chaos.launch.torchrun.rendezvous import CONF
from chaos.model.event import FaultEnded, FaultInvoked, FitReturned, StepDone
from chaos.model.history import HISTORY, History
from chaos.model.plan import Op, Plan, PlanBackend
from chaos.model.scenario import FailureBudget
from chaos.model.trigger import AtStep
from chaos.plan.make import make_plan
from chaos.report.screen import ConsoleAnnouncer
from chaos.run.clock import SystemClock, elapsed_seconds, format_stamp
from chaos.run.directory import RunDirectory, create_run, ensure_reports_folder
from chaos.run.environment import collect_environment
from chaos.run.journal import read_history
from chaos.run.modules import ModuleFile
from chaos.run.ports import Backend
from chaos.run.script_launcher import find_launcher_evidence
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
    earlier_runs: Sequence[RunAnalysis] = (),
) -> Generator[RunAnalysis]:
    """Run a script or a scenario with and without faults; yield the former, with their baseline.

    `losses` decides on their targets, without notice and with a spare node ready; runs in
    `earlier_runs` are not repeated. Faults, times and processes are real, on this machine and its
    network.
    """
    backend, console = settings.backend, settings.console
    with open_backend(backend, ConsoleAnnouncer(console)) as launched_backend:
        harness = Harness(settings.reports, console, Path.cwd(), launched_backend, SystemClock())
        faultless_plan = plan_without_faults(subject, words, backend)
        clean = harness.obtain_baseline(faultless_plan)
        plan = set_script_workers(faultless_plan, measure_job(clean))
        failure = plan.job.failure or FailureBudget(max_failures=RETRIES)
        job = plan.job.replace(failure=failure)
        # Where no spare node is at hand, the restart after a worker's end is what all of them cost.
        only_workers = (
            settings.losses == "kills" or not faultless_plan.job.launcher_facts.nodes.has_spares
        )
        kind = "kill_worker" if only_workers else "kill_node"
        for trigger in draw_fault_triggers(
            measure_job(clean), count=STRUCK[backend], seed=settings.seed
        ):
            ops = (Op.model_validate({"index": 0, "at": trigger, kind: {}}),)
            earlier_run = next(
                (analysis for analysis in earlier_runs if analysis.plan.ops == ops), None
            )
            faulted_plan = plan.replace(ops=ops, job=job)
            yield earlier_run or harness.run_plan(faulted_plan).analysis


def observe_start(settings: RunSettings, subject: Path, words: Sequence[str]) -> History:
    """Start a script once, and end it after its first step; return what was seen of its settings.

    Raises `UsageError` if it does not come to its first step.
    """
    plan = plan_without_faults(subject, words, settings.backend)
    kill_op = {"index": 0, "at": AtStep(epoch=0, step=1, rank=0), "kill_worker": {"ranks": "all"}}
    job = plan.job.replace(failure=FailureBudget(max_failures=0))
    folder = ensure_reports_folder(settings.reports, "starts") / format_stamp(
        SystemClock().wall_ns()
    )
    plan = plan.replace(ops=(Op.model_validate(kill_op),), job=job)
    with open_backend(settings.backend, ConsoleAnnouncer(settings.console)) as backend:
        directory = create_run(folder, "start", plan, collect_environment(Path.cwd()))
        runner.execute(backend, plan, directory, None)
    history = read_history(directory.journals)
    if not any(True for _ in history.select_events(StepDone)):
        raise UsageError(
            "it did not come to its first step, so that its settings were not seen",
            f"What it wrote is in {directory.path}.",
            location=str(subject),
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
        plan = build_base_plan(subject, words, cwd=Path.cwd(), seed=0)
        launcher = find_launcher_evidence(ModuleFile(subject)).launcher
        is_known = SETTINGS.get(launcher) is RaySettings
    if not is_known:
        raise UsageError(
            f"{launcher} starts this job, and no more is known of how",
            f"Audit it (`chaos audit --backend {launcher}`), and give the audit's folder as the "
            "--costs of a question; or give a scenario in place of the script.",
            location=str(subject),
        )
    title = f"calibration of {subject.name}"
    return plan.replace(backend=backend, ops=(), scenario=title)


def draw_fault_triggers(job: JobProfile, *, count: int, seed: int) -> Iterator[AtStep]:
    """Draw ranks, and steps after the first commit, for the faults."""
    later_places = [place for place in job.steps if place.epoch > 0]
    if not later_places:
        raise UsageError(
            "the job reports only once, so that no restart can be measured",
            "Let it run for more epochs; a script's own arguments go after --.",
        )
    draws = random.Random(seed)  # noqa: S311  repeatable is what it must be
    for _ in range(count):
        place = draws.choice(later_places)
        step = draws.randint(1, job.steps[place])
        yield AtStep(epoch=place.epoch, step=step, rank=place.rank)


# -- validation ---------------------------------------------------------------------------------

# Draws of the measured costs, by whose spread the prediction's interval shows how sure they are.
COSTS_DRAWN = 20
LIMIT_S = 90.0  # the least time limit of a run; one that hangs is reported, and left out
_LENGTH_FACTOR = 10  # times the work: the length of the market, and the time limit of a run
_AWAY_FACTOR, _AWAY_ELASTIC = 1.0, 3.0  # times a restart: the absence of a lost node
_NOTICE_FACTOR = 4.0  # times the longest save on notice: the length of a notice
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
        return max(
            LIMIT_S, _LENGTH_FACTOR * (self.question.work_s + self.question.required_costs.begin_s)
        )


def validate_forecast(
    settings: RunSettings, calibrated: Sequence[RunAnalysis], user_question: Question
) -> Validation:
    """Run the job `runs` times on the compressed market, and compare with the forecast.

    The costs are those of `calibrated`, other runs of the same job. `user_question` has the market,
    and whether the job saves on notice.
    """
    case = validation_case(settings, calibrated, user_question)
    folder = ensure_reports_folder(settings.reports, "validations") / format_stamp(
        SystemClock().wall_ns()
    )
    make_runs(settings, calibrated[0].plan, case, folder)
    return compare_with_runs(settings, calibrated, case, folder)


def validation_case(
    settings: RunSettings, calibrated: Sequence[RunAnalysis], user_question: Question
) -> ValidationCase:
    """Return the question for the model, and the market for the runs."""
    market = user_question.market
    question = build_run_question(calibrated, source="other runs", market=market)
    if settings.losses == "notices":
        question = change_question(
            question, {"job.saves_on_notice": user_question.job.saves_on_notice}
        )
    nodes, costs = question.job.nodes, question.required_costs
    work_s = question.work_s + costs.begin_s
    scale = settings.scale or choose_scale(market, nodes=nodes, work_s=work_s)
    away_factor = _AWAY_FACTOR if question.job.min_nodes is None else _AWAY_ELASTIC
    if question.settings.has_agents and settings.losses != "kills":
        # chaos loses no host: it would end the job, whatever its restarts.
        question = change_question(question, {"job.on_demand_nodes": 1, **_CHAOS_TIMES})
    fast = compress_market(
        market,
        scale,
        away_s=away_factor * costs.restart_s if settings.losses == "nodes" else 0.0,
        notice_s=max(NOTICE_S, _NOTICE_FACTOR * question.notice_save_s)
        if settings.losses == "notices"
        else 0.0,
    )
    pool = choose_pool(market, nodes=nodes)
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
    missing = [n for n in range(settings.runs) if _load_recorded_run(folder, n) is None]
    if not missing:
        return 0
    clock = SystemClock()
    start = clock.now_ns()
    with open_backend(settings.backend, ConsoleAnnouncer(settings.console)) as backend:
        while missing and (within_s is None or elapsed_seconds(start, clock) < within_s):
            number = missing.pop(0)
            _execute_run(_build_plan(settings, plan, case, number), backend, folder, number)
            done = settings.runs - len(missing)
            settings.console.print(f"  validation run {done} of {settings.runs}", style="dim")
    return len(missing)


def compare_with_runs(
    settings: RunSettings, calibrated: Sequence[RunAnalysis], case: ValidationCase, folder: Path
) -> Validation:
    """Compare the runs of a folder with the model's forecast of them."""
    analyses = [
        run for n in range(settings.runs) if (run := _load_recorded_run(folder, n)) is not None
    ]
    job, schedule_s = case.question.job, case.question.required_costs.schedule_s
    figures = [run_figures(item, steps=job.steps, schedule_s=schedule_s) for item in analyses]
    finished = [item for item in figures if item is not None]
    if not finished:
        raise UsageError(
            "no run of the validation came to its end", "Is the market too hard? See --scale."
        )
    market = case.market
    if settings.losses == "notices":
        late_s = find_join_delay_s(analyses, join_s=JOIN_S[settings.backend])
        market = market.replace(away_h=late_s / 3600)
    questions = [
        build_validation_question(
            change_question(case.question, {"costs": costs}), market, pool=case.pool
        )
        for costs in _resample_costs(case.question, calibrated)
    ]
    loss_count = sum(_losses_before_end(analysis) for analysis in analyses)
    unfinished_count = len(analyses) - len(finished)
    description = (
        f"{len(finished)} runs on {settings.backend}, with {loss_count} losses of "
        f"{case.market.name}"
        f"{summarize_reading(market)}{_describe_losses(settings.losses, market)}; costs from "
        f"{len(calibrated)} "
        "other runs"
    )
    until_s = case.run_s - fmean(lead_s(item.history, schedule_s) for item in analyses)
    rows = compare_figures(
        questions,
        finished,
        seed=settings.seed,
        spares_starts=case.spares_starts,
        until_s=until_s,
        cut_off=unfinished_count,
    )
    notes = (
        (f"{unfinished_count} of {len(analyses)} runs did not finish in {until_s:.0f} s",)
        if unfinished_count
        else ()
    )
    return Validation(description, rows, notes)


def _describe_losses(losses: Losses, market: Market) -> str:
    away_s = f"{market.away_h * 3600:.2g} s"
    if losses == "nodes":
        return f", each node away for {away_s} in the mean"
    if losses == "notices":
        announcement = f"each announced {market.notice.seconds:.2g} s ahead"
        return f", {announcement}, a new node there {away_s} after it in the mean"
    return ""


def _resample_costs(
    question: Question, calibrated: Sequence[RunAnalysis]
) -> Iterator[dict[str, object]]:
    """Yield the costs of resampled sets of the runs."""
    draws = random.Random(0)  # noqa: S311
    for _ in range(COSTS_DRAWN):
        sample = draws.choices(calibrated, k=len(calibrated))
        resampled_question = build_run_question(sample, source="other runs", market=question.market)
        yield resampled_question.required_costs.model_dump(mode="json")


def find_join_delay_s(analyses: Sequence[RunAnalysis], *, join_s: float) -> float:
    """Return how long after a loss its replacement joined, in the mean.

    It is ordered `join_s` before the loss. Where a node takes longer to come up, a start waits for
    it, as it would for a node of a cloud.
    """
    join_times_s = list[float]()
    for analysis in analyses:
        history, ops = analysis.history, analysis.plan.ops
        order_times_ns = {
            event.op: history.time_ns(number)
            for number, event in history.select_events(FaultInvoked)
        }
        join_times_s += (
            (history.time_ns(number) - order_times_ns[ended.op]) / 1e9
            for number, ended in history.select_events(FaultEnded)
            if ended.status == "ok" and ops[ended.op].fault.nodes_added > 0
        )
    return max(0.0, fmean(join_times_s) - join_s) if join_times_s else 0.0


def _losses_before_end(analysis: RunAnalysis) -> int:
    """Count the losses before the job's end."""
    end_index = next(
        (number for number, _ in analysis.history.select_events(FitReturned)), len(analysis.history)
    )
    ended = (
        e
        for n, e in analysis.history.select_events(FaultEnded)
        if e.status == "ok" and n < end_index
    )
    return sum(analysis.plan.ops[event.op].fault.nodes_added <= 0 for event in ended)


def _build_plan(settings: RunSettings, plan: Plan, case: ValidationCase, number: int) -> Plan:
    """Return the plan of one run: unlimited retries, and the ops of the market."""
    job, costs, seed = case.question.job, case.question.required_costs, settings.seed + number
    market, until_s, on_demand_nodes, nodes = (
        case.market,
        case.run_s,
        job.on_demand_nodes,
        job.nodes,
    )
    if settings.losses == "kills":
        losses = draw_losses(market, nodes=nodes, pool=case.pool, until_s=until_s, seed=seed)
    else:
        pool = case.pool - on_demand_nodes
        initial_nodes, changes = draw_changes(market, pool=pool, until_s=until_s, seed=seed)
        nodes, losses = (
            initial_nodes + on_demand_nodes,
            tuple(change.shift_nodes(on_demand_nodes) for change in changes),
        )
    retries = ENDLESS if plan.job.launcher_facts.retries.counted_by == "each agent" else -1
    clock = PlanClock(costs.schedule_s, JOIN_S[settings.backend], market.notice.seconds)
    return plan.replace(
        ops=timed_ops(losses, settings.losses, clock),
        job=plan.job.replace(failure=FailureBudget(max_failures=retries)),
        shape=plan.shape.replace(nodes=nodes),
        limits=plan.limits.replace(run_s=until_s),
    )


def _execute_run(plan: Plan, backend: Backend, folder: Path, number: int) -> None:
    directory = create_run(
        folder, f"{number:03}-{os.getpid()}", plan, collect_environment(Path.cwd())
    )
    try:
        runner.execute(backend, plan, directory, None)
    finally:
        directory.save_history(read_history(directory.journals))


def _load_recorded_run(folder: Path, number: int) -> RunAnalysis | None:
    """Return a run that was made before; None if it was not, or was broken off."""
    histories = sorted(folder.glob(f"{number:03}-*/{HISTORY}"))
    if not histories:
        return None
    directory = RunDirectory(histories[-1].parent)
    return RunAnalysis(directory.load_plan(), directory.load_history())
