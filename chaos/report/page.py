"""The rows of the page of a run: facts, faults, restarts, checks, events, settings."""

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chaos.check.analysis import RunAnalysis
from chaos.check.goodput import Phase, TimeLedger, get_ledger
from chaos.check.headline import describe_first_resume_source
from chaos.check.injections import Injection
from chaos.check.restarts import Restart
from chaos.check.save_operations import describe_save
from chaos.model.event import FitCalled, WatchCost, WorkerStarted
from chaos.model.history import History
from chaos.model.masking import mask_value
from chaos.model.trigger import SAVE_MOMENTS, AtMoment
from chaos.model.verdict import CheckResult, RestartCounts, Verdict
from chaos.report.live import is_notable
from chaos.report.outcome import FinishedRun, build_suite_row, format_figure
from chaos.wording import plural

NEIGHBOUR_EVENTS = 2
EVENTS_PER_ANOMALY = 40
NOTABLE_EVENTS = 300


@dataclass(frozen=True)
class EventLine:
    """One event in words."""

    number: int
    #: counts from the first event
    at_s: float
    source: str
    text: str
    is_evidence: bool = False


@dataclass(frozen=True)
class OmittedEvents:
    """A number of events that are left out here."""

    events: int


def build_event_lines(history: History, numbers: tuple[int, ...]) -> tuple[EventLine, ...]:
    """Return these events in words; a number that the history lacks is left out."""
    return tuple(
        _build_event_line(history, number)
        for number in numbers[:EVENTS_PER_ANOMALY]
        if 0 <= number < len(history)
    )


def select_excerpt(
    history: History, verdict: Verdict, extra_numbers: Iterable[int] = ()
) -> tuple[EventLine | OmittedEvents, ...]:
    """Return the notable events, those of anomalies with neighbours, and `extra_numbers`."""
    evidence_numbers = {
        number
        for result in verdict.results
        for anomaly in result.anomalies
        for number in anomaly.events[:EVENTS_PER_ANOMALY]
    }
    chosen_numbers = {
        neighbour
        for n in evidence_numbers
        for neighbour in range(n - NEIGHBOUR_EVENTS, n + NEIGHBOUR_EVENTS + 1)
    }
    notable_numbers = [number for number, entry in enumerate(history) if is_notable(entry)]
    chosen_numbers |= set(notable_numbers[:NOTABLE_EVENTS]) | {0, len(history) - 1, *extra_numbers}
    rows: list[EventLine | OmittedEvents] = []
    previous_number = -1
    for number in sorted(n for n in chosen_numbers if 0 <= n < len(history)):
        if number > previous_number + 1:
            rows.append(OmittedEvents(number - previous_number - 1))
        rows.append(_build_event_line(history, number, is_evidence=number in evidence_numbers))
        previous_number = number
    return tuple(rows)


def _build_event_line(history: History, number: int, *, is_evidence: bool = False) -> EventLine:
    entry = history[number]
    at_s = (entry.time_ns - history[0].time_ns) / 1e9
    return EventLine(number, at_s, entry.source, entry.event.sentence, is_evidence)


SHORT_NS = 60 * 10**9  # most of a shorter run is start-up, and its goodput means nothing
PREVIOUS_ATTEMPT_PHASES: tuple[Phase, ...] = ("detect", "teardown")  # of the attempt before
NEW_ATTEMPT_PHASES: tuple[Phase, ...] = ("schedule", "start", "restore")


@dataclass(frozen=True)
class OpRow:
    """The result of one op; `at` is in seconds since the run began, and `took` is a duration."""

    index: int
    place: str
    fault: str
    target: str
    status: str
    detail: str
    at: str
    took: str
    events: tuple[int, ...]


@dataclass(frozen=True)
class RestartRow:
    """The cost of one restart."""

    attempt: int
    resume_source: str
    lost: str
    phase_durations: tuple[str, ...]
    total: str


@dataclass(frozen=True)
class AnomalyRow:
    """One broken promise with the events that show it, in words."""

    #: its id in the page
    name: str
    message: str
    lines: tuple[EventLine, ...]
    #: the number of events that are not listed
    more: int


@dataclass(frozen=True)
class CheckRow:
    """One check's verdict and its anomalies, each with an id of its own in the page."""

    result: CheckResult
    anomalies: tuple[AnomalyRow, ...]

    @property
    def is_told(self) -> bool:
        """Whether it found something, or is inconclusive."""
        return self.result.status != "pass" or bool(self.anomalies)


