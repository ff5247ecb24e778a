"""Whether all ranks of a run stand still: by their events, their processor time and their stacks.

The functions are pure. `StandstillWatch` takes the samples for them: none while events come, and
stacks, for which each process is interrupted, only where no processor time is used. A hang is
answered early only where nothing speaks against it; else the run goes on to its own limit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from chaos.model.event import (
    AnyEvent,
    FaultInvoked,
    GateReached,
    GateReleased,
    NoticeGiven,
    StackTaken,
    ThreadWaits,
    TrainFnEnded,
    WorkerStarted,
)
from chaos.model.plan import Plan
from chaos.processes.activity import Activity
from chaos.run.clock import Clock, seconds_since
from chaos.run.stacks import Stack, is_timed, name_callee, own_stacks, runs_command

# A loop that looks for something a hundred times a second takes some hundredths of a core.
IDLE_SHARE = 0.1
# The wait of such a loop for a core is short: on a machine that is too busy it is in most samples.
BUSY_SAMPLES = 0.25
# A sleep ends by itself. Only a loop that has looked so often, and found nothing, is a hang.
WAKES_MIN = 20
QUIET_S = 1.0  # without an event, after which the first sample is taken
SAMPLE_S, SAMPLES = 0.5, 40  # between two samples, at least; and their number, about
# Of the time after which it is a hang: the first stacks are taken then, and the others at its end.
FIRST_STACKS = 0.6
DUMPS_MAX = 6


@dataclass(frozen=True)
class Sample:
    """The activity of the processes of a run at a moment, by pid."""

    time_s: float
    activities: Mapping[int, Activity]


def find_waiting_ranks(plan: Plan, events: Sequence[AnyEvent]) -> tuple[WorkerStarted, ...]:
    """Return the ranks of the last attempt that train; none where a wait is not the job's own.

    A rank that was hit, or held, has others wait for it, for as long as the launcher takes to see
    that. A fault of storage may last beyond its attempt.
    """
    attempt = max((e.attempt for e in events if isinstance(e, WorkerStarted)), default=None)
    if attempt is None or any(op.fault.family in {"storage", "capacity"} for op in plan.ops):
        return ()
    held = {(e.op, e.attempt, e.rank) for e in events if isinstance(e, GateReached)}
    held -= {(e.op, e.attempt, e.rank) for e in events if isinstance(e, GateReleased)}
    is_struck = any(isinstance(e, FaultInvoked) and e.attempt == attempt for e in events)
    started = {e.rank: e for e in events if isinstance(e, WorkerStarted) and e.attempt == attempt}
    begun = max(n for n, e in enumerate(events) if isinstance(e, WorkerStarted))
    is_warned = any(isinstance(event, NoticeGiven) for event in events[begun:])
    is_held = any(of == attempt for _, of, _ in held)
    is_whole = len(started) == max(event.world_size for event in started.values())
    if is_held or is_struck or is_warned or not is_whole:
        return ()
    ended = [e for e in events if isinstance(e, TrainFnEnded) and e.attempt == attempt]
    if any(event.error for event in ended):
        return ()
    over = {event.rank for event in ended}
    return tuple(started[rank] for rank in sorted(started) if rank not in over)


def is_idle(samples: Sequence[Sample], *, for_s: float) -> bool:
    """Return whether the same processes have used next to no processor time for so long."""
    if not samples or samples[-1].time_s - samples[0].time_s < for_s:
        return False
    last = samples[-1]
    window = [sample for sample in samples if sample.time_s >= last.time_s - for_s - 1]
    first, elapsed_s = window[0], last.time_s - window[0].time_s
    if any(sample.activities.keys() != last.activities.keys() for sample in window):
        return False
    used = (now.cpu_s - first.activities[pid].cpu_s for pid, now in last.activities.items())
    busy = sum(any(a.is_busy for a in sample.activities.values()) for sample in window)
    return max(used, default=0.0) <= IDLE_SHARE * elapsed_s and busy <= BUSY_SAMPLES * len(window)


def find_settled(dumps: Sequence[Sequence[Stack]]) -> tuple[Stack, ...]:
    """Return the job's threads of a rank where its stacks were the same twice; none otherwise.

    A loop that waits is now and then in the function that looks, and not in its sleep.
    """
    threads = [own_stacks(dump) for dump in dumps]
    return next((one for n, one in enumerate(threads) if one and one in threads[:n]), ())


def awaits_clock(samples: Sequence[Sample], stacks: Mapping[int, Sequence[Stack]]) -> bool:
    """Return whether something may go on by itself: a sleep, a stated limit, another program.

    `stacks`: the job's threads of each rank, by its pid.
    """
    first, last = samples[0].activities, samples[-1].activities
    for pid, activity in last.items():
        before = first.get(pid, activity)
        woken = {t: n - before.wakes.get(t, n) for t, n in activity.wakes.items()}
        sleeps = [woken.get(thread, 0) for thread in activity.sleepers if thread != pid]
        threads = stacks.get(pid)
        if threads is None:  # a process that the job has started, of which no stack is known
            if pid in activity.sleepers and woken.get(pid, 0) < WAKES_MIN:
                return True
            continue
        for thread in threads:
            if runs_command(thread):
                return True
            wakes = woken.get(pid, 0) if thread.is_main else min(sleeps, default=0)
            if is_timed(thread) and wakes < WAKES_MIN:
                return True
    return False


def describe_threads(worker: WorkerStarted, threads: Sequence[Stack]) -> tuple[ThreadWaits, ...]:
    """Return an event for each thread of a rank that waits in the job's own code."""
    return tuple(
        ThreadWaits(
            attempt=worker.attempt,
            rank=worker.rank,
            file=thread.own[0].file,
            line=thread.own[0].line,
            function=thread.own[0].function,
            callee=name_callee(thread),
            caller_line=next(
                (frame.line for frame in thread.own[1:] if frame.file == thread.own[0].file), None
            ),
            is_main=thread.is_main,
        )
        for thread in threads
    )


