"""What stands on the page of a run, as rows that a template only has to write down."""

import statistics
from dataclasses import dataclass
from typing import Literal, TypeAlias

from chaos.check.goodput import Ledger, Phase, ledger_of
from chaos.check.restarts import Restart
from chaos.check.result import plural
from chaos.check.strikes import Strike
from chaos.check.trial import Trial
from chaos.model.event import WatchCost
from chaos.model.history import History
from chaos.model.verdict import Anomaly, CheckResult, Restarts, Verdict
from chaos.report.excerpt import EVENTS_PER_ANOMALY, Line, lines_of
from chaos.report.outcome import FinishedRun, SuiteRow, row_of

ENDED_IN: tuple[Phase, ...] = ("detect", "teardown")  # of the attempt before
BEGUN_WITH: tuple[Phase, ...] = ("schedule", "start", "restore")

Tone: TypeAlias = Literal["good", "bad", "calm", "open"]


@dataclass(frozen=True)
class Fact:
    """One figure of the run at a glance."""

    name: str
    value: str


@dataclass(frozen=True)
class OpRow:
    """What became of one op; times are seconds since the run began."""

    index: int
    place: str
    fault: str
    victim: str
    status: str
    detail: str
    at: str
    took: str
    events: tuple[int, ...]


@dataclass(frozen=True)
class RestartRow:
    """What one restart cost."""

    attempt: int
    start: str
    lost: str
    seconds: tuple[str, ...]
    total: str


@dataclass(frozen=True)
class AnomalyRow:
    """One broken promise with the events that show it, in words; `more` are not listed.

    `name` is where it stands in the page.
    """

    name: str
    message: str
    lines: tuple[Line, ...]
    more: int


@dataclass(frozen=True)
class CheckRow:
    """One check's judgement, its anomalies spelled out, each with an id of its own in the page."""

    result: CheckResult
    anomalies: tuple[AnomalyRow, ...]


def tone_of(row: SuiteRow) -> Tone:
    """Say how a row of a suite is to look."""
    if row.verdict is None:
        return "bad" if row.skipped is None else "open"
    return tone(row.verdict)


def tone(verdict: Verdict) -> Tone:
    """Say how a verdict is to look; unknown never looks like success, expected or not."""
    if verdict.validity == "unknown":
        return "open"
    if not verdict.as_expected:
        return "bad"
    return "good" if verdict.validity == "valid" else "calm"


def facts(run: FinishedRun) -> tuple[Fact, ...]:
    """Give the figures people ask for first."""
    row = row_of(run)
    landed = sum(strike.landed for strike in run.trial.strikes)
    watching, share = watch_cost(run.history), ledger_of(run.trial).goodput
    return (
        Fact("faults landed", f"{landed} of {len(run.plan.ops)}"),
        Fact("attempts", str(row.attempts)),
        Fact("resumes", _resumes(run.verdict.restarts)),
        Fact("steps lost", "-" if row.lost_steps is None else str(row.lost_steps)),
        Fact("slowest recovery", _seconds(row.recovery_s)),
        *([] if share is None else [Fact("goodput", f"{share:.0%}")]),
        Fact("run took", _seconds(run.duration_s)),
        Fact("seed", str(run.plan.seed)),
        Fact("backend", run.plan.backend),
        *([] if watching is None else [Fact("watching a step", watching)]),
    )


def _resumes(restarts: Restarts) -> str:
    """Say how many restarts went on from a checkpoint, and what the others did."""
    others = {"from scratch": restarts.from_scratch, "idle": restarts.idle}
    told = [f"{count} {word}" for word, count in others.items() if count]
    return f"{restarts.resumed} ({', '.join(told)})" if told else str(restarts.resumed)


def watch_cost(history: History) -> str | None:
    """Give what watching cost per optimizer step, the median over ranks and epochs, in words."""
    costs = [e for _, e in history.of(WatchCost) if e.steps]
    if not costs:
        return None
    each_us = statistics.median(cost.watch_ns / cost.steps / 1000 for cost in costs)
    return f"{each_us:.0f} µs"


def op_rows(run: FinishedRun) -> tuple[OpRow, ...]:
    """Give one row per op of the plan, whatever became of it."""
    return tuple(_op_row(strike, run.history) for strike in run.trial.strikes)


def restart_rows(run: FinishedRun) -> tuple[RestartRow, ...]:
    """Give one row per restart."""
    spent = ledger_of(run.trial)
    return tuple(_restart_row(restart, spent, run.trial) for restart in run.trial.restarts)


def check_rows(history: History, verdict: Verdict) -> tuple[CheckRow, ...]:
    """Give the checks, those that found something first, then those that cannot tell."""
    order = ("invalid", "unknown", "valid")
    results = sorted(verdict.results, key=lambda result: order.index(result.validity))
    return tuple(
        CheckRow(
            result,
            tuple(
                _anomaly_row(f"{result.check}-{number}", history, anomaly)
                for number, anomaly in enumerate(result.anomalies, 1)
            ),
        )
        for result in results
    )


def _op_row(strike: Strike, history: History) -> OpRow:
    victim, at, took = "not struck", "", ""
    if strike.invoked:
        number, struck = strike.invoked[0]
        victim = f"rank {struck.rank} · pid {struck.pid} · node {struck.node_id[:8]}"
        began_ns = history.time_ns(number)
        at = _seconds((began_ns - history.time_ns(0)) / 1e9)
        if strike.ended_ns is not None:
            took = _seconds((strike.ended_ns - began_ns) / 1e9)
    status, detail = "did not begin", "training never came to this place"
    if strike.ended:
        status, detail = strike.ended[-1][1].status, strike.ended[-1][1].detail
    elif strike.invoked:
        status, detail = "not ended", "nothing was recorded of what it came to"
    return OpRow(
        index=strike.op.index,
        place=str(strike.op.at),
        fault=str(strike.op.fault),
        victim=victim,
        status=status,
        detail=detail,
        at=at,
        took=took,
        events=strike.events,
    )


def _restart_row(restart: Restart, spent: Ledger, trial: Trial) -> RestartRow:
    ended = spent.seconds(attempt=restart.ended.index) if restart.ended else {}
    begun = spent.seconds(attempt=restart.attempt.index)
    handed = sorted({checkpoint or "no checkpoint" for checkpoint in restart.handed.values()})
    epoch = "" if restart.epoch is None else f", epoch {restart.epoch}"
    lost = max(restart.lost_steps.values(), default=0)
    return RestartRow(
        attempt=restart.attempt.index,
        start=(" and ".join(handed) or "not seen") + epoch,
        lost=plural(lost, "step") if trial.sees_steps else "-",
        seconds=(
            *(_seconds(ended.get(phase)) for phase in ENDED_IN),
            *(_seconds(begun[phase]) for phase in BEGUN_WITH),
        ),
        total=_seconds(restart.phases.total_s),
    )


def _anomaly_row(name: str, history: History, anomaly: Anomaly) -> AnomalyRow:
    more = max(0, len(anomaly.events) - EVENTS_PER_ANOMALY)
    return AnomalyRow(name, anomaly.message, lines_of(history, anomaly.events), more)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"
