"""Time limits of stalls and starts, stated or taken from the baseline; and signs of life."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, inf
from typing import Literal, TypeAlias

from chaos.check.analysis import RunAnalysis
from chaos.check.kinds.progress import LifeSign
from chaos.model.event import (
    AnyEvent,
    Committed,
    Event,
    FileSaved,
    FitCalled,
    FitRaised,
    FitReturned,
    GateReached,
    GateReleased,
    ReportBegun,
    ReportReturned,
    RunEnded,
    StepDone,
    TrainFnEnded,
    UploadEnded,
    WorkerGroupStarted,
    WorkerStarted,
)
from chaos.model.history import Baseline, History
from chaos.model.plan import Plan
from chaos.resume.attempt import Attempt

# -- signs of life ---------------------------------------------------------------------------------


_SIGNS: tuple[type[Event], ...] = (
    StepDone,
    ReportBegun,
    ReportReturned,
    UploadEnded,
    FileSaved,
    Committed,
    GateReached,
    GateReleased,
    TrainFnEnded,
    FitReturned,
    FitRaised,
)
_END = (TrainFnEnded, FitReturned, FitRaised)

# Between two steps of an epoch; around its reports, evaluations and saves; after the last of them.
Where: TypeAlias = Literal["within an epoch", "between epochs", "at the end"]


@dataclass(frozen=True, slots=True)
class SilencePeriod:
    """The time between two signs of life of one attempt, by their numbers."""

    start_event: int
    end_event: int
    ns: int
    attempt: int
    phase: Where

    @property
    def seconds(self) -> float:
        return self.ns / 1e9


def find_pauses(
    history: History, attempts: Sequence[Attempt], *, over_ns: int
) -> Iterator[SilencePeriod]:
    """Yield the pauses within attempts that are longer than `over_ns`.

    From an attempt's first step on, up to the end of `fit()`: the time before is its start. A pause
    while chaos holds a rank is left out.
    """
    signs = _LifeSigns(history, attempts)
    for index, ns in enumerate(signs.measure_gaps_ns()):
        if ns > over_ns and (pause := signs.build_pause(index, ns)):
            yield pause


def find_longest_pauses(history: History, attempts: Sequence[Attempt]) -> Mapping[Where, int]:
    """Return the length of the longest pause of each kind.

    A run has as many gaps as signs of life, and three of them are wanted. So only a gap that is
    longer than the longest so far of its kind is made a pause: few are.
    """
    signs, longest = _LifeSigns(history, attempts), dict[Where, int]()
    for index, ns in enumerate(signs.measure_gaps_ns()):
        phase = signs.find_phase(index)
        if ns > longest.get(phase, 0) and signs.build_pause(index, ns):
            longest[phase] = ns
    return longest


class _LifeSigns:
    """The signs of life of a run, and the gaps between neighbours of them, by their position."""

    def __init__(self, history: History, attempts: Sequence[Attempt]) -> None:
        self._entries = history.entries
        self._numbers = history.select_numbers(*_SIGNS)
        self._first_steps = {a.index: a.steps[0].number for a in attempts if a.steps}
        self._holds = list(_find_holds(history, self._first_steps.values()))

    def measure_gaps_ns(self) -> Iterator[int]:
        """Yield the time from each sign to the next one."""
        times = [self._entries[number].time_ns for number in self._numbers]
        return (end_ns - start_ns for start_ns, end_ns in pairwise(times))

    def find_phase(self, index: int) -> Where:
        """Return where in an attempt a gap is."""
        entries, numbers = self._entries, self._numbers
        first_event, next_event = entries[numbers[index]].event, entries[numbers[index + 1]].event
        if isinstance(first_event, StepDone) and isinstance(next_event, StepDone):
            return "within an epoch" if first_event.epoch == next_event.epoch else "between epochs"
        return "at the end" if isinstance(next_event, _END) else "between epochs"

    def build_pause(self, index: int, ns: int) -> SilencePeriod | None:
        """Return a gap as a pause; None before an attempt's first step, or while a rank is held."""
        start_event, end_event = self._numbers[index], self._numbers[index + 1]
        attempt = getattr(self._entries[start_event].event, "attempt", -1)
        is_same_attempt = getattr(self._entries[end_event].event, "attempt", attempt) == attempt
        has_begun = attempt in self._first_steps and start_event >= self._first_steps[attempt]
        if (
            not is_same_attempt
            or not has_begun
            or any(begin <= start_event < end for begin, end in self._holds)
        ):
            return None
        return SilencePeriod(start_event, end_event, ns, attempt, self.find_phase(index))


