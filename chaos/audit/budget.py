"""The time an audit may take, the minimum that an answer needs, and the progress."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self, TypeAlias

from chaos.audit.notes import Note, note, warning
from chaos.audit.run_row import RunRow
from chaos.audit.site_order import PARTS
from chaos.model.event import FitCalled, RunStarted, StepDone
from chaos.model.history import History, JournalEntry
from chaos.report.live import Progress, advance_all, describe_activity
from chaos.run.clock import Clock, elapsed_seconds
from chaos.run.ports import ShowEntries
from chaos.wording import plural

# An answer needs a minimum of runs: one of every group that the job has. If the default limit cut
# it, the answer would depend on how busy the machine is. So the minimum may take this many times
# that limit. A limit that was given is kept: who gave it has somewhere to be.
MINIMUM_TIMES = 5
# A limit that would do leaves room for runs that take longer than they were estimated to.
ENOUGH_TIMES = 1.3
# However much of the default limit the clean runs took, so many places are tried: one kill shows
# the defect that every restart has, and an audit without any shows nothing.
PLACES_MIN = 2
# Each fault adds to its run: lost steps are recomputed, and the workers start again. In parts of a
# clean run.
FAULT_COSTS = 0.5
# A run that hangs costs much, and the next one mostly the same. So after the first of them, the
# audit ends within its limit, or so many times as much.
OVERRUN = 1.2
# Once a result is wrong the answer is fail. The rest of the time limit is kept for its cause.
FAULTS_SHARE = 0.7


@dataclass(frozen=True)
class Budget:
    """The most that an audit may take, clean runs included in the seconds; None: no limit."""

    #: the limit of the runs; where it is the default, the minimum may take `MINIMUM_TIMES` as long,
    #: unless it is known beforehand that this is not enough
    seconds: float | None = None
    runs: int | None = None
    #: the first place that is wrong is enough
    first_finding: bool = False
    #: the time limit is the default: the minimum and proofs of causes may take longer than it
    is_default: bool = False

    @property
    def longest_s(self) -> float:
        """The most that the minimum may take."""
        if self.seconds is None:
            return math.inf
        return MINIMUM_TIMES * self.seconds if self.is_default else self.seconds

    def is_spent(
        self,
        *,
        seconds: float,
        runs: int,
        begun_places: int,
        for_minimum: bool,
        wrong: int = 0,
        hung_s: float = 0.0,
    ) -> bool:
        """Return whether no further run may begin; `begun_places`, `wrong`: the places so far.

        `hung_s`: the longest time of a run that hung, 0 where none did.
        """
        if self.first_finding and wrong:
            return True
        if self.runs is not None and runs >= self.runs:
            return True
        if hung_s and wrong and self.seconds is not None:
            return seconds >= self.seconds or seconds + hung_s > OVERRUN * self.seconds
        if begun_places < PLACES_MIN:
            return not self.is_default and seconds >= OVERRUN * (self.seconds or math.inf)
        if wrong and self.seconds is not None:
            return seconds >= FAULTS_SHARE * self.seconds
        limit = self.longest_s if for_minimum else self.seconds
        return limit is not None and seconds >= limit

    def trials_s(self, *, spent_s: float, run_s: float) -> float | None:
        """Return for how long trials of causes may begin, each of them `run_s` long.

        Not so long that the last one ends more than a fifth after the time limit. None: the
        limit is a default.
        """
        if self.seconds is None or self.is_default:
            return None
        return max(0.0, OVERRUN * self.seconds - run_s - spent_s)

    def find_reached_option(self, *, seconds: float, runs: int, wrong: int = 0) -> str | None:
        """Return the limit that was reached, as its option where it was given; None if none was."""
        if self.first_finding and wrong:
            return "--exitfirst"
        if self.runs is not None and runs >= self.runs:
            return f"--max-runs {self.runs}"
        share = FAULTS_SHARE if wrong else 1.0
        if self.seconds is None or seconds < share * self.seconds:
            return None
        text = f"--time-limit {self.seconds:g}s"
        if self.is_default:
            text = f"the default time limit of {self.seconds:g}s"
        return text if seconds >= self.seconds else f"{share:.0%} of {text}"


UNLIMITED = Budget()


@dataclass(frozen=True)
class AuditProgress:
    """The progress of an audit: of its runs one by one, or of the places that were tried."""

    stage: str
    done: int
    #: those that will be tried in any case; None where time alone decides
    total: int | None
    #: None until a run was timed
    remaining_s: float | None = None
    #: None until a run is over
    latest_row: RunRow | None = None
    #: the runs in which the job did not reach the same result
    wrong: int = 0
    #: the time of the audit so far; with `activity`, of the run under way
    spent_s: float = 0.0
    #: the time limit, once it decides
    limit_s: float | None = None
    #: of one run under way
    activity: str = ""
    #: after which a clean run is given up, counted from the start of its workers
    deadline_s: float | None = None

    @property
    def share(self) -> float:
        """The share of what is to be done, or of the time limit, that is over."""
        part, whole = (
            (self.spent_s, self.limit_s or 0.0) if self.total is None else (self.done, self.total)
        )
        return min(1.0, part / whole) if whole else 0.0


ShowProgress: TypeAlias = Callable[[AuditProgress], None]


def start_run_display(
    progress: AuditProgress, show: ShowProgress, clock: Clock, *, first_activity: str | None = None
) -> ShowEntries:
    """Show that a run begins; return a function that shows what it is doing, by its events.

    `first_activity`: the words for what comes before its workers start.
    """
    start_ns, seen, said = clock.now_ns(), Progress(), ""

    def show_entries(entries: Sequence[JournalEntry]) -> None:
        nonlocal seen, said
        if any(isinstance(entry.event, RunStarted) for entry in entries):  # a clean one came before
            seen = Progress()
        seen = advance_all(seen, entries)
        activity = (
            first_activity
            if first_activity is not None and seen.attempt is None
            else describe_activity(seen)
        )
        if activity != said:
            said = activity
            show(replace(progress, activity=activity, spent_s=elapsed_seconds(start_ns, clock)))

    show_entries(())
    return show_entries


@dataclass(frozen=True)
class Pace:
    """Progress and speed of the runs with a fault, counted by places."""

    done: int
    #: all places
    place_count: int
    #: the places under way, and those that are tried in any case
    needed: int
    #: not all that an answer needs was begun
    has_needed_runs: bool
    #: the time of the audit so far
    spent_s: float
    #: the time of these runs
    runs_s: float

    def total(self, budget: Budget) -> int | None:
        """Return the places that will be tried; None where the time limit decides.

        With a time limit these are the ones that an answer needs. An estimate of all that fit
        would move with every run.
        """
        place_limit = (
            self.place_count if budget.runs is None else min(self.place_count, budget.runs)
        )
        if budget.seconds is None:
            return place_limit
        if not self.has_needed_runs and self.spent_s < budget.seconds:
            return None
        return min(place_limit, self.done + self.needed)

    def estimate_remaining_s(self, budget: Budget) -> float | None:
        """Estimate the seconds left; return None until a run is over."""
        if self.done == 0:
            return None
        place_limit = (
            self.place_count if budget.runs is None else min(self.place_count, budget.runs)
        )
        place_s = self.runs_s / self.done
        if budget.seconds is None:
            return (place_limit - self.done) * place_s
        limit_s = max(budget.seconds - self.spent_s, self.needed * place_s)
        allowed_s = min(limit_s, max(0.0, budget.longest_s - self.spent_s))
        return min(allowed_s, (place_limit - self.done) * place_s)


class RunTimes(NamedTuple):
    """The times of a run from its `fit()` on: the part before is done once for all runs."""

    work_s: float = 0.0
    #: of that, up to the end of the first optimizer step; 0 without one
    start_s: float = 0.0

    @classmethod
    def measure(cls, history: History) -> Self:
        """Return the times of a run that is over."""
        fit_number = next((number for number, _ in history.select_events(FitCalled)), 0)
        step_number = next((number for number, _ in history.select_events(StepDone)), fit_number)
        fit_ns = history.time_ns(fit_number)
        return cls(
            (history[-1].time_ns - fit_ns) / 1e9, (history.time_ns(step_number) - fit_ns) / 1e9
        )


class MachineLoad(NamedTuple):
    """The processors of a machine, and the number of processes that want one already."""

    cores: int = 1
    process_count: float = 0.0

    def estimate_slowdown(self, count: int, larger_count: int) -> float:
        """Return how many times longer each of so many processes of ours takes than each of fewer.

        Processes that want a processor have equal shares of all.
        """
        counts = (count + self.process_count, larger_count + self.process_count)
        share, smaller_share = (min(1.0, self.cores / total) for total in counts)
        return share / smaller_share


NO_TIMES, IDLE_MACHINE = RunTimes(), MachineLoad()


@dataclass(frozen=True)
class MinimumRuns:
    """The runs that an answer needs, and the places that they answer."""

    runs: int
    places: int
    #: the time of the clean runs before them
    spent_s: float
    #: the time of a run without a fault, with a wait for its next attempt
    run_s: float
    lanes: int
    #: of a run, the time before its first step, which each restart takes once more
    start_s: float = 0.0
    workers: int = 1
    machine: MachineLoad = IDLE_MACHINE

    @property
    def range_s(self) -> tuple[float, float]:
        """The least and the most seconds that the runs are likely to take from now on.

        The least is that of runs that wait most of their time, and so go side by side at the speed
        of one. The most is that of runs that compute, on a machine that is as busy as it was.
        """
        least_s = self.total_s - self.spent_s
        lost_s = self.start_s + FAULT_COSTS * (self.run_s - self.start_s)
        slowdown = self.machine.estimate_slowdown(self.workers, self.lanes * self.workers)
        work_s = (self.runs * self.run_s + self.places * lost_s) / self.lanes
        return least_s, max(least_s, ENOUGH_TIMES * slowdown * work_s)

    @property
    def total_s(self) -> float:
        """The estimated time of an audit with an answer."""
        runs = math.ceil(self.runs / self.lanes) + FAULT_COSTS * self.places / self.lanes
        return self.spent_s + runs * self.run_s

    def fits(self, budget: Budget) -> bool:
        """Return whether the runs fit into the time that they may take."""
        return self.total_s <= budget.longest_s

    def describe_cost(self, budget: Budget) -> Iterator[Note]:
        """Yield what an answer takes, where it is within the limits."""
        if self.runs and self.fits(budget) and (budget.runs is None or budget.runs >= self.places):
            faults = f"{plural(self.runs, 'run')} with faults at {plural(self.places, 'place')}"
            least_s, most_s = self.range_s
            yield note(f"an answer needs {faults}: {least_s:.0f} to {most_s:.0f} s more")

    def count_affordable(self, budget: Budget) -> int:
        """Return how many runs of one place each fit into the time that the minimum may take."""
        counts = range(self.places + 1)
        return sum(replace(self, runs=n, places=n).fits(budget) for n in counts) - 1

    def describe_shortage(
        self, budget: Budget, command: str, groups: Sequence[str] = ()
    ) -> Iterator[Note]:
        """Yield notes on a limit that is too low, with one that is not.

        `groups`: those of the job, the most telling first. Where there is time for a few of them,
        the note says which, and how to ask for them alone.
        """
        if budget.runs is not None and budget.runs < self.places:
            yield warning(
                f"an answer needs {plural(self.places, 'place')}; --max-runs "
                f"{budget.runs} is fewer, so that this audit can find something wrong, and "
                "cannot pass"
            )
        if budget.seconds is not None and not self.fits(budget):
            longest_s = max(ENOUGH_TIMES * self.total_s, self.spent_s + self.range_s[1])
            enough_s = 10 * math.ceil(longest_s / 10)
            limit = f"{MINIMUM_TIMES} times the default limit" if budget.is_default else "the limit"
            if budget.runs is not None and budget.runs < self.places:
                command = remove_option(command, "--max-runs")
            yield warning(
                f"an answer needs {plural(self.runs, 'run')} with faults, some "
                f"{self.total_s:.0f} s in all, and {limit} is "
                f"{budget.longest_s:.0f} s: this audit can find something wrong, and cannot "
                f"pass; this one can: `{set_time_limit(command, enough_s)}`; fewer epochs or "
                "less data, by the script's own arguments after --, make it shorter"
                + _suggest_groups(groups, self.count_affordable(budget), command)
            )


def _suggest_groups(groups: Sequence[str], group_limit: int, command: str) -> str:
    """Return the end of the note: a question that can be answered in the time, if there is one."""
    # An answer has a resume from each part of training, and of one place alone each is a run.
    if not PARTS <= group_limit < len(groups) or " --places" in command:
        return ""
    options, dashes, words = command.partition(" -- ")
    place_options = " ".join(f"--places '{group}'" for group in groups[:group_limit])
    return f"; within the limit it can answer for fewer: `{options} {place_options}{dashes}{words}`"


def set_time_limit(command: str, seconds: int) -> str:
    """Return the command line of an audit with another time limit."""
    options, dashes, words = remove_option(command, "--time-limit").partition(" -- ")
    return f"{options} --time-limit {seconds}s{dashes}{words}"


def remove_option(command: str, option: str) -> str:
    """Return a command line without an option of chaos's own, and its value."""
    options, dashes, words = command.partition(" -- ")
    return re.sub(rf" {option}[= ]\S+", "", options) + dashes + words
