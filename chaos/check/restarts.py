"""The cost and the place of each restart, as rows."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from chaos.check.injections import Injection
from chaos.model.history import History
from chaos.resume.attempt import Attempt, Commit, Decision
from chaos.resume.lineage import Lineage


@dataclass(frozen=True)
class RecoveryPhases:
    """The moments of a recovery (monotonic ns), each None where it was not seen.

    The harm was done → Ray decided → the new group was up → its last rank was
    ready to train → its first step was finished.
    """

    fault_ns: int | None
    decided_ns: int | None
    group_ns: int | None
    ready_ns: int | None
    step_ns: int | None

    @property
    def total_s(self) -> float | None:
        """The time from the fault to the first step."""
        return _measure_seconds(self.fault_ns, self.step_ns)

    @property
    def seconds(self) -> dict[str, float | None]:
        """The length of each phase; together they are the total.

        A moment that came before the one it should follow (Ray may end a preempted group before the
        deadline) ends a phase that took no time. The time of a phase whose end was not seen counts
        to the next.
        """
        moments = {
            "detect_s": self.decided_ns,
            "group_s": self.group_ns,
            "start_s": self.ready_ns,
            "first_step_s": self.step_ns,
        }
        seconds, since_ns = {}, self.fault_ns
        for phase, moment_ns in moments.items():
            seconds[phase] = _measure_seconds(since_ns, moment_ns)
            if since_ns is not None and moment_ns is not None:
                since_ns = max(since_ns, moment_ns)
        return seconds


@dataclass(frozen=True)
class Restart:
    """One attempt after another."""

    attempt: Attempt
    previous_attempt: Attempt | None
    injections: tuple[Injection, ...]
    decision: Decision | None
    #: the newest commit with a checkpoint when the attempt was opened
    newest_commit: Commit | None
    #: the finished steps per rank that are recomputed
    lost_steps_by_rank: Mapping[int, int]
    #: with those that were discarded before attempts that made no step
    repeatable_steps_by_rank: Mapping[int, int]
    phases: RecoveryPhases

    @property
    def checkpoints(self) -> dict[int, str | None]:
        """The checkpoint that each rank was handed."""
        return {rank: start.checkpoint for rank, start in sorted(self.attempt.starts.items())}

    @property
    def epoch(self) -> int | None:
        """The epoch at which training continued."""
        return self.attempt.epoch


def count_lost_steps(restarts: Iterable[Restart]) -> int:
    """Return the number of recomputed steps of the rank that has the most."""
    step_counts: Counter[int] = Counter()
    for restart in restarts:
        step_counts.update(restart.lost_steps_by_rank)
    return max(step_counts.values(), default=0)


def build_restarts(
    history: History,
    attempts: Sequence[Attempt],
    lineage: Lineage,
    injections: Sequence[Injection],
) -> tuple[Restart, ...]:
    """Return one row for every attempt but the first, in order."""
    restarts = []
    saved_commits: list[Commit] = []
    previous_attempt: Attempt | None = None
    repeatable_steps: Counter[int] = Counter()
    for attempt in attempts:
        if attempt.index > 0:
            start_index = previous_attempt.index if previous_attempt else 0
            causes = tuple(
                injection
                for injection in injections
                if any(
                    start_index <= attempt_index < attempt.index
                    for attempt_index in injection.hit_times_by_attempt
                )
            )
            decision = (
                previous_attempt.decisions[-1]
                if previous_attempt and previous_attempt.decisions
                else None
            )
            repeatable_steps.update(lineage.lost_steps.get(attempt.index, {}))
            restart = Restart(
                attempt=attempt,
                previous_attempt=previous_attempt,
                injections=causes,
                decision=decision,
                newest_commit=_find_newest_commit(saved_commits, attempt.group_started),
                lost_steps_by_rank=lineage.lost_steps.get(attempt.index, {}),
                repeatable_steps_by_rank=dict(repeatable_steps),
                phases=_build_phases(
                    history, _find_harm_ns(causes, start_index, attempt.index), decision, attempt
                ),
            )
            restarts.append(restart)
            if attempt.steps:
                repeatable_steps.clear()
        attempt_commits = (*attempt.early_commits, *attempt.commits)
        saved_commits.extend(commit for commit in attempt_commits if commit.checkpoint is not None)
        previous_attempt = attempt
    return tuple(restarts)


@dataclass(frozen=True, slots=True)
class RepeatedSteps:
    """Steps of one rank that a restart trained a second time, in its first epoch."""

    attempt: int
    rank: int
    epoch: int
    steps: int
    #: the number of the attempt's first step; any from there on may be one of them
    start_number: int


def find_repeated_steps(restarts: Iterable[Restart], reference: Lineage) -> Iterator[RepeatedSteps]:
    """Yield the steps that a source may hand out again: at most as many as were discarded.

    A source that learns only later what was trained hands out again what it does not know of.
    """
    for restart in restarts:
        for rank, start in sorted(restart.attempt.starts.items()):
            steps = restart.attempt.select_steps(rank, start.epoch)
            surplus = len(steps) - (reference.count_steps(rank, start.epoch) - start.step)
            # More than were discarded would be samples that had survived: those are trained twice
            # for good.
            if restart.attempt.steps and 0 < surplus <= restart.repeatable_steps_by_rank.get(
                rank, 0
            ):
                start_number = restart.attempt.steps[0].number
                yield RepeatedSteps(restart.attempt.index, rank, start.epoch, surplus, start_number)


def _find_harm_ns(injections: Sequence[Injection], start_index: int, end_index: int) -> int | None:
    """Return the time of the first harm to the attempts from `start_index` on."""
    harm_times = (
        ns
        for injection in injections
        for attempt_index, ns in injection.hit_times_by_attempt.items()
        if start_index <= attempt_index < end_index
    )
    return min((ns for ns in harm_times if ns is not None), default=None)


def _find_newest_commit(
    saved_commits: Sequence[Commit], group_started: int | None
) -> Commit | None:
    """Return the last commit that Ray could know when it opened an attempt."""
    # A commit may come while the next attempt is being opened. Counted, it would make a right
    # resume from the one before look too old.
    known_commits = (
        commit
        for commit in reversed(saved_commits)
        if group_started is None or commit.number < group_started
    )
    return next(known_commits, None)


def _build_phases(
    history: History, harm_ns: int | None, decision: Decision | None, attempt: Attempt
) -> RecoveryPhases:
    start_numbers = [start.number for start in attempt.starts.values()]
    return RecoveryPhases(
        # From the harm, not from our proof of it: that may come after Ray has seen the loss.
        fault_ns=harm_ns,
        decided_ns=history.time_ns(decision.number) if decision else None,
        group_ns=None if attempt.group_started is None else history.time_ns(attempt.group_started),
        ready_ns=history.time_ns(max(start_numbers)) if start_numbers else None,
        step_ns=history.time_ns(attempt.steps[0].number) if attempt.steps else None,
    )


def _measure_seconds(since_ns: int | None, until_ns: int | None) -> float | None:
    if since_ns is None or until_ns is None:
        return None
    return max(0, until_ns - since_ns) / 1e9
