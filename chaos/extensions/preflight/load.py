"""A question from a file, or measured in recorded runs, with a chosen market."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from chaos.check.analysis import RunAnalysis
from chaos.check.restarts import Restart
from chaos.errors import UsageError
from chaos.extensions.preflight.market import (
    MARKETS,
    Exponential,
    LossNotice,
    Market,
    TraceReading,
    find_preset,
)
from chaos.extensions.preflight.question import (
    Costs,
    JobShape,
    Question,
    change_question,
    split_ranges,
)
from chaos.extensions.preflight.ranges import ValueRange, build_held_range
from chaos.extensions.preflight.settings import SETTINGS, RaySettings
from chaos.extensions.preflight.trace import build_replay_market, fit_market
from chaos.extensions.preflight.trace_columns import Unit
from chaos.extensions.preflight.trace_files import load_advisor, load_lives, load_trace
from chaos.extensions.preflight.trace_lives import ASSUMPTION, fit_lives_market, reject_options
from chaos.model.event import (
    Committed,
    ControllerState,
    FileSaveBegun,
    FitCalled,
    ReportReturned,
)
from chaos.model.history import BASELINE, HISTORY, History
from chaos.model.launcher import LAUNCHER_FACTS, find_launcher
from chaos.model.launcher_policy import LauncherPolicy
from chaos.model.places import TrainingPlace
from chaos.record import Record
from chaos.resume.attempt import Attempt, Commit
from chaos.run.directory import RunDirectory
from chaos.scenario_file.messages import find_nearest, quote_value
from chaos.scenario_file.yaml_lines import (
    YamlLines,
    YamlProblem,
    YamlSource,
    build_scenario_error,
    load_text,
    parse_source,
)
from chaos.wording import plural

SUFFIX = ".preflight.yaml"
_KINDS = {"exponential", "weibull", "bathtub", *SETTINGS}  # the tags of unions
_MEANS_NOTHING = {  # keys that an earlier version accepted without effect
    "workers_per_node": "Leave it out: nodes are lost whole, however many workers they hold.",
    "launched_by": "Leave it out: who starts the job changes nothing in a forecast.",
}


def load_question(path: Path, *, market: Market | None = None) -> Question:
    """Read one question; `market` replaces the file's own, which may then be missing.

    Raises `ScenarioError` with all mistakes, each with its line.
    """
    source = parse_source(load_text(path, "question"))
    if source.problems:
        raise build_scenario_error(path, source.problems)
    value = source.value
    if not isinstance(value, dict):
        text = f"a question must be a mapping, got {quote_value(value)}"
        raise build_scenario_error(
            path, [YamlProblem(1, text, "Begin with `preflight:` and `job:`.")]
        )
    wrong: list[YamlProblem] = []
    if market is not None:
        value["market"] = market.model_dump(mode="json")
    elif isinstance(value.get("market"), str):
        value["market"], wrong = _resolve_market(source)
    try:
        question = Question.model_validate_json(json.dumps(split_ranges(value)))
    except UsageError as error:
        line = source.lines.find_key_line(("costs",))
        raise build_scenario_error(path, [*wrong, YamlProblem(line, error.problem, "")]) from None
    except ValidationError as error:
        errors = error.errors(include_url=False)
        raise build_scenario_error(path, [*wrong, *_problems(errors, source.lines)]) from None
    if wrong:
        raise build_scenario_error(path, wrong)
    return question


def _resolve_market(source: YamlSource) -> tuple[dict[str, Any], list[YamlProblem]]:
    """Return the market of that name; without one, any, so that the rest is still checked."""
    try:
        return find_preset(str(source.value["market"])).model_dump(mode="json"), []
    except UsageError as error:
        line = source.lines.find_value_line(("market",))
        wrong = YamlProblem(line, error.problem, error.hint, ("market",))
        return MARKETS[0].model_dump(mode="json"), [wrong]


def _problems(errors: list[ErrorDetails], lines: YamlLines) -> Iterator[YamlProblem]:
    unknown = [_place(error) for error in errors if error["type"] == "extra_forbidden"]
    meant = {(*loc[:-1], find_nearest(str(loc[-1]), _list_sibling_keys(loc))) for loc in unknown}
    for error in errors:
        loc = _place(error)
        if error["type"] == "missing" and loc in meant:
            continue  # a misspelt key is not also a missing one
        name = ".".join(str(part) for part in loc) or "the question"
        match error["type"]:
            case "extra_forbidden":
                near = find_nearest(str(loc[-1]), _list_sibling_keys(loc))
                hint = _MEANS_NOTHING.get(str(loc[-1])) or (f"Did you mean {near}?" if near else "")
                yield YamlProblem(lines.find_key_line(loc), f"unknown key {name!r}", hint, loc)
            case "union_tag_invalid":
                text = f"{name}.launcher is one of {', '.join(SETTINGS)}"
                yield YamlProblem(lines.find_key_line(loc), text, "", loc)
            case "missing":
                yield YamlProblem(lines.find_value_line(loc[:-1]), f"{name} is missing", "", loc)
            case "value_error":
                text = error["msg"].removeprefix("Value error, ")
                yield YamlProblem(lines.find_value_line(loc), text, "", loc)
            case _:
                text = f"{name}: {error['msg'][:1].lower()}{error['msg'][1:]}"
                yield YamlProblem(
                    lines.find_value_line(loc),
                    f"{text}, got {quote_value(error['input'])}",
                    "",
                    loc,
                )


def _place(error: ErrorDetails) -> tuple[str | int, ...]:
    return tuple(part for part in error["loc"] if part not in _KINDS)


def _list_sibling_keys(loc: tuple[str | int, ...]) -> list[str]:
    """Return the keys that are allowed at the place of `loc`."""
    kinds: list[Any] = [Question]
    for part in loc[:-1]:
        fields = [field for kind in kinds if (field := kind.model_fields.get(part))]
        kinds = [
            record_type for field in fields for record_type in _list_record_types(field.annotation)
        ]
    keys = [key for kind in kinds for key in (*kind.model_fields, *getattr(kind, "ALSO", ()))]
    return list(dict.fromkeys(keys))


def _list_record_types(annotation: Any) -> Iterator[type[Record]]:  # noqa: ANN401 (a type, or a union)
    if isinstance(annotation, type) and issubclass(annotation, Record):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _list_record_types(argument)


# -- questions of recorded runs -----------------------------------------------------------------

UNNAMED = "calm-500h"


@dataclass(frozen=True)
class MarketChoice:
    """The source of a market: a preset's name, a trace, or Spot Advisor's table."""

    name: str | None = None
    trace: Path | None = None
    replay: bool = False
    trace_nodes: TraceReading | None = None
    trace_held: tuple[int, int] | None = None
    trace_unit: Unit | None = None
    advisor: str | None = None

    @property
    def is_given(self) -> bool:
        return any((self.name, self.trace, self.advisor))


def choose_market(
    choice: MarketChoice, held_nodes: int | None = None
) -> tuple[Market, tuple[str, ...]]:
    """Return the chosen market, with notes on it; with `held_nodes` when a log was written.

    Traces and the table have no notices. Two minutes in 95 of 100 cases, which
    AWS promises at best, are assumed, with a note.
    """
    if sum(map(bool, (choice.name, choice.trace, choice.advisor))) > 1:
        problem = "more than one market is given"
        raise UsageError(problem, "Choose one of --market, --trace and --advisor.")
    assumed = LossNotice(seconds=120, reliability=0.95)
    if choice.advisor is not None:
        return _load_advised_market(choice.advisor, assumed)
    if choice.trace is None:
        return find_preset(choice.name or UNNAMED), ()
    lives = load_lives(choice.trace, choice.trace_unit)
    if lives is not None:
        options = {
            "--replay-trace": choice.replay,
            "--trace-nodes": choice.trace_nodes,
            "--trace-held": choice.trace_held,
        }
        reject_options(str(choice.trace), options)
        return fit_lives_market(str(choice.trace), lives, notice=assumed, price_ratio=0.35)
    if held_nodes is None and choice.trace_held is not None:
        held_nodes = choice.trace_held[0]  # the fewest: each is lost most often
    trace = load_trace(choice.trace, held_nodes, choice.trace_unit)
    fitted = fit_market(trace, notice=assumed, price_ratio=0.35)
    market = (
        build_replay_market(trace, notice=assumed, price_ratio=0.35)
        if choice.replay
        else fitted.market
    )
    market = market.choose_reading(choice.trace_nodes)
    mtbf_h = fitted.mtbf_h
    upper_end = f"to {mtbf_h.high:.2f}" if math.isfinite(mtbf_h.high) else "or more"
    span = (
        f"{plural(len(trace.drops), 'loss', 'losses')}: {mtbf_h.value:.2f} h per node "
        f"(95 %: {mtbf_h.low:.2f} {upper_end}), {fitted.together.value:.0%} take more than one node"
    )
    return market, (span, *fitted.notes, ASSUMPTION)


def market_ranges(choice: MarketChoice, values: Mapping[str, Any]) -> tuple[ValueRange, ...]:
    """Return the range of the nodes that there were, if it was given, with a market's values."""
    if choice.trace_held is None or choice.trace_held[0] == choice.trace_held[1]:
        return ()
    min_nodes, max_nodes = choice.trace_held
    return (
        build_held_range(
            min_nodes, max_nodes, lambda node_count: choose_market(choice, node_count)[0], values
        ),
    )


