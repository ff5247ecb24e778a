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
from chaos.check.attempt import Attempt, Commit
from chaos.check.restarts import Restart
from chaos.errors import UsageError
from chaos.model.event import (
    Committed,
    ControllerState,
    FileSaveBegun,
    FitCalled,
    ReportReturned,
)
from chaos.model.history import BASELINE, HISTORY, History
from chaos.model.launcher import FACTS, LauncherFacts, launcher_named
from chaos.model.places import Place
from chaos.preflight.market import (
    MARKETS,
    Exponential,
    LossNotice,
    Market,
    TraceReading,
    preset,
)
from chaos.preflight.question import Costs, JobShape, Question, changed, with_ranges
from chaos.preflight.ranges import Range, held_range
from chaos.preflight.settings import SETTINGS
from chaos.preflight.trace import fit, replayed
from chaos.preflight.trace_columns import Unit
from chaos.preflight.trace_files import read_advisor, read_trace
from chaos.record import Record
from chaos.run.directory import RunDirectory
from chaos.scenario_file.messages import nearest, quoted
from chaos.scenario_file.yaml_lines import (
    Lines,
    Problem,
    Source,
    read_source,
    read_text,
    scenario_error,
)
from chaos.words import plural

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
    source = read_source(read_text(path, "question"))
    if source.problems:
        raise scenario_error(path, source.problems)
    value = source.value
    if not isinstance(value, dict):
        text = f"a question must be a mapping, got {quoted(value)}"
        raise scenario_error(path, [Problem(1, text, "Begin with `preflight:` and `job:`.")])
    wrong: list[Problem] = []
    if market is not None:
        value["market"] = market.model_dump(mode="json")
    elif isinstance(value.get("market"), str):
        value["market"], wrong = _named(source)
    try:
        question = Question.model_validate_json(json.dumps(with_ranges(value)))
    except UsageError as error:
        line = source.lines.key(("costs",))
        raise scenario_error(path, [*wrong, Problem(line, error.problem, "")]) from None
    except ValidationError as error:
        errors = error.errors(include_url=False)
        raise scenario_error(path, [*wrong, *_problems(errors, source.lines)]) from None
    if wrong:
        raise scenario_error(path, wrong)
    return question


def _named(source: Source) -> tuple[dict[str, Any], list[Problem]]:
    """Return the market of that name; without one, any, so that the rest is still checked."""
    try:
        return preset(str(source.value["market"])).model_dump(mode="json"), []
    except UsageError as error:
        line = source.lines.value(("market",))
        wrong = Problem(line, error.problem, error.hint, ("market",))
        return MARKETS[0].model_dump(mode="json"), [wrong]


def _problems(errors: list[ErrorDetails], lines: Lines) -> Iterator[Problem]:
    unknown = [_place(error) for error in errors if error["type"] == "extra_forbidden"]
    meant = {(*loc[:-1], nearest(str(loc[-1]), _keys_beside(loc))) for loc in unknown}
    for error in errors:
        loc = _place(error)
        if error["type"] == "missing" and loc in meant:
            continue  # a misspelt key is not also a missing one
        name = ".".join(str(part) for part in loc) or "the question"
        match error["type"]:
            case "extra_forbidden":
                near = nearest(str(loc[-1]), _keys_beside(loc))
                hint = _MEANS_NOTHING.get(str(loc[-1])) or (f"Did you mean {near}?" if near else "")
                yield Problem(lines.key(loc), f"unknown key {name!r}", hint, loc)
            case "union_tag_invalid":
                text = f"{name}.launcher is one of {', '.join(SETTINGS)}"
                yield Problem(lines.key(loc), text, "", loc)
            case "missing":
                yield Problem(lines.value(loc[:-1]), f"{name} is missing", "", loc)
            case "value_error":
                text = error["msg"].removeprefix("Value error, ")
                yield Problem(lines.value(loc), text, "", loc)
            case _:
                text = f"{name}: {error['msg'][:1].lower()}{error['msg'][1:]}"
                yield Problem(lines.value(loc), f"{text}, got {quoted(error['input'])}", "", loc)


def _place(error: ErrorDetails) -> tuple[str | int, ...]:
    return tuple(part for part in error["loc"] if part not in _KINDS)


def _keys_beside(loc: tuple[str | int, ...]) -> list[str]:
    """Return the keys that are allowed at the place of `loc`."""
    kinds: list[Any] = [Question]
    for part in loc[:-1]:
        fields = [field for kind in kinds if (field := kind.model_fields.get(part))]
        kinds = [one for field in fields for one in _records(field.annotation)]
    keys = [key for kind in kinds for key in (*kind.model_fields, *getattr(kind, "ALSO", ()))]
    return list(dict.fromkeys(keys))