def build_facts(run: FinishedRun) -> dict[str, str]:
    """Return the figures at the top of the page, by name."""
    row = build_suite_row(run)
    landed_count = sum(injection.has_effect for injection in run.analysis.injections)
    time_ledger = get_ledger(run.analysis)
    share = time_ledger.goodput if time_ledger.wall_ns >= SHORT_NS else None
    values = {
        "faults landed": f"{landed_count} of {len(run.plan.ops)}",
        "resumes": _describe_resumes(run.verdict.restarts),
        "severity": run.verdict.severity,
        "attempts": str(row.attempts),
        "steps lost": format_figure(row.lost_steps, "{}"),
        "slowest recovery": _format_seconds(row.recovery_s),
        "goodput": None if share is None else f"{share:.0%}",
        "run took": _format_seconds(run.duration_s),
        "seed": str(run.plan.seed),
        "backend": run.plan.backend,
    }
    return {name: value for name, value in values.items() if value is not None}


def _describe_resumes(restarts: RestartCounts) -> str:
    """Return in words the number of restarts that resumed, and what the others did."""
    other_counts = {"from scratch": restarts.from_scratch, "idle": restarts.idle}
    words = [f"{count} {word}" for word, count in other_counts.items() if count]
    return f"{restarts.resumed} ({', '.join(words)})" if words else str(restarts.resumed)


def describe_watch_cost(history: History) -> str | None:
    """Return in words the cost of watching per optimizer step, as median over ranks and epochs."""
    costs = [event for _, event in history.select_events(WatchCost) if event.steps]
    if not costs:
        return None
    each_us = statistics.median(cost.watch_ns / cost.steps / 1000 for cost in costs)
    return f"{each_us:.0f} µs"


def build_op_rows(run: FinishedRun) -> tuple[OpRow, ...]:
    """Return one row per op of the plan, also of ops without effect."""
    return tuple(_build_op_row(injection, run.history) for injection in run.analysis.injections)


def find_faulted_saves(run: FinishedRun) -> list[tuple[str, list[tuple[str, bool]]]]:
    """Return each save that a fault was injected into, as the baseline made it: title, operations.

    Of one that has a single operation there is nothing to show.
    """
    faulted_saves = []
    for injection in run.analysis.injections if run.baseline is not None else ():
        trigger = injection.op.at
        if (
            isinstance(trigger, AtMoment)
            and trigger.moment in SAVE_MOMENTS
            and injection.has_effect
        ):
            assert run.baseline is not None
            marked_operations = describe_save(trigger, run.baseline)
            if len(marked_operations) > 1:
                faulted_saves.append(
                    (f"The save of epoch {trigger.epoch} on rank {trigger.rank}", marked_operations)
                )
    return faulted_saves


def build_restart_rows(run: FinishedRun) -> tuple[RestartRow, ...]:
    """Return one row per restart."""
    time_ledger = get_ledger(run.analysis)
    return tuple(
        _build_restart_row(restart, time_ledger, run.analysis) for restart in run.analysis.restarts
    )


def build_check_rows(history: History, verdict: Verdict) -> tuple[CheckRow, ...]:
    """Return the checks, those that found something first, then the inconclusive ones."""
    order = ("fail", "inconclusive", "pass")
    results = sorted(verdict.results, key=lambda result: order.index(result.status))
    return tuple(
        CheckRow(result, tuple(_build_anomaly_rows(history, result))) for result in results
    )


def _build_op_row(injection: Injection, history: History) -> OpRow:
    target, start_text, duration_text = "not injected", "", ""
    if injection.invocations:
        number, invocation = injection.invocations[0]
        target = f"rank {invocation.rank} · pid {invocation.pid} · node {invocation.node_id[:8]}"
        began_ns = history.time_ns(number)
        start_text = _format_seconds((began_ns - history.time_ns(0)) / 1e9)
        if injection.ended_ns is not None:
            duration_text = _format_seconds((injection.ended_ns - began_ns) / 1e9)
    status, detail = "did not begin", "training never came to this place"
    if injection.outcomes:
        status, detail = injection.status or injection.outcomes[-1][1].status, injection.detail
    elif injection.invocations:
        status, detail = "not ended", "nothing was recorded of what it came to"
    op = injection.op
    outcome = (target, status, detail, start_text, duration_text, injection.events)
    return OpRow(op.index, str(op.at), str(op.fault), *outcome)


def _describe_resume_source(restart: Restart, analysis: RunAnalysis) -> str:
    """Return what an attempt resumed from, in words.

    A checkpoint, or, if the job reports none to Ray, its own save file.
    """
    if not analysis.plan.job.launcher_facts.has_reports:
        return describe_first_resume_source(analysis, restart) or "no file"
    checkpoints = sorted(
        {checkpoint or "no checkpoint" for checkpoint in restart.checkpoints.values()}
    )
    epoch = "" if restart.epoch is None else f", epoch {restart.epoch}"
    return (" and ".join(checkpoints) or "not seen") + epoch