@dataclass
class StandstillWatch:
    """Watches a run for a hang, without touching its processes while it goes on."""

    plan: Plan
    limit_s: float
    clock: Clock
    #: the activity of the processes of these ranks, and of all that belongs to them
    read: Callable[[Sequence[WorkerStarted]], Mapping[int, Activity]]
    #: has all processes write their stacks
    take: Callable[[], None]
    #: the last stacks of a rank
    stacks: Callable[[WorkerStarted], Sequence[Stack]]
    #: what the threads of each rank wait for, once it is a hang
    waits: tuple[ThreadWaits, ...] = ()
    _count: int = 0
    _quiet_ns: int = 0
    _looked_ns: int = 0
    _ranks: tuple[WorkerStarted, ...] | None = None
    _samples: list[Sample] = field(default_factory=list)
    _dumps: list[dict[int, Sequence[Stack]]] = field(default_factory=list)
    _next_dump_s: float = 0.0

    def find_hang(self, events: Sequence[AnyEvent]) -> float | None:
        """Return for how many seconds the run has stood still, once it is a hang."""
        fresh, self._count = events[self._count :], len(events)
        if any(not isinstance(event, StackTaken) for event in fresh):
            self._begin_again()
        quiet_s = seconds_since(self._quiet_ns, self.clock)
        every_s = max(SAMPLE_S, self.limit_s / SAMPLES)
        if quiet_s < QUIET_S or seconds_since(self._looked_ns, self.clock) < every_s:
            return None
        self._looked_ns = self.clock.now_ns()
        if self._ranks is None:
            self._ranks = find_waiting_ranks(self.plan, events)
        if not self._ranks:
            return None
        activities = self.read(self._ranks)
        if any(worker.pid not in activities for worker in self._ranks):
            self._begin_again()  # the launcher is about to see that a rank has ended
            return None
        self._samples.append(Sample(self.clock.now_ns() / 1e9, activities))
        return quiet_s if self._is_hang(self._ranks) else None

    def _begin_again(self) -> None:
        self._quiet_ns = self.clock.now_ns()
        self._ranks = None
        self._samples.clear()
        self._dumps.clear()
        self._next_dump_s = FIRST_STACKS * self.limit_s

    def _is_hang(self, ranks: Sequence[WorkerStarted]) -> bool:
        still_s = self._samples[-1].time_s - self._samples[0].time_s
        if still_s < self._next_dump_s:
            return False
        if not is_idle(self._samples, for_s=min(still_s, self.limit_s)):
            # Something was done meanwhile. The measure begins anew, as after an event.
            self._begin_again()
            return False
        self.take()
        self._dumps.append({worker.pid: self.stacks(worker) for worker in ranks})
        if still_s < self.limit_s:
            self._next_dump_s = self.limit_s
            return False
        settled = {
            worker.pid: find_settled([dump[worker.pid] for dump in self._dumps]) for worker in ranks
        }
        if all(settled.values()):
            if not awaits_clock(self._samples, settled):
                each = (describe_threads(worker, settled[worker.pid]) for worker in ranks)
                self.waits = tuple(wait for waits in each for wait in waits)
                return True
            self._next_dump_s = still_s + self.limit_s
        elif len(self._dumps) < DUMPS_MAX:
            self._next_dump_s = still_s + SAMPLE_S
        else:
            self._begin_again()
        return False