def _records(annotation: Any) -> Iterator[type[Record]]:  # noqa: ANN401 (a type, or a union)
    if isinstance(annotation, type) and issubclass(annotation, Record):
        yield annotation
    for one in getattr(annotation, "__args__", ()):
        yield from _records(one)


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


def chosen_market(choice: MarketChoice, held: int | None = None) -> tuple[Market, tuple[str, ...]]:
    """Return the chosen market, with notes on it; with `held` nodes when a log was written.

    Traces and the table have no notices. Two minutes in 95 of 100 cases, which
    AWS promises at best, are assumed, with a note.
    """
    if sum(map(bool, (choice.name, choice.trace, choice.advisor))) > 1:
        problem = "more than one market is given"
        raise UsageError(problem, "Choose one of --market, --trace and --advisor.")
    assumed = LossNotice(seconds=120, reliability=0.95)
    if choice.advisor is not None:
        return _advised(choice.advisor, assumed)
    if choice.trace is None:
        return preset(choice.name or UNNAMED), ()
    if held is None and choice.trace_held is not None:
        held = choice.trace_held[0]  # the fewest: each is lost most often
    trace = read_trace(choice.trace, held, choice.trace_unit)
    seen = fit(trace, notice=assumed, price_ratio=0.35)
    market = replayed(trace, notice=assumed, price_ratio=0.35) if choice.replay else seen.market
    market = market.read_as(choice.trace_nodes)
    mtbf_h = seen.mtbf_h
    most = f"to {mtbf_h.high:.2f}" if math.isfinite(mtbf_h.high) else "or more"
    span = (
        f"{plural(len(trace.drops), 'loss', 'losses')}: {mtbf_h.value:.2f} h per node "
        f"(95 %: {mtbf_h.low:.2f} {most}), {seen.together.value:.0%} take more than one node"
    )
    said = "notice of 120 s in 95 % of losses and a price of 0.35 are assumed, not in the source"
    return market, (span, *seen.notes, said)


def market_ranges(choice: MarketChoice, values: Mapping[str, Any]) -> tuple[Range, ...]:
    """Return the range of the nodes that there were, if it was given, with a market's values."""
    if choice.trace_held is None or choice.trace_held[0] == choice.trace_held[1]:
        return ()
    few, many = choice.trace_held
    return (held_range(few, many, lambda held: chosen_market(choice, held)[0], values),)


def _advised(words: str, notice: LossNotice) -> tuple[Market, tuple[str, ...]]:
    path, _, type_ = words.rpartition(":")
    file, _, region = path.rpartition(":")
    if not file or not region or not type_:
        raise UsageError(f"--advisor is FILE:REGION:TYPE, got {words}")
    mtbf_h, saving = read_advisor(Path(file), region, type_)
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


def question_of_runs(analyses: Sequence[RunAnalysis], *, source: str, market: Market) -> Question:
    """Return the question of recorded runs: as long as the clean run, on as many nodes.

    Raises `UsageError` for a job whose launcher has no settings that a forecast knows.
    """
    names = {facts_seen(analysis.history).name for analysis in analyses}
    other = next((name for name in sorted(names) if name not in SETTINGS), None)
    if other is not None:
        raise UsageError(
            f"{FACTS[other].words.name} started this job, and its settings, which a forecast "
            "needs, are in no run",
            "Write a question with them, and give this folder as its --costs.",
            place=source,
        )
    seen = measured(analyses, source=f"measured in {source}")
    return Question(
        preflight=f"the job of {source}",
        job=seen.job,
        settings=SETTINGS[names.pop()](**seen.settings),
        costs=seen.costs,
        market=market,
    )


def with_costs_of(question: Question, analyses: Sequence[RunAnalysis], *, source: str) -> Question:
    """Return a question with its costs taken from recorded runs; its price stays."""
    embedded = any(
        facts_seen(a.history).lacks_part("call") and a.plan.backend == "fork" for a in analyses
    )
    without = ", where workers are forked and import no torch as they start" if embedded else ""
    seen = measured(analyses, source=f"measured in {source}{without}")
    costs = seen.costs.model_dump(mode="json")
    if question.costs is not None:
        own = question.costs
        costs |= {"price_per_node_hour": own.price_per_node_hour, "currency": own.currency}
    mode = question.settings.uploads_beside
    return changed(question, {"costs": costs, "settings.checkpoint_upload_mode": mode})


@dataclass(frozen=True)
class Measured:
    """Costs and length of a job in recorded runs."""

    costs: Costs
    job: JobShape
    #: fields of `RaySettings`
    settings: dict[str, Any]


