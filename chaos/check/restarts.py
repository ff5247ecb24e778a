"""The cost and the place of each restart, as rows."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from chaos.check.attempt import Attempt, Commit, Decision
from chaos.check.injections import Injection
from chaos.check.lineage import Lineage
from chaos.model.history import History


@dataclass(frozen=True)
class Phases:
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
        return _between(self.fault_ns, self.step_ns)

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
            seconds[phase] = _between(since_ns, moment_ns)
            if since_ns is not None and moment_ns is not None:
                since_ns = max(since_ns, moment_ns)
        return seconds


@dataclass(frozen=True)
class Restart:
    """One attempt after another."""

    attempt: Attempt
    ended: Attempt | None
    injections: tuple[Injection, ...]
    decision: Decision | None
    #: the newest commit with a checkpoint when the attempt was opened
    newest: Commit | None
    #: the finished steps per rank that are recomputed
    lost_steps: Mapping[int, int]
    phases: Phases

    @property
    def checkpoints(self) -> dict[int, str | None]:
        """The checkpoint that each rank was handed."""
        return {rank: s.checkpoint for rank, s in sorted(self.attempt.starts.items())}

    @property
    def epoch(self) -> int | None:
        """The epoch at which training continued."""
        return self.attempt.epoch


def lost_steps(restarts: Iterable[Restart]) -> int:
    """Return the number of recomputed steps of the rank that has the most."""
    lost: Counter[int] = Counter()
    for restart in restarts:
        lost.update(restart.lost_steps)
    return max(lost.values(), default=0)


def restarts(
    history: History,
    attempts: Sequence[Attempt],
    lineage: Lineage,
    injections: Sequence[Injection],
) -> tuple[Restart, ...]:
    """Return one row for every attempt but the first, in order."""
    found = []
    saved: list[Commit] = []
    before: Attempt | None = None
    for attempt in attempts:
        if attempt.index > 0:
            since = before.index if before else 0
            hits = tuple(
                s for s in injections if any(since <= hit < attempt.index for hit in s.hits)
            )
            decision = before.decisions[-1] if before and before.decisions else None
            row = Restart(
                attempt=attempt,
                ended=before,
                injections=hits,
                decision=decision,
                newest=_newest(saved, attempt.group_started),
                lost_steps=lineage.lost.get(attempt.index, {}),
                phases=_phases(history, _harm_ns(hits, since, attempt.index), decision, attempt),
            )
            found.append(row)
        every = (*attempt.early, *attempt.commits)
        saved.extend(c for c in every if c.checkpoint is not None)
        before = attempt
    return tuple(found)


@dataclass(frozen=True, slots=True)
class RepeatedSteps:
    """Steps of one rank that a restart trained a second time, in its first epoch."""

    attempt: int
    rank: int
    epoch: int
    steps: int
    #: the number of the attempt's first step; any from there on may be one of them
    since: int


def repeated_steps(restarts: Iterable[Restart], reference: Lineage) -> Iterator[RepeatedSteps]:
    """Yield the steps that a source may hand out again: at most as many as were discarded.

    A source that learns only later what was trained hands out again what it does not know of.
    """
    for restart in restarts:
        for rank, start in sorted(restart.attempt.starts.items()):
            steps = restart.attempt.steps_of(rank, start.epoch)
            more = len(steps) - (reference.count(rank, start.epoch) - start.step)
            # More than were discarded would be samples that had survived: those are trained twice
            # for good.
            if restart.attempt.steps and 0 < more <= restart.lost_steps.get(rank, 0):
                since = restart.attempt.steps[0].number
                yield RepeatedSteps(restart.attempt.index, rank, start.epoch, more, since)


def _harm_ns(hits: Sequence[Injection], since: int, until: int) -> int | None:
    """Return the time of the first harm to the attempts from `since` on."""
    done = (ns for s in hits for hit, ns in s.hits.items() if since <= hit < until)
    return min((ns for ns in done if ns is not None), default=None)


def _newest(saved: Sequence[Commit], group_started: int | None) -> Commit | None:
    """Return the last commit that Ray could know when it opened an attempt."""
    # A commit may come while the next attempt is being opened. Counted, it would make a right
    # resume from the one before look too old.
    known = (c for c in reversed(saved) if group_started is None or c.number < group_started)
    return next(known, None)


def _phases(
    history: History, harm_ns: int | None, decision: Decision | None, attempt: Attempt
) -> Phases:
    ready = [start.number for start in attempt.starts.values()]
    return Phases(
        # From the harm, not from our proof of it: that may come after Ray has seen the loss.
        fault_ns=harm_ns,
        decided_ns=history.time_ns(decision.number) if decision else None,
        group_ns=None if attempt.group_started is None else history.time_ns(attempt.group_started),
        ready_ns=history.time_ns(max(ready)) if ready else None,
        step_ns=history.time_ns(attempt.steps[0].number) if attempt.steps else None,
    )


def _between(since_ns: int | None, until_ns: int | None) -> float | None:
    if since_ns is None or until_ns is None:
        return None
    return max(0, until_ns - since_ns) / 1e9