def measure_start_s(history: History, attempts: Sequence[Attempt]) -> float | None:
    """Return the time of a run from `fit()`, or its first worker group, to its first step."""
    first_attempt = next((a for a in attempts if a.steps), None)
    if first_attempt is None:
        return None
    call_number = next(
        (number for number, _ in history.select_events(FitCalled)), first_attempt.group_started
    )
    if call_number is None:
        return None
    return (history.time_ns(first_attempt.steps[0].number) - history.time_ns(call_number)) / 1e9


def _find_holds(history: History, first_steps: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the begin and the end of each hold of a rank; the next attempt ends it too."""
    # Each hold ends with its own release: a fault that is repeated, or injected into several ranks,
    # has several under one op, and a hold that was taken to last until the last release of them
    # would hide a standstill in between. A rank that is killed in it has no release at all.
    releases = list(history.select_events(GateReleased))
    for number, gate in history.select_events(GateReached):
        holder = (gate.op, gate.attempt, gate.rank)
        release_numbers = (
            n for n, e in releases if n > number and (e.op, e.attempt, e.rank) == holder
        )
        next_start = min(
            (first_step for first_step in first_steps if first_step > number), default=len(history)
        )
        yield number, min(next(release_numbers, next_start), next_start)


def find_last_sign(history: History, event_number: int) -> tuple[int, LifeSign] | None:
    """Return the last sign of life before an event, with its number; a start counts as one."""
    for number in range(event_number - 1, -1, -1):
        sign = _build_sign(history.entries[number].event)
        if sign is not None:
            return number, sign
    return None


def _build_sign(event: AnyEvent) -> LifeSign | None:
    """Return the progress that an event shows; None where it shows none."""
    sign = None
    match event:
        case StepDone():
            sign = LifeSign("step", event.attempt, event.rank, event.epoch, event.step)
        case Committed():
            sign = LifeSign("commit", event.attempt, epoch=event.epoch)
        case ReportReturned():
            sign = LifeSign("report", event.attempt, event.rank, event.epoch)
        case UploadEnded():
            sign = LifeSign("upload", event.attempt, event.rank, event.epoch)
        case WorkerStarted():
            sign = LifeSign("rank start", event.attempt, event.rank)
        case WorkerGroupStarted():
            sign = LifeSign("attempt start", event.attempt)
        case _:
            pass
    return sign


def measure_longest_idle_s(history: History) -> float:
    """Return the longest time between two events of a run, from its first worker's start on."""
    entries = history.entries
    first_start = next((number for number, _ in history.select_events(WorkerStarted)), len(entries))
    times = [
        entry.time_ns for entry in entries[first_start:] if not isinstance(entry.event, RunEnded)
    ]
    return max((end_ns - start_ns for start_ns, end_ns in pairwise(times)), default=0) / 1e9


def add_idle_limit(plan: Plan, baseline: Baseline) -> Plan:
    """Return a plan with the time after which a standstill of all ranks is a hang.

    The plan's own, if it states one; otherwise by the longest pause of the baseline.
    """
    if plan.limits.idle_s is not None:
        return plan
    longest_s = max(measure_longest_idle_s(run) for run in baseline.runs)
    limits = plan.limits.replace(idle_s=max(IDLE_MIN_S, ceil(IDLE_TIMES * longest_s)))
    return plan.replace(limits=limits)


# -- limits ----------------------------------------------------------------------------------------


# From a fault to the next first step, where the plan states nothing.
RECOVERY_S = 120.0
# Without an event, processor time and a change of the stacks: of the baseline's longest pause.
IDLE_TIMES, IDLE_MIN_S = 5, 10.0
# The run may be on a busier machine than its baseline was.
SLACK = 2


@dataclass(frozen=True)
class TimeLimit:
    """A number of seconds."""

    seconds: float
    #: the baseline's own time, if the limit comes from it
    baseline_s: float | None = None

    @classmethod
    def from_times(cls, stated_s: float, baseline_s: float | None) -> "TimeLimit":
        """Return the stated limit, or twice the baseline's time, if more."""
        if baseline_s is None or SLACK * baseline_s <= stated_s:
            return cls(stated_s)
        return cls(SLACK * baseline_s, baseline_s)

    @property
    def is_set(self) -> bool:
        """Whether a time can be too long for it."""
        return self.seconds < inf


def find_recovery_limit(analysis: RunAnalysis) -> TimeLimit:
    """Return the limit of a recovery: the scenario's bound, if it states one.

    Without one, a job whose baseline takes long to start may do so again, and a wait in a queue
    among the jobs of others has no limit.
    """
    stated, reference = analysis.plan.expect.recovery_s, analysis.reference
    if stated is not None:
        return TimeLimit(stated.max)
    if analysis.plan.has_shared_queue:
        return TimeLimit(inf)
    baseline_s = (
        None if reference is None else measure_start_s(reference.history, reference.attempts)
    )
    return TimeLimit.from_times(RECOVERY_S, baseline_s)


@dataclass(frozen=True)
class StallLimit:
    """The limit of a standstill."""

    stated_s: float
    #: the baseline's longest pauses, by where
    baseline_s: Mapping[Where, float]
    #: by attempt, the factor by which the same work takes longer with fewer workers
    slowdowns: Mapping[int, float]

    @classmethod
    def from_analysis(cls, analysis: RunAnalysis) -> "StallLimit":
        """Return the limit that follows from the plan and the baseline."""
        stated, reference = analysis.plan.expect.recovery_s, analysis.reference
        stated_s = max(RECOVERY_S if stated is None else stated.max, analysis.plan.limits.gate_s)
        if reference is None:
            return cls(stated_s, {}, {})
        longest = find_longest_pauses(reference.history, reference.attempts)
        baseline_size = next((a.worker_count for a in reference.attempts), 0)
        return cls(
            stated_s,
            baseline_s={phase: ns / 1e9 for phase, ns in longest.items()},
            slowdowns={
                a.index: max(1.0, baseline_size / a.worker_count)
                for a in analysis.run.attempts
                if a.worker_count
            },
        )

    def find_limit(self, pause: SilencePeriod) -> TimeLimit:
        """Return the limit of a pause, by the baseline's pauses of its kind."""
        baseline_s = self.baseline_s.get(pause.phase)
        # By kind: an evaluation of two minutes between epochs says nothing of a pause within one.
        # If no attempt follows a fault, the last pause contains the time to detect it.
        stated_s = max(self.stated_s, RECOVERY_S) if pause.phase == "at the end" else self.stated_s
        return TimeLimit.from_times(
            stated_s, baseline_s and baseline_s * self.slowdowns.get(pause.attempt, 1.0)
        )

    def find_attempt_limit(self, attempt: int) -> TimeLimit:
        """Return the limit of any pause of an attempt, wherever it is."""
        longest_s = max(self.baseline_s.values(), default=0.0)
        return TimeLimit.from_times(self.stated_s, longest_s * self.slowdowns.get(attempt, 1.0))
