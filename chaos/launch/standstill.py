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
from chaos.run.clock import Clock, elapsed_seconds
from chaos.run.stacks import ThreadStack, is_timed, name_callee, runs_command, select_user_stacks

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
class ActivitySample:
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
    open_gates = {(e.op, e.attempt, e.rank) for e in events if isinstance(e, GateReached)}
    open_gates -= {(e.op, e.attempt, e.rank) for e in events if isinstance(e, GateReleased)}
    has_fault = any(isinstance(e, FaultInvoked) and e.attempt == attempt for e in events)
    workers = {e.rank: e for e in events if isinstance(e, WorkerStarted) and e.attempt == attempt}
    start_index = max(n for n, e in enumerate(events) if isinstance(e, WorkerStarted))
    is_warned = any(isinstance(event, NoticeGiven) for event in events[start_index:])
    has_open_gate = any(gate_attempt == attempt for _, gate_attempt, _ in open_gates)
    is_complete = len(workers) == max(event.world_size for event in workers.values())
    if has_open_gate or has_fault or is_warned or not is_complete:
        return ()
    end_events = [e for e in events if isinstance(e, TrainFnEnded) and e.attempt == attempt]
    if any(event.error for event in end_events):
        return ()
    ended_ranks = {event.rank for event in end_events}
    return tuple(workers[rank] for rank in sorted(workers) if rank not in ended_ranks)


def is_idle(samples: Sequence[ActivitySample], *, for_s: float) -> bool:
    """Return whether the same processes have used next to no processor time for so long."""
    if not samples or samples[-1].time_s - samples[0].time_s < for_s:
        return False
    last_sample = samples[-1]
    window = [sample for sample in samples if sample.time_s >= last_sample.time_s - for_s - 1]
    first_sample, elapsed_s = window[0], last_sample.time_s - window[0].time_s
    if any(sample.activities.keys() != last_sample.activities.keys() for sample in window):
        return False
    cpu_times = (
        activity.cpu_s - first_sample.activities[pid].cpu_s
        for pid, activity in last_sample.activities.items()
    )
    busy = sum(
        any(process_activity.is_busy for process_activity in sample.activities.values())
        for sample in window
    )
    return max(cpu_times, default=0.0) <= IDLE_SHARE * elapsed_s and busy <= BUSY_SAMPLES * len(
        window
    )


def find_stable_threads(dumps: Sequence[Sequence[ThreadStack]]) -> tuple[ThreadStack, ...]:
    """Return the job's threads of a rank where its stacks were the same twice; none otherwise.

    A loop that waits is now and then in the function that looks, and not in its sleep.
    """
    threads = [select_user_stacks(dump) for dump in dumps]
    return next(
        (
            rank_threads
            for index, rank_threads in enumerate(threads)
            if rank_threads and rank_threads in threads[:index]
        ),
        (),
    )


def awaits_clock(
    samples: Sequence[ActivitySample], stacks: Mapping[int, Sequence[ThreadStack]]
) -> bool:
    """Return whether something may go on by itself: a sleep, a stated limit, another program.

    `stacks`: the job's threads of each rank, by its pid.
    """
    first_activities, last_activities = samples[0].activities, samples[-1].activities
    for pid, activity in last_activities.items():
        earlier = first_activities.get(pid, activity)
        wake_counts = {t: n - earlier.wakes.get(t, n) for t, n in activity.wakes.items()}
        sleeps = [wake_counts.get(thread, 0) for thread in activity.sleepers if thread != pid]
        threads = stacks.get(pid)
        if threads is None:  # a process that the job has started, of which no stack is known
            if pid in activity.sleepers and wake_counts.get(pid, 0) < WAKES_MIN:
                return True
            continue
        for thread in threads:
            if runs_command(thread):
                return True
            wakes = wake_counts.get(pid, 0) if thread.is_main else min(sleeps, default=0)
            if is_timed(thread) and wakes < WAKES_MIN:
                return True
    return False


def describe_threads(
    worker: WorkerStarted, threads: Sequence[ThreadStack]
) -> tuple[ThreadWaits, ...]:
    """Return an event for each thread of a rank that waits in the job's own code."""
    return tuple(
        ThreadWaits(
            attempt=worker.attempt,
            rank=worker.rank,
            file=thread.user_frames[0].file,
            line=thread.user_frames[0].line,
            function=thread.user_frames[0].function,
            callee=name_callee(thread),
            caller_line=next(
                (
                    frame.line
                    for frame in thread.user_frames[1:]
                    if frame.file == thread.user_frames[0].file
                ),
                None,
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
    measure_activities: Callable[[Sequence[WorkerStarted]], Mapping[int, Activity]]
    #: has all processes write their stacks
    take_stacks: Callable[[], None]
    #: the last stacks of a rank
    load_stacks: Callable[[WorkerStarted], Sequence[ThreadStack]]
    #: what the threads of each rank wait for, once it is a hang
    waits: tuple[ThreadWaits, ...] = ()
    _count: int = 0
    _quiet_ns: int = 0
    _sampled_ns: int = 0
    _ranks: tuple[WorkerStarted, ...] | None = None
    _samples: list[ActivitySample] = field(default_factory=list)
    _dumps: list[dict[int, Sequence[ThreadStack]]] = field(default_factory=list)
    _next_dump_s: float = 0.0

    def find_hang(self, events: Sequence[AnyEvent]) -> float | None:
        """Return for how many seconds the run has stood still, once it is a hang."""
        new_events, self._count = events[self._count :], len(events)
        if any(not isinstance(event, StackTaken) for event in new_events):
            self._restart()
        quiet_s = elapsed_seconds(self._quiet_ns, self.clock)
        interval_s = max(SAMPLE_S, self.limit_s / SAMPLES)
        if quiet_s < QUIET_S or elapsed_seconds(self._sampled_ns, self.clock) < interval_s:
            return None
        self._sampled_ns = self.clock.now_ns()
        if self._ranks is None:
            self._ranks = find_waiting_ranks(self.plan, events)
        if not self._ranks:
            return None
        activities = self.measure_activities(self._ranks)
        if any(worker.pid not in activities for worker in self._ranks):
            self._restart()  # the launcher is about to see that a rank has ended
            return None
        self._samples.append(ActivitySample(self.clock.now_ns() / 1e9, activities))
        return quiet_s if self._is_hang(self._ranks) else None

    def _restart(self) -> None:
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
            self._restart()
            return False
        self.take_stacks()
        stacks = {worker.pid: self.load_stacks(worker) for worker in ranks}
        if any(thread.asks_chaos for threads in stacks.values() for thread in threads):
            self._restart()  # it is held by chaos, which has a limit of its own for that
            return False
        self._dumps.append(stacks)
        if still_s < self.limit_s:
            self._next_dump_s = self.limit_s
            return False
        stable_threads = {
            worker.pid: find_stable_threads([dump[worker.pid] for dump in self._dumps])
            for worker in ranks
        }
        if all(stable_threads.values()):
            if not awaits_clock(self._samples, stable_threads):
                rank_waits = (
                    describe_threads(worker, stable_threads[worker.pid]) for worker in ranks
                )
                self.waits = tuple(wait for waits in rank_waits for wait in waits)
                return True
            self._next_dump_s = still_s + self.limit_s
        elif len(self._dumps) < DUMPS_MAX:
            self._next_dump_s = still_s + SAMPLE_S
        else:
            self._restart()
        return False