def _load_advised_market(words: str, notice: LossNotice) -> tuple[Market, tuple[str, ...]]:
    path, _, type_ = words.rpartition(":")
    file, _, region = path.rpartition(":")
    if not file or not region or not type_:
        raise UsageError(f"--advisor is FILE:REGION:TYPE, got {words}")
    mtbf_h, saving = load_advisor(Path(file), region, type_)
    market = Market(
        name=f"{type_} in {region}",
        lifetime=Exponential(mtbf_h=mtbf_h),
        away_h=0.1,
        notice=notice,
        price_ratio=round(1 - saving, 4),
        source="AWS Spot Advisor, the bucket's worse end as a monthly hazard",
    )
    note = (
        "Spot Advisor says how often whole months end in an interruption; traces of sought-after "
        "GPUs show losses a hundred times as often. Take this as the best case"
    )
    return market, (note, "replacement within 6 min and 120 s of notice are assumed")


def build_run_question(analyses: Sequence[RunAnalysis], *, source: str, market: Market) -> Question:
    """Return the question of recorded runs: as long as the clean run, on as many nodes.

    Raises `UsageError` for a job whose launcher has no settings that a forecast knows.
    """
    names = {find_launcher_facts(analysis.history).name for analysis in analyses}
    unsupported = next((name for name in sorted(names) if name not in SETTINGS), None)
    if unsupported is not None:
        raise UsageError(
            f"{LAUNCHER_FACTS[unsupported].words.name} started this job, and its settings, which a "
            "forecast needs, are in no run",
            "Write a question with them, and give this folder as its --costs.",
            location=source,
        )
    job_measures = measure_job(analyses, source=f"measured in {source}")
    return Question(
        preflight=f"the job of {source}",
        job=job_measures.job,
        settings=SETTINGS[names.pop()](**job_measures.settings),
        costs=job_measures.costs,
        market=market,
    )


