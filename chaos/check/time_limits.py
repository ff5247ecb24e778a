"""Time limits of stalls and starts, stated or taken from the baseline; and signs of life."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, inf
from typing import Literal, TypeAlias

from chaos.check.analysis import RunAnalysis
from chaos.check.attempt import Attempt
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
class Pause:
    """The time between two signs of life of one attempt, by their numbers."""

    since: int
    until: int
    ns: int
    attempt: int
    where: Where

    @property
    def seconds(self) -> float:
        return self.ns / 1e9


def pauses(history: History, attempts: Sequence[Attempt], *, over_ns: int) -> Iterator[Pause]:
    """Yield the pauses within attempts that are longer than `over_ns`.

    From an attempt's first step on, up to the end of `fit()`: the time before is its start. A pause
    while chaos holds a rank is left out.
    """
    signs = _Signs(history, attempts)
    for at, ns in enumerate(signs.gaps_ns()):
        if ns > over_ns and (pause := signs.pause(at, ns)):
            yield pause


def longest_ns(history: History, attempts: Sequence[Attempt]) -> Mapping[Where, int]:
    """Return the length of the longest pause of each kind.

    A run has as many gaps as signs of life, and three of them are wanted. So only a gap that is
    longer than the longest so far of its kind is made a pause: few are.
    """
    signs, found = _Signs(history, attempts), dict[Where, int]()
    for at, ns in enumerate(signs.gaps_ns()):
        where = signs.where(at)
        if ns > found.get(where, 0) and signs.pause(at, ns):
            found[where] = ns
    return found


class _Signs:
    """The signs of life of a run, and the gaps between neighbours of them, by their position."""

    def __init__(self, history: History, attempts: Sequence[Attempt]) -> None:
        self._entries = history.entries
        self._numbers = history.numbers_of(*_SIGNS)
        self._first = {a.index: a.steps[0].number for a in attempts if a.steps}
        self._holds = list(_holds(history, self._first.values()))

    def gaps_ns(self) -> Iterator[int]:
        """Yield the time from each sign to the next one."""
        times = [self._entries[number].time_ns for number in self._numbers]
        return (until - since for since, until in pairwise(times))

    def where(self, at: int) -> Where:
        """Return where in an attempt a gap is."""
        entries, numbers = self._entries, self._numbers
        since, until = entries[numbers[at]].what, entries[numbers[at + 1]].what
        if isinstance(since, StepDone) and isinstance(until, StepDone):
            return "within an epoch" if since.epoch == until.epoch else "between epochs"
        return "at the end" if isinstance(until, _END) else "between epochs"

    def pause(self, at: int, ns: int) -> Pause | None:
        """Return a gap as a pause; None before an attempt's first step, or while a rank is held."""
        since, until = self._numbers[at], self._numbers[at + 1]
        attempt = getattr(self._entries[since].what, "attempt", -1)
        is_one = getattr(self._entries[until].what, "attempt", attempt) == attempt
        has_begun = attempt in self._first and since >= self._first[attempt]
        if not is_one or not has_begun or any(begin <= since < end for begin, end in self._holds):
            return None
        return Pause(since, until, ns, attempt, self.where(at))


def start_s(history: History, attempts: Sequence[Attempt]) -> float | None:
    """Return the time of a run from `fit()`, or its first worker group, to its first step."""
    first = next((a for a in attempts if a.steps), None)
    if first is None:
        return None
    called = next((number for number, _ in history.of(FitCalled)), first.group_started)
    if called is None:
        return None
    return (history.time_ns(first.steps[0].number) - history.time_ns(called)) / 1e9


