"""Metrics of a run for Prometheus, made from the tables of the report."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from chaos.check.analysis import RunAnalysis
from chaos.check.restarts import Restart
from chaos.model.event import AnyEvent, FaultEnded, RunEnded, StepDone
from chaos.model.history import JournalEntry, merge_journals
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
    subject: Subject


@dataclass
class MetricFigures:
    """The points of a run, each once, as soon as its history shows it."""

    plan: Plan
    _entries: list[JournalEntry] = field(default_factory=list)
    _recorded_keys: set[tuple[str, Subject]] = field(default_factory=set)
    _stepped_workers: set[AttemptRank] = field(default_factory=set)

    def add_entries(self, entries: Sequence[JournalEntry]) -> tuple[MetricPoint, ...]:
        """Add new entries of the run's journals; return the points that they complete.

        The tables are made anew only if an entry may complete a point: some times per
        fault and restart, and not per step.
        """
        self._entries += entries
        decisive_entries = [entry for entry in entries if self._can_complete_point(entry.event)]
        if not decisive_entries:
            return ()
        all_points = build_points(RunAnalysis(self.plan, merge_journals([self._entries])))
        new_points = tuple(
            point
            for point in all_points
            if (point.metric.name, point.subject) not in self._recorded_keys
        )
        self._recorded_keys |= {(point.metric.name, point.subject) for point in new_points}
        return new_points

    def _can_complete_point(self, event: AnyEvent) -> bool:
        if isinstance(event, FaultEnded | RunEnded):
            return True
        if not isinstance(event, StepDone) or event.attempt == 0:
            return False
        worker = AttemptRank(event.attempt, event.rank)
        is_first = worker not in self._stepped_workers
        self._stepped_workers.add(worker)
        return is_first


def build_points(analysis: RunAnalysis) -> tuple[MetricPoint, ...]:
    """Return the points of a run so far: of every fault that is over, every settled restart."""
    settled_restarts = (restart for restart in analysis.restarts if _is_settled(restart, analysis))
    return (
        *_build_fault_points(analysis),
        *(
            point
            for restart in settled_restarts
            for point in _build_restart_points(restart, analysis)
        ),
    )


def _build_fault_points(analysis: RunAnalysis) -> Iterator[MetricPoint]:
    turn_by_op: dict[int, int] = {}
    for injection in analysis.injections:
        for _, end_event in injection.outcomes:
            turn = turn_by_op[end_event.op] = turn_by_op.get(end_event.op, -1) + 1
            tags = {
                "fault": injection.op.kind,
                "scenario": analysis.plan.scenario,
                "status": end_event.status,
            }
            yield MetricPoint(FAULTS, 1, tags, ("op", end_event.op, turn))


def _is_settled(restart: Restart, analysis: RunAnalysis) -> bool:
    """Return whether no later event can change a restart's figures."""
    if analysis.run.ending.has_run_end or restart.attempt is not analysis.run.attempts[-1]:
        return True
    expected_ranks = {place.rank for place in restart.attempt.worker_locations}
    is_injecting = any(
        injection.invocations[0][1].attempt < restart.attempt.index
        for injection in analysis.injections
        if injection.invocations and not injection.outcomes
    )
    return (
        bool(expected_ranks)
        and expected_ranks <= restart.attempt.first_step_event_numbers.keys()
        and not is_injecting
    )


def _build_restart_points(restart: Restart, analysis: RunAnalysis) -> Iterator[MetricPoint]:
    kinds = sorted({injection.op.kind for injection in restart.injections})
    tags = {"fault": "+".join(kinds) or NO_FAULT, "scenario": analysis.plan.scenario}
    subject = ("attempt", restart.attempt.index, 0)
    if restart.attempt.steps:
        yield MetricPoint(RECOVERIES, 1, tags, subject)
    if restart.phases.total_s is not None:
        yield MetricPoint(RECOVERY_S, restart.phases.total_s, tags, subject)
    lost_count = max(restart.lost_steps_by_rank.values(), default=0)
    if lost_count:
        yield MetricPoint(LOST_STEPS, lost_count, tags, subject)