def replace_costs(question: Question, analyses: Sequence[RunAnalysis], *, source: str) -> Question:
    """Return a question with its costs taken from recorded runs; its price stays."""
    forked_analyses = (a for a in analyses if a.plan.backend == "fork")
    exclusions = (find_launcher_facts(a.history).words.forked_start for a in forked_analyses)
    exclusion = next(filter(None, exclusions), "")
    job_measures = measure_job(analyses, source=f"measured in {source}{exclusion}")
    costs = job_measures.costs.model_dump(mode="json")
    if question.costs is not None:
        original_costs = question.costs
        costs |= {
            "price_per_node_hour": original_costs.price_per_node_hour,
            "currency": original_costs.currency,
        }
    mode = question.settings.background_upload_mode
    return change_question(question, {"costs": costs, "settings.checkpoint_upload_mode": mode})


@dataclass(frozen=True)
class MeasuredJob:
    """Costs and length of a job in recorded runs."""

    costs: Costs
    job: JobShape
    #: fields of `RaySettings`
    settings: dict[str, Any]


def measure_job(analyses: Sequence[RunAnalysis], *, source: str) -> MeasuredJob:
    """Return costs, length and settings of a job from a clean run and runs with faults.

    Raises `UsageError` if a needed figure was never seen.
    """
    references = (analysis.reference for analysis in analyses)
    clean_run = next(
        (recorded_run for recorded_run in references if recorded_run is not None), None
    )
    if clean_run is None or not clean_run.attempts:
        raise UsageError(
            "no clean run is recorded, so a step cannot be timed", _HOW, location=source
        )
    first_attempt = clean_run.attempts[0]
    attempts = [(clean_run.history, first_attempt)]
    attempts += [
        (recorded_run.history, attempt)
        for recorded_run in analyses
        for attempt in recorded_run.run.attempts
    ]
    of_step_s = measure_step_s(attempts)
    reports = has_reports(clean_run.history)
    saves = _commits(first_attempt) if reports else find_script_saves(clean_run.history)
    steps = max(Counter(step.rank for step in first_attempt.steps).values(), default=0)
    if not steps:
        raise UsageError("no optimizer step was seen, so none can be timed", _HOW)
    if not saves:
        raise UsageError("the job saves no checkpoint: every loss begins it again", location=source)
    nodes, min_nodes = _find_nodes(analyses[0], clean_run.history, first_attempt)
    save_interval = min(steps, max(1, round(steps / len(saves))))
    costs = {
        "step_s": of_step_s,
        "save_s": max(0.0, fmean(_measure_pauses_s(attempts) or [0.0]) - of_step_s),
        "upload_s": _measure_upload_s(clean_run.history),
        **_measure_restarts(analyses, of_step_s, source=source),
        "source": source,
    }
    return MeasuredJob(
        Costs.model_validate(costs),
        JobShape(
            nodes=nodes, min_nodes=min_nodes, steps=steps, checkpoint_every_steps=save_interval
        ),
        # For any kind of upload: training stops for `save_s`, and `upload_s` is the time after it.
        settings=_find_settings(clean_run.history),
    )