def measured(analyses: Sequence[RunAnalysis], *, source: str) -> Measured:
    """Return costs, length and settings of a job from a clean run and runs with faults.

    Raises `UsageError` if a needed figure was never seen.
    """
    references = (analysis.reference for analysis in analyses)
    clean = next((one for one in references if one is not None), None)
    if clean is None or not clean.attempts:
        raise UsageError("no clean run is recorded, so a step cannot be timed", _HOW, place=source)
    first = clean.attempts[0]
    seen = [(clean.history, first)]
    seen += [(one.history, attempt) for one in analyses for attempt in one.run.attempts]
    of_step_s = step_s(seen)
    has_reports = "reports" in facts_seen(clean.history).has
    saves = _commits(first) if has_reports else own_saves(clean.history)
    steps = max(Counter(step.rank for step in first.steps).values(), default=0)
    if not steps:
        raise UsageError("no optimizer step was seen, so none can be timed", _HOW)
    if not saves:
        raise UsageError("the job saves no checkpoint: every loss begins it again", place=source)
    nodes, least = _nodes(analyses[0], clean.history, first)
    every = min(steps, max(1, round(steps / len(saves))))
    costs = {
        "step_s": of_step_s,
        "save_s": max(0.0, fmean(_pauses_s(seen) or [0.0]) - of_step_s),
        "upload_s": _upload_s(clean.history),
        **_restart(analyses, of_step_s, source=source),
        "source": source,
    }
    return Measured(
        Costs.model_validate(costs),
        JobShape(nodes=nodes, min_nodes=least, steps=steps, checkpoint_every_steps=every),
        # For any kind of upload: training stops for `save_s`, and `upload_s` is the time after it.
        settings=_settings(clean.history),
    )


_HOW = "Give a run's folder, an audit's, or let --calibrate make the runs."


def step_s(seen: Sequence[tuple[History, Attempt]]) -> float:
    """Return the mean time between two steps of a rank within one epoch, over all attempts."""
    apart = []
    for history, attempt in seen:
        for steps in attempt.steps.by_epoch.values():
            times = [history.time_ns(step.number) for step in steps]
            apart += [b - a for a, b in pairwise(times)]
    if not apart:
        raise UsageError("no epoch has two steps, so a step cannot be timed", _HOW)
    return max(1e-6, fmean(apart) / 1e9)


def _pauses_s(seen: Sequence[tuple[History, Attempt]]) -> list[float]:
    """Return the times from a step to the next around what a rank saves, with that step itself.

    It is saved with the report of an epoch, or by the job itself if it reports nothing: in that
    time it writes, reports, and does all else that the job does there.
    """
    pauses = []
    for history, attempt in seen:
        for (rank, epoch), made in attempt.steps.by_epoch.items():
            steps = [*made, *attempt.steps_of(rank, epoch + 1)[:1]]
            saved = _saved_after(history, attempt, epoch)
            pauses += [
                (history.time_ns(after.number) - history.time_ns(step.number)) / 1e9
                for step, after in pairwise(steps)
                if step.step in saved
            ]
    return pauses


def _saved_after(history: History, attempt: Attempt, epoch: int) -> set[int]:
    """Return the steps of an attempt's epoch after which a checkpoint is saved."""
    if facts_seen(history).lacks_part("reports"):
        saves = (event for _, event in history.of(FileSaveBegun) if event.attempt == attempt.index)
        return {event.step for event in saves if event.epoch == epoch}
    last = {steps[-1].step for (_, of), steps in attempt.steps.by_epoch.items() if of == epoch}
    return last if any(commit.epoch == epoch for commit in _commits(attempt)) else set()


def _commits(attempt: Attempt) -> list[Commit]:
    return [commit for commit in attempt.commits if commit.checkpoint is not None]


def own_saves(history: History) -> set[Place]:
    """Return the places at which the lowest rank that saves begins a file of the job's own."""
    saves = [event for _, event in history.of(FileSaveBegun)]
    rank = min((event.rank for event in saves), default=0)
    return {Place(event.epoch, event.step) for event in saves if event.rank == rank}


def facts_seen(history: History) -> LauncherFacts:
    """Return the facts of the launcher that started a recorded job."""
    called = _called(history)
    return FACTS[launcher_named(called and called.trainer)]


def _upload_s(history: History) -> float:
    """Return the time from the return of the last rank's `report()` to the commit."""
    returned: dict[int, int] = {}
    for number, event in history.of(ReportReturned):
        returned[event.epoch] = max(returned.get(event.epoch, 0), history.time_ns(number))
    behind = [
        max(0, history.time_ns(number) - returned[event.epoch]) / 1e9
        for number, event in history.of(Committed)
        if event.checkpoint is not None and event.epoch in returned
    ]
    return fmean(behind) if behind else 0.0