def _holds(history: History, firsts: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the begin and the end of each hold of a rank; the next attempt ends it too."""
    # Each hold ends with its own release: a fault that is repeated, or injected into several ranks,
    # has several under one op, and a hold that was taken to last until the last release of them
    # would hide a standstill in between. A rank that is killed in it has no release at all.
    released = list(history.of(GateReleased))
    for number, gate in history.of(GateReached):
        who = (gate.op, gate.attempt, gate.rank)
        ends = (n for n, e in released if n > number and (e.op, e.attempt, e.rank) == who)
        over = min((first for first in firsts if first > number), default=len(history))
        yield number, min(next(ends, over), over)


def last_sign(history: History, before: int) -> tuple[int, str] | None:
    """Return the last sign of life before an event, with its number; a start counts as one."""
    for number in range(before - 1, -1, -1):
        words = sign(history.entries[number].what)
        if words is not None:
            return number, words
    return None


def sign(what: AnyEvent) -> str | None:
    """Return in words the progress that an event shows; None where it shows none."""
    words = None
    match what:
        case StepDone():
            words = f"rank {what.rank}'s step {what.step} of epoch {what.epoch}"
        case Committed():
            words = f"the commit of epoch {what.epoch}"
        case ReportReturned():
            words = f"rank {what.rank}'s report of epoch {what.epoch}"
        case UploadEnded():
            words = f"rank {what.rank}'s upload of epoch {what.epoch}"
        case WorkerStarted():
            words = f"the start of rank {what.rank} in attempt {what.attempt}"
        case WorkerGroupStarted():
            words = f"the start of attempt {what.attempt}"
        case _:
            pass
    return words


def longest_idle_s(history: History) -> float:
    """Return the longest time between two events of a run, from its first worker's start on."""
    entries = history.entries
    first = next((number for number, _ in history.of(WorkerStarted)), len(entries))
    times = [entry.time_ns for entry in entries[first:] if not isinstance(entry.what, RunEnded)]
    return max((until - since for since, until in pairwise(times)), default=0) / 1e9


def with_idle_limit(plan: Plan, baseline: Baseline) -> Plan:
    """Return a plan with the time after which a standstill of all ranks is a hang.

    The plan's own, if it states one; otherwise by the longest pause of the baseline.
    """
    if plan.limits.idle_s is not None:
        return plan
    longest_s = max(longest_idle_s(run) for run in baseline.runs)
    limits = plan.limits.model_copy(
        update={"idle_s": max(IDLE_MIN_S, ceil(IDLE_TIMES * longest_s))}
    )
    return plan.model_copy(update={"limits": limits})


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
    own_s: float | None = None

    @classmethod
    def of(cls, stated_s: float, own_s: float | None) -> "TimeLimit":
        """Return the stated limit, or twice the baseline's time, if more."""
        if own_s is None or SLACK * own_s <= stated_s:
            return cls(stated_s)
        return cls(SLACK * own_s, own_s)

    @property
    def is_set(self) -> bool:
        """Whether a time can be too long for it."""
        return self.seconds < inf

    def __str__(self) -> str:
        """Return it as the rest of a sentence."""
        if not self.is_set:
            return "no limit is set, as the job waits among the jobs of others"
        if self.own_s is None:
            return f"{self.seconds:g} s are allowed"
        return f"{self.seconds:.0f} s are allowed, twice the {self.own_s:.0f} s of the baseline"


def for_recovery(analysis: RunAnalysis) -> TimeLimit:
    """Return the limit of a recovery: the scenario's bound, if it states one.

    Without one, a job whose baseline takes long to start may do so again, and a wait in a queue
    among the jobs of others has no limit.
    """
    stated, reference = analysis.plan.expect.recovery_s, analysis.reference
    if stated is not None:
        return TimeLimit(stated.max)
    if analysis.plan.waits_among_others:
        return TimeLimit(inf)
    own_s = None if reference is None else start_s(reference.history, reference.attempts)
    return TimeLimit.of(RECOVERY_S, own_s)


@dataclass(frozen=True)
class StallLimit:
    """The limit of a standstill."""

    stated_s: float
    #: the baseline's longest pauses, by where
    own_s: Mapping[Where, float]
    #: by attempt, the factor by which the same work takes longer with fewer workers
    sizes: Mapping[int, float]

    @classmethod
    def of(cls, analysis: RunAnalysis) -> "StallLimit":
        """Return the limit that follows from the plan and the baseline."""
        stated, reference = analysis.plan.expect.recovery_s, analysis.reference
        stated_s = max(RECOVERY_S if stated is None else stated.max, analysis.plan.limits.gate_s)
        if reference is None:
            return cls(stated_s, {}, {})
        longest = longest_ns(reference.history, reference.attempts)
        due = next((a.size for a in reference.attempts), 0)
        return cls(
            stated_s,
            own_s={where: ns / 1e9 for where, ns in longest.items()},
            sizes={a.index: max(1.0, due / a.size) for a in analysis.run.attempts if a.size},
        )

    def with_(self, pause: Pause) -> TimeLimit:
        """Return the limit of a pause, by the baseline's pauses of its kind."""
        own_s = self.own_s.get(pause.where)
        # By kind: an evaluation of two minutes between epochs says nothing of a pause within one.
        # If no attempt follows a fault, the last pause contains the time to detect it.
        stated_s = max(self.stated_s, RECOVERY_S) if pause.where == "at the end" else self.stated_s
        return TimeLimit.of(stated_s, own_s and own_s * self.sizes.get(pause.attempt, 1.0))

    def at_most(self, attempt: int) -> TimeLimit:
        """Return the limit of any pause of an attempt, wherever it is."""
        longest_s = max(self.own_s.values(), default=0.0)
        return TimeLimit.of(self.stated_s, longest_s * self.sizes.get(attempt, 1.0))