_HOW = "Give a run's folder, an audit's, or let --calibrate make the runs."


def measure_step_s(attempts: Sequence[tuple[History, Attempt]]) -> float:
    """Return the mean time between two steps of a rank within one epoch, over all attempts."""
    gaps_ns = []
    for history, attempt in attempts:
        for steps in attempt.steps.steps_by_epoch.values():
            times = [history.time_ns(step.number) for step in steps]
            gaps_ns += [b - a for a, b in pairwise(times)]
    if not gaps_ns:
        raise UsageError("no epoch has two steps, so a step cannot be timed", _HOW)
    return max(1e-6, fmean(gaps_ns) / 1e9)


def _measure_pauses_s(attempts: Sequence[tuple[History, Attempt]]) -> list[float]:
    """Return the times from a step to the next around what a rank saves, with that step itself.

    It is saved with the report of an epoch, or by the job itself if it reports nothing: in that
    time it writes, reports, and does all else that the job does there.
    """
    pauses = []
    for history, attempt in attempts:
        for (rank, epoch), epoch_steps in attempt.steps.steps_by_epoch.items():
            steps = [*epoch_steps, *attempt.select_steps(rank, epoch + 1)[:1]]
            saved = _find_saved_steps(history, attempt, epoch)
            pauses += [
                (history.time_ns(next_step.number) - history.time_ns(step.number)) / 1e9
                for step, next_step in pairwise(steps)
                if step.step in saved
            ]
    return pauses


def has_reports(history: History) -> bool:
    """Return whether a run's saves are what its workers reported; else they are files."""
    return find_launcher_facts(history).has_reports


