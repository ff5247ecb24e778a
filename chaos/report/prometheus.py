"""Metrics of a run for Prometheus, made from the tables of the report."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from chaos.check.analysis import RunAnalysis
from chaos.check.restarts import Restart
from chaos.model.event import AnyEvent, FaultEnded, RunEnded, StepDone
from chaos.model.history import Entry, merge
from chaos.model.places import AttemptRank
from chaos.model.plan import Plan

NO_FAULT = "none"
Subject: TypeAlias = tuple[str, int, int]


@dataclass(frozen=True)
class Metric:
    """A counter or a histogram; Ray puts `ray_` before its name."""

    name: str
    description: str
    tags: tuple[str, ...]
    #: those of a histogram
    boundaries: tuple[float, ...] = ()


# Prometheus adds `_total` to the name of a counter itself.
FAULTS = Metric(
    "chaos_faults_injected",
    "Faults that chaos has carried out, by what they came to: ok (their effect was seen), fail "
    "or info (unknown).",
    ("fault", "scenario", "status"),
)
RECOVERIES = Metric(
    "chaos_recoveries",
    "Attempts after the first that have made a step; fault is what ended the one before.",
    ("fault", "scenario"),
)
RECOVERY_S = Metric(
    "chaos_recovery_seconds",
    "From a fault to the first step of the attempt after it.",
    ("fault", "scenario"),
    (1, 2, 3, 4, 5, 7.5, 10, 12.5, 15, 20, 25, 30, 45, 60, 90, 120, 180, 300, 600, 1200),
)
LOST_STEPS = Metric(
    "chaos_lost_steps",
    "Finished steps that a restart threw away, of the rank that lost most.",
    ("fault", "scenario"),
)
METRICS = (FAULTS, RECOVERIES, RECOVERY_S, LOST_STEPS)


@dataclass(frozen=True)
class MetricPoint:
    """One value for one metric."""

    metric: Metric
    value: float
    tags: Mapping[str, str]
    #: its subject, by which it is recorded only once
    of: Subject


@dataclass
class Figures:
    """The points of a run, each once, as soon as its history shows it."""

    plan: Plan
    _entries: list[Entry] = field(default_factory=list)
    _given: set[tuple[str, Subject]] = field(default_factory=set)
    _stepped: set[AttemptRank] = field(default_factory=set)

    def learn(self, entries: Sequence[Entry]) -> tuple[MetricPoint, ...]:
        """Add new entries of the run's journals; return the points that they complete.

        The tables are made anew only if an entry may complete a point: some times per
        fault and restart, and not per step.
        """
        self._entries += entries
        telling = [entry for entry in entries if self._tells(entry.what)]
        if not telling:
            return ()
        found = points(RunAnalysis(self.plan, merge([self._entries])))
        fresh = tuple(point for point in found if (point.metric.name, point.of) not in self._given)
        self._given |= {(point.metric.name, point.of) for point in fresh}
        return fresh

    def _tells(self, what: AnyEvent) -> bool:
        if isinstance(what, FaultEnded | RunEnded):
            return True
        if not isinstance(what, StepDone) or what.attempt == 0:
            return False
        worker = AttemptRank(what.attempt, what.rank)
        is_first = worker not in self._stepped
        self._stepped.add(worker)
        return is_first


def points(analysis: RunAnalysis) -> tuple[MetricPoint, ...]:
    """Return the points of a run so far: of every fault that is over, every settled restart."""
    settled = (restart for restart in analysis.restarts if _is_settled(restart, analysis))
    return (*_faults(analysis), *(point for restart in settled for point in _of(restart, analysis)))


def _faults(analysis: RunAnalysis) -> Iterator[MetricPoint]:
    turns: dict[int, int] = {}
    for injection in analysis.injections:
        for _, ended in injection.ended:
            turn = turns[ended.op] = turns.get(ended.op, -1) + 1
            tags = {
                "fault": injection.op.kind,
                "scenario": analysis.plan.scenario,
                "status": ended.status,
            }
            yield MetricPoint(FAULTS, 1, tags, ("op", ended.op, turn))


def _is_settled(restart: Restart, analysis: RunAnalysis) -> bool:
    """Return whether no later event can change a restart's figures."""
    if analysis.run.ending.is_over or restart.attempt is not analysis.run.attempts[-1]:
        return True
    due = {place.rank for place in restart.attempt.places}
    under_way = any(
        injection.invoked[0][1].attempt < restart.attempt.index
        for injection in analysis.injections
        if injection.invoked and not injection.ended
    )
    return bool(due) and due <= restart.attempt.first_steps.keys() and not under_way


def _of(restart: Restart, analysis: RunAnalysis) -> Iterator[MetricPoint]:
    kinds = sorted({injection.op.kind for injection in restart.injections})
    tags = {"fault": "+".join(kinds) or NO_FAULT, "scenario": analysis.plan.scenario}
    of = ("attempt", restart.attempt.index, 0)
    if restart.attempt.steps:
        yield MetricPoint(RECOVERIES, 1, tags, of)
    if restart.phases.total_s is not None:
        yield MetricPoint(RECOVERY_S, restart.phases.total_s, tags, of)
    lost = max(restart.lost_steps.values(), default=0)
    if lost:
        yield MetricPoint(LOST_STEPS, lost, tags, of)
