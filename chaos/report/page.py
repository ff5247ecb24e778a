"""The rows of the page of a run: facts, faults, restarts, checks, events, settings."""

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chaos.check.analysis import RunAnalysis
from chaos.check.goodput import Ledger, Phase, ledger_of
from chaos.check.headline import source_of
from chaos.check.injections import Injection
from chaos.check.restarts import Restart
from chaos.check.save_operations import save_with
from chaos.model.event import FitCalled, WatchCost, WorkersPrestarted, WorkerStarted
from chaos.model.history import History
from chaos.model.masked import masked
from chaos.model.trigger import IN_A_SAVE, AtMoment
from chaos.model.verdict import CheckResult, Restarts, Verdict
from chaos.report.live import is_notable
from chaos.report.outcome import FinishedRun, known, row_of
from chaos.words import plural

AROUND = 2
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
class Gap:
    """A number of events that are left out here."""

    events: int


def lines_of(history: History, numbers: tuple[int, ...]) -> tuple[EventLine, ...]:
    """Return these events in words; a number that the history lacks is left out."""
    return tuple(
        _line(history, number)
        for number in numbers[:EVENTS_PER_ANOMALY]
        if 0 <= number < len(history)
    )


def excerpt(
    history: History, verdict: Verdict, also: Iterable[int] = ()
) -> tuple[EventLine | Gap, ...]:
    """Return the notable events, those that show an anomaly with their neighbours, and `also`."""
    shown = {
        number
        for result in verdict.results
        for anomaly in result.anomalies
        for number in anomaly.events[:EVENTS_PER_ANOMALY]
    }
    chosen = {near for n in shown for near in range(n - AROUND, n + AROUND + 1)}
    notable = [number for number, entry in enumerate(history) if is_notable(entry)]
    chosen |= set(notable[:NOTABLE_EVENTS]) | {0, len(history) - 1, *also}
    rows: list[EventLine | Gap] = []
    before = -1
    for number in sorted(n for n in chosen if 0 <= n < len(history)):
        if number > before + 1:
            rows.append(Gap(number - before - 1))
        rows.append(_line(history, number, is_evidence=number in shown))
        before = number
    return tuple(rows)


def _line(history: History, number: int, *, is_evidence: bool = False) -> EventLine:
    entry = history[number]
    at_s = (entry.time_ns - history[0].time_ns) / 1e9
    return EventLine(number, at_s, entry.source, entry.what.sentence, is_evidence)


SHORT_NS = 60 * 10**9  # most of a shorter run is start-up, and its goodput means nothing
ENDED_IN: tuple[Phase, ...] = ("detect", "teardown")  # of the attempt before
BEGUN_WITH: tuple[Phase, ...] = ("schedule", "start", "restore")


@dataclass(frozen=True)
class OpRow:
    """The result of one op; times are seconds since the run began."""

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
    start: str
    lost: str
    seconds: tuple[str, ...]
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


def facts(run: FinishedRun) -> dict[str, str]:
    """Return the figures at the top of the page, by name."""
    row = row_of(run)
    landed = sum(injection.landed for injection in run.analysis.injections)
    spent = ledger_of(run.analysis)
    share = spent.goodput if spent.wall_ns >= SHORT_NS else None
    found = {
        "faults landed": f"{landed} of {len(run.plan.ops)}",
        "resumes": _resumes(run.verdict.restarts),
        "severity": run.verdict.severity,
        "attempts": str(row.attempts),
        "steps lost": known(row.lost_steps, "{}"),
        "slowest recovery": _seconds(row.recovery_s),
        "goodput": None if share is None else f"{share:.0%}",
        "run took": _seconds(run.duration_s),
        "seed": str(run.plan.seed),
        "backend": run.plan.backend,
    }
    return {name: value for name, value in found.items() if value is not None}


def _resumes(restarts: Restarts) -> str:
    """Return in words the number of restarts that resumed, and what the others did."""
    others = {"from scratch": restarts.from_scratch, "idle": restarts.idle}
    words = [f"{count} {word}" for word, count in others.items() if count]
    return f"{restarts.resumed} ({', '.join(words)})" if words else str(restarts.resumed)


def watch_cost(history: History) -> str | None:
    """Return in words the cost of watching per optimizer step, as median over ranks and epochs."""
    costs = [e for _, e in history.of(WatchCost) if e.steps]
    if not costs:
        return None
    each_us = statistics.median(cost.watch_ns / cost.steps / 1000 for cost in costs)
    return f"{each_us:.0f} µs"


def op_rows(run: FinishedRun) -> tuple[OpRow, ...]:
    """Return one row per op of the plan, also of ops without effect."""
    return tuple(_op_row(injection, run.history) for injection in run.analysis.injections)


def saves_with_faults(run: FinishedRun) -> list[tuple[str, list[tuple[str, bool]]]]:
    """Return each save that a fault was injected into, as the baseline made it: title, operations.

    Of one that has a single operation there is nothing to show.
    """
    found = []
    for injection in run.analysis.injections if run.baseline is not None else ():
        at = injection.op.at
        if isinstance(at, AtMoment) and at.moment in IN_A_SAVE and injection.landed:
            assert run.baseline is not None
            steps = save_with(at, run.baseline)
            if len(steps) > 1:
                found.append((f"The save of epoch {at.epoch} on rank {at.rank}", steps))
    return found


def restart_rows(run: FinishedRun) -> tuple[RestartRow, ...]:
    """Return one row per restart."""
    spent = ledger_of(run.analysis)
    return tuple(_restart_row(restart, spent, run.analysis) for restart in run.analysis.restarts)