def _find_saved_steps(history: History, attempt: Attempt, epoch: int) -> set[int]:
    """Return the steps of an attempt's epoch after which a checkpoint is saved."""
    if not has_reports(history):
        saves = (
            event
            for _, event in history.select_events(FileSaveBegun)
            if event.attempt == attempt.index
        )
        return {event.step for event in saves if event.epoch == epoch}
    last_steps = {
        steps[-1].step
        for (_, step_epoch), steps in attempt.steps.steps_by_epoch.items()
        if step_epoch == epoch
    }
    return last_steps if any(commit.epoch == epoch for commit in _commits(attempt)) else set()


def _commits(attempt: Attempt) -> list[Commit]:
    return [commit for commit in attempt.commits if commit.checkpoint is not None]


def find_script_saves(history: History) -> set[TrainingPlace]:
    """Return the places at which the lowest rank that saves begins a file of the job's own."""
    saves = [event for _, event in history.select_events(FileSaveBegun)]
    rank = min((event.rank for event in saves), default=0)
    return {TrainingPlace(event.epoch, event.step) for event in saves if event.rank == rank}


def find_launcher_facts(history: History) -> LauncherPolicy:
    """Return the facts of the launcher that started a recorded job."""
    fit_call = _find_fit_call(history)
    return LAUNCHER_FACTS[find_launcher(fit_call and fit_call.trainer)]


def _measure_upload_s(history: History) -> float:
    """Return the time from the return of the last rank's `report()` to the commit."""
    report_ends_ns: dict[int, int] = {}
    for number, event in history.select_events(ReportReturned):
        report_ends_ns[event.epoch] = max(
            report_ends_ns.get(event.epoch, 0), history.time_ns(number)
        )
    delays_s = [
        max(0, history.time_ns(number) - report_ends_ns[event.epoch]) / 1e9
        for number, event in history.select_events(Committed)
        if event.checkpoint is not None and event.epoch in report_ends_ns
    ]
    return fmean(delays_s) if delays_s else 0.0


def _measure_restarts(
    analyses: Sequence[RunAnalysis], of_step_s: float, *, source: str
) -> dict[str, float]:
    restart_parts = [
        parts
        for analysis in analyses
        for restart in analysis.restarts
        if (parts := _parts(analysis, restart, of_step_s))
    ]
    if not restart_parts:
        text = "no restart is recorded, so what one costs is not known"
        raise UsageError(text, _HOW, location=source)
    return {name: fmean(part[name] for part in restart_parts) for name in restart_parts[0]}


def _parts(analysis: RunAnalysis, restart: Restart, of_step_s: float) -> dict[str, float] | None:
    phases, seconds = restart.phases, restart.phases.seconds
    detect, group = seconds["detect_s"], seconds["group_s"]
    start, first = seconds["start_s"], seconds["first_step_s"]
    if detect is None or group is None or start is None or first is None:
        return None
    teardown = min(group, _teardown_s(analysis.history, phases.decided_ns, phases.group_ns))
    return {
        "detect_s": detect,
        "teardown_s": teardown,
        "schedule_s": group - teardown,
        "start_s": start,
        "restore_s": max(0.0, first - of_step_s),
    }


def _teardown_s(history: History, decided_ns: int | None, group_ns: int | None) -> float:
    """Return the time from Ray's decision until it began to schedule; 0 if that was not seen."""
    if decided_ns is None or group_ns is None:
        return 0.0
    for number, event in history.select_events(ControllerState):
        at_ns = history.time_ns(number)
        if decided_ns <= at_ns <= group_ns and "SCHEDULING" in event.state.upper():
            return (at_ns - decided_ns) / 1e9
    return 0.0


def _find_nodes(
    analysis: RunAnalysis, history: History, attempt: Attempt
) -> tuple[int, int | None]:
    """Return the nodes of a job, and the least it goes on with; one worker of Ray's is a node."""
    plan = analysis.plan
    if not plan.job.launcher_facts.nodes.has_spares:
        min_nodes = (
            plan.job.min_workers and plan.job.min_workers * plan.shape.nodes // attempt.worker_count
        )
        return plan.shape.nodes, min_nodes
    min_nodes, max_nodes = _find_worker_range(_find_fit_call(history)) or (
        None,
        attempt.worker_count,
    )
    return max_nodes, min_nodes