def _build_restart_row(
    restart: Restart, time_ledger: TimeLedger, analysis: RunAnalysis
) -> RestartRow:
    previous_attempt_seconds = (
        time_ledger.sum_seconds(attempt=restart.previous_attempt.index)
        if restart.previous_attempt
        else {}
    )
    new_attempt_seconds = time_ledger.sum_seconds(attempt=restart.attempt.index)
    lost_count = max(restart.lost_steps_by_rank.values(), default=0)
    return RestartRow(
        attempt=restart.attempt.index,
        resume_source=_describe_resume_source(restart, analysis),
        lost=plural(lost_count, "step") if analysis.has_visible_steps else "-",
        phase_durations=(
            *(
                _format_seconds(previous_attempt_seconds.get(phase))
                for phase in PREVIOUS_ATTEMPT_PHASES
            ),
            *(_format_seconds(new_attempt_seconds[phase]) for phase in NEW_ATTEMPT_PHASES),
        ),
        total=_format_seconds(restart.phases.total_s),
    )


def _build_anomaly_rows(history: History, result: CheckResult) -> Iterator[AnomalyRow]:
    for number, anomaly in enumerate(result.anomalies, 1):
        lines, hidden_count = (
            build_event_lines(history, anomaly.events),
            len(anomaly.events) - EVENTS_PER_ANOMALY,
        )
        yield AnomalyRow(f"{result.check}-{number}", anomaly.message, lines, max(0, hidden_count))


def _format_seconds(value: float | None) -> str:
    return format_figure(value, "{:.2f} s")


@dataclass(frozen=True)
class Setting:
    """One named value."""

    name: str
    value: str
    #: the script's own, if chaos replaced it
    before: str | None = None


@dataclass(frozen=True)
class Settings:
    """Settings under one heading."""

    title: str
    rows: tuple[Setting, ...]

    @property
    def was_replaced(self) -> bool:
        """Whether any of them replaces the script's own."""
        return any(row.before is not None for row in self.rows)


def build_settings(run: FinishedRun) -> tuple[Settings, ...]:
    """Return all settings of a run, by heading; a heading without any is left out."""
    plan = run.plan
    job = plan.job.model_dump(exclude_none=True, exclude_defaults=True)
    plan_values = {
        "seed": plan.seed,
        "backend": plan.backend,
        "cluster": plan.shape.model_dump(),
        "limits": plan.limits.model_dump(),
        "expect": plan.expect.model_dump(exclude_none=True),
        "working directory": plan.cwd,
        "scenario file": plan.file,
    }
    groups = (
        Settings(
            f"In force {run.plan.job.launcher_facts.words.settings_phrase}",
            tuple(_list_fit_settings(run)),
        ),
        Settings("Job", tuple(_flatten_settings(job))),
        Settings("Plan", tuple(_flatten_settings(plan_values))),
        Settings("Versions and machine", tuple(_flatten_settings(run.env))),
    )
    return tuple(group for group in groups if group.rows)


def _list_fit_settings(run: FinishedRun) -> Iterator[Setting]:
    for _, fit_call in run.history.select_events(FitCalled):
        replaced_values = {
            row.name: row.value for row in _flatten_settings(fit_call.original_settings)
        }
        fit_values = {
            "trainer": fit_call.trainer,
            "name": fit_call.run_name,
            "storage_path": fit_call.storage_path,
            **fit_call.settings,
        }
        for row in _flatten_settings(fit_values):
            yield Setting(row.name, row.value, replaced_values.pop(row.name, None))
        for name, script_value in replaced_values.items():
            yield Setting(name, "set by the scenario", script_value)
        observations = {
            "devices": describe_devices(run.history),
            "watching a step took": describe_watch_cost(run.history),
        }
        yield from (Setting(name, value) for name, value in observations.items() if value)
        return  # the history has the calls of a script that calls fit() twice


def describe_devices(history: History) -> str:
    """Return the devices of the first attempt's ranks; empty if none started."""
    accelerators_by_rank = {
        event.rank: event.accelerators
        for _, event in history.select_events(WorkerStarted)
        if event.attempt == 0
    }
    device_by_rank = {
        rank: ", ".join(accelerators) or "CPU"
        for rank, accelerators in sorted(accelerators_by_rank.items())
    }
    if len(set(device_by_rank.values())) == 1:
        return device_by_rank.popitem()[1]
    return "; ".join(f"rank {rank}: {device}" for rank, device in device_by_rank.items())


def _flatten_settings(values: Mapping[str, Any], prefix: str = "") -> Iterator[Setting]:
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from _flatten_settings(value, f"{name}.")
        else:
            yield Setting(name, _format_value(mask_value(value, key)))


def _format_value(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, default=str)