def check_rows(history: History, verdict: Verdict) -> tuple[CheckRow, ...]:
    """Return the checks, those that found something first, then the inconclusive ones."""
    order = ("fail", "inconclusive", "pass")
    results = sorted(verdict.results, key=lambda result: order.index(result.status))
    return tuple(CheckRow(result, tuple(_anomaly_rows(history, result))) for result in results)


def _op_row(injection: Injection, history: History) -> OpRow:
    target, at, took = "not injected", "", ""
    if injection.invoked:
        number, struck = injection.invoked[0]
        target = f"rank {struck.rank} · pid {struck.pid} · node {struck.node_id[:8]}"
        began_ns = history.time_ns(number)
        at = _seconds((began_ns - history.time_ns(0)) / 1e9)
        if injection.ended_ns is not None:
            took = _seconds((injection.ended_ns - began_ns) / 1e9)
    status, detail = "did not begin", "training never came to this place"
    if injection.ended:
        status, detail = injection.status or injection.ended[-1][1].status, injection.detail
    elif injection.invoked:
        status, detail = "not ended", "nothing was recorded of what it came to"
    op = injection.op
    told = (target, status, detail, at, took, injection.events)
    return OpRow(op.index, str(op.at), str(op.fault), *told)


def _start(restart: Restart, analysis: RunAnalysis) -> str:
    """Return what an attempt continued from; a job that reports nothing has files of its own."""
    if analysis.plan.job.facts.lacks_part("reports"):
        return source_of(analysis, restart) or "no file"
    checkpoints = sorted(
        {checkpoint or "no checkpoint" for checkpoint in restart.checkpoints.values()}
    )
    epoch = "" if restart.epoch is None else f", epoch {restart.epoch}"
    return (" and ".join(checkpoints) or "not seen") + epoch


def _restart_row(restart: Restart, spent: Ledger, analysis: RunAnalysis) -> RestartRow:
    ended = spent.seconds(attempt=restart.ended.index) if restart.ended else {}
    begun = spent.seconds(attempt=restart.attempt.index)
    lost = max(restart.lost_steps.values(), default=0)
    return RestartRow(
        attempt=restart.attempt.index,
        start=_start(restart, analysis),
        lost=plural(lost, "step") if analysis.sees_steps else "-",
        seconds=(
            *(_seconds(ended.get(phase)) for phase in ENDED_IN),
            *(_seconds(begun[phase]) for phase in BEGUN_WITH),
        ),
        total=_seconds(restart.phases.total_s),
    )


def _anomaly_rows(history: History, result: CheckResult) -> Iterator[AnomalyRow]:
    for number, found in enumerate(result.anomalies, 1):
        lines, more = lines_of(history, found.events), len(found.events) - EVENTS_PER_ANOMALY
        yield AnomalyRow(f"{result.check}-{number}", found.message, lines, max(0, more))


def _seconds(value: float | None) -> str:
    return known(value, "{:.2f} s")


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


def settings(run: FinishedRun) -> tuple[Settings, ...]:
    """Return all settings of a run, by heading; a heading without any is left out."""
    plan = run.plan
    job = plan.job.model_dump(exclude_none=True, exclude_defaults=True)
    rest = {
        "seed": plan.seed,
        "backend": plan.backend,
        "cluster": plan.shape.model_dump(),
        "limits": plan.limits.model_dump(),
        "expect": plan.expect.model_dump(exclude_none=True),
        "working directory": plan.cwd,
        "scenario file": plan.file,
    }
    groups = (
        Settings(f"In force {run.plan.job.facts.words.in_force}", tuple(_in_force(run))),
        Settings("Job", tuple(_flat(job))),
        Settings("Plan", tuple(_flat(rest))),
        Settings("Versions and machine", tuple(_flat(run.env))),
    )
    return tuple(group for group in groups if group.rows)


def _in_force(run: FinishedRun) -> Iterator[Setting]:
    for _, called in run.history.of(FitCalled):
        replaced = {row.name: row.value for row in _flat(called.replaced)}
        in_force = {
            "trainer": called.trainer,
            "name": called.run_name,
            "storage_path": called.storage_path,
            **called.settings,
        }
        for row in _flat(in_force):
            yield Setting(row.name, row.value, replaced.pop(row.name, None))
        for name, before in replaced.items():
            yield Setting(name, "set by the scenario", before)
        seen = {
            "devices": devices_of(run.history),
            "watching a step took": watch_cost(run.history),
            "prestarted workers": prestarted(run.history),
        }
        yield from (Setting(name, value) for name, value in seen.items() if value)
        return  # the history has the calls of a script that calls fit() twice


def devices_of(history: History) -> str:
    """Return the devices of the first attempt's ranks; empty if none started."""
    first = {e.rank: e.accelerators for _, e in history.of(WorkerStarted) if e.attempt == 0}
    named = {rank: ", ".join(given) or "CPU" for rank, given in sorted(first.items())}
    if len(set(named.values())) == 1:
        return named.popitem()[1]
    return "; ".join(f"rank {rank}: {device}" for rank, device in named.items())


def prestarted(history: History) -> str:
    """Return in words how many workers were prestarted in time; empty if none were to be."""
    pools = [event for _, event in history.of(WorkersPrestarted)]
    if not pools:
        return ""
    taken = ", ".join(f"{e.taken} in attempt {e.attempt}" for e in pools if e.taken)
    asked = f"asked for: {sum(sum(pool.asked.values()) for pool in pools)}"
    error = next((f"; {pool.error}" for pool in pools if pool.error is not None), "")
    if not taken:
        return f"none ({asked}{error})"
    return f"{taken} ({asked}{error}): its recovery is shorter than it would be without"


def _flat(values: Mapping[str, Any], head: str = "") -> Iterator[Setting]:
    for key, value in values.items():
        name = f"{head}{key}"
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{name}.")
        else:
            yield Setting(name, _text(masked(value, key)))


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, default=str)