def _find_fit_call(history: History) -> FitCalled | None:
    return next((event for _, event in history.select_events(FitCalled)), None)


def find_start_settings(history: History) -> tuple[int, int | None, dict[str, Any]]:
    """Return the workers of a job of Ray Train's, the least it goes on with, and its settings."""
    fit_call = _find_fit_call(history)
    workers = 1 if fit_call is None else fit_call.workers
    min_workers, max_workers = _find_worker_range(fit_call) or (None, workers)
    return max_workers, min_workers, _find_settings(history) | {"checkpoint_upload_mode": "sync"}


def _find_worker_range(fit_call: FitCalled | None) -> tuple[int, int] | None:
    """Return the ends of an elastic `num_workers`."""
    worker_setting = None if fit_call is None else fit_call.settings.get("num_workers")
    if (
        isinstance(worker_setting, list | tuple)
        and len(worker_setting) == 2  # noqa: PLR2004
        and worker_setting[0] < worker_setting[1]
    ):
        return int(worker_setting[0]), int(worker_setting[1])
    return None


def _find_settings(history: History) -> dict[str, Any]:
    """Return the settings of a job's launcher: the script's own, without chaos's replacements."""
    facts, fit_call = find_launcher_facts(history), _find_fit_call(history)
    if SETTINGS.get(facts.name) is not RaySettings:
        return {"launcher": facts.name, "checkpoint_upload_mode": "no_upload"}
    if fit_call is None:
        return {"checkpoint_upload_mode": "async"}
    script_settings = {**fit_call.settings, **fit_call.original_settings}
    names = ("max_failures", "max_preemption_failures", "num_to_keep", "checkpoint_score_attribute")
    settings = {
        name: script_settings[name] for name in names if script_settings.get(name) is not None
    }
    for setting, option in (("storage_path", "storage_path"), ("run_name", "name")):
        if fit_call.original_settings.get(option) is not None:
            settings[setting] = str(fit_call.original_settings[option])
    of_environment = dict(_parse_environment(fit_call.settings.get("environment", {})))
    return settings | of_environment | {"checkpoint_upload_mode": "async"}


_VARIABLES = {
    "RAY_TRAIN_PREEMPTION_POLL_INTERVAL_S": "preemption_poll_s",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "health_check_interval_s",
    "RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S": "health_check_timeout_s",
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "group_start_timeout_s",
    "RAY_TRAIN_COLLECTIVE_TIMEOUT_S": "report_timeout_s",
}


def _parse_environment(environment: dict[str, str]) -> Iterator[tuple[str, Any]]:
    for variable, name in _VARIABLES.items():
        if environment.get(variable, "None") != "None":  # Ray's value for no limit
            yield name, float(environment[variable])
    if environment.get("RAY_TRAIN_ENABLE_PREEMPTION_WATCHER") == "0":
        yield "preemption_watcher", False


# -- folders of runs ----------------------------------------------------------------------------

RUNS_MAX = 40  # runs of an audit: the mean of so many restarts is stable


def load_analyses(folder: Path) -> tuple[RunAnalysis, ...]:
    """Return the runs of a folder; raises `UsageError` if it holds none."""
    if (folder / HISTORY).is_file():
        return (_load_analysis(RunDirectory(folder), RunDirectory(folder)),)
    runs = sorted(path.parent for path in (folder / "runs").glob(f"*/{HISTORY}"))
    if not runs:
        raise UsageError(
            "this is neither the folder of a run nor that of an audit",
            "Such as reports/<scenario>/<seed>-<start> or reports/audits/<script>-<start>.",
            location=str(folder),
        )
    return tuple(
        _load_analysis(RunDirectory(path), RunDirectory(folder)) for path in runs[:RUNS_MAX]
    )


def _load_analysis(directory: RunDirectory, baseline_directory: RunDirectory) -> RunAnalysis:
    has_baseline = (baseline_directory.path / BASELINE).is_file()
    baseline = baseline_directory.load_history(BASELINE) if has_baseline else None
    return RunAnalysis(directory.load_plan(), directory.load_history(), baseline)