def _restart(analyses: Sequence[RunAnalysis], of_step_s: float, *, source: str) -> dict[str, float]:
    found = [
        parts
        for analysis in analyses
        for restart in analysis.restarts
        if (parts := _parts(analysis, restart, of_step_s))
    ]
    if not found:
        text = "no restart is recorded, so what one costs is not known"
        raise UsageError(text, _HOW, place=source)
    return {name: fmean(part[name] for part in found) for name in found[0]}


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
    for number, event in history.of(ControllerState):
        at_ns = history.time_ns(number)
        if decided_ns <= at_ns <= group_ns and "SCHEDULING" in event.state.upper():
            return (at_ns - decided_ns) / 1e9
    return 0.0


def _nodes(analysis: RunAnalysis, history: History, attempt: Attempt) -> tuple[int, int | None]:
    """Return the nodes of a job, and the least it goes on with; one worker of Ray's is a node."""
    plan = analysis.plan
    if not plan.job.facts.has_spare_nodes:
        least = plan.job.min_workers and plan.job.min_workers * plan.shape.nodes // attempt.size
        return plan.shape.nodes, least
    least, most = _range_of(_called(history)) or (None, attempt.size)
    return most, least


def _called(history: History) -> FitCalled | None:
    return next((event for _, event in history.of(FitCalled)), None)


def seen_at_start(history: History) -> tuple[int, int | None, dict[str, Any]]:
    """Return the workers of a job of Ray Train's, the least it goes on with, and its settings."""
    called = _called(history)
    workers = 1 if called is None else called.workers
    least, most = _range_of(called) or (None, workers)
    return most, least, _settings(history) | {"checkpoint_upload_mode": "sync"}


def _range_of(called: FitCalled | None) -> tuple[int, int] | None:
    """Return the ends of an elastic `num_workers`."""
    own = None if called is None else called.settings.get("num_workers")
    if isinstance(own, list | tuple) and len(own) == 2 and own[0] < own[1]:  # noqa: PLR2004
        return int(own[0]), int(own[1])
    return None


def _settings(history: History) -> dict[str, Any]:
    """Return the settings of a job's launcher: the script's own, without chaos's replacements."""
    facts, called = facts_seen(history), _called(history)
    if facts.name not in SETTINGS or facts.lacks_part("call"):
        return {"launcher": facts.name, "checkpoint_upload_mode": "no_upload"}
    if called is None:
        return {"checkpoint_upload_mode": "async"}
    own = {**called.settings, **called.replaced}
    names = ("max_failures", "max_preemption_failures", "num_to_keep", "checkpoint_score_attribute")
    settings = {name: own[name] for name in names if own.get(name) is not None}
    for ours, theirs in (("storage_path", "storage_path"), ("run_name", "name")):
        if called.replaced.get(theirs) is not None:
            settings[ours] = str(called.replaced[theirs])
    of_environment = dict(_from_environment(called.settings.get("environment", {})))
    return settings | of_environment | {"checkpoint_upload_mode": "async"}


_VARIABLES = {
    "RAY_TRAIN_PREEMPTION_POLL_INTERVAL_S": "preemption_poll_s",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "health_check_interval_s",
    "RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S": "health_check_timeout_s",
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "group_start_timeout_s",
    "RAY_TRAIN_COLLECTIVE_TIMEOUT_S": "report_timeout_s",
}


def _from_environment(environment: dict[str, str]) -> Iterator[tuple[str, Any]]:
    for variable, name in _VARIABLES.items():
        if environment.get(variable, "None") != "None":  # Ray's value for no limit
            yield name, float(environment[variable])
    if environment.get("RAY_TRAIN_ENABLE_PREEMPTION_WATCHER") == "0":
        yield "preemption_watcher", False


# -- folders of runs ----------------------------------------------------------------------------

RUNS_MAX = 40  # runs of an audit: the mean of so many restarts is stable


def analyses_in(folder: Path) -> tuple[RunAnalysis, ...]:
    """Return the runs of a folder; raises `UsageError` if it holds none."""
    if (folder / HISTORY).is_file():
        return (_trial(RunDirectory(folder), RunDirectory(folder)),)
    runs = sorted(path.parent for path in (folder / "runs").glob(f"*/{HISTORY}"))
    if not runs:
        raise UsageError(
            "this is neither the folder of a run nor that of an audit",
            "Such as reports/<scenario>/<seed>-<start> or reports/audits/<script>-<start>.",
            place=str(folder),
        )
    return tuple(_trial(RunDirectory(path), RunDirectory(folder)) for path in runs[:RUNS_MAX])


def _trial(directory: RunDirectory, beside: RunDirectory) -> RunAnalysis:
    has_baseline = (beside.path / BASELINE).is_file()
    baseline = beside.load_history(BASELINE) if has_baseline else None
    return RunAnalysis(directory.load_plan(), directory.load_history(), baseline)
