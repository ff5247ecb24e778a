"""The harness's side of one run, on any backend: it watches drivers, and reads the journals."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

from chaos.model.event import (
    AnyEvent,
    DeadlinePassed,
    Disturbed,
    DriverExited,
    RunEnded,
    RunStarted,
    StackTaken,
    WorkerGroupStarted,
    WorkerStarted,
)
from chaos.model.plan import Plan
from chaos.plan.again import driver_begins_again
from chaos.run.clock import SystemClock, seconds_since
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal, Tail
from chaos.run.ports import Show
from chaos.run.signals import DRIVER_STACKS, rank_stacks

Driver = TypeVar("Driver")
START_S = 60.0  # added until the first workers start: a slow machine must not look like a hang


@dataclass
class RunWatch(ABC, Generic[Driver]):
    """One execution of one plan; a backend adds the start, the end and the stacks of drivers."""

    plan: Plan
    directory: RunDirectory
    show: Show

    def __post_init__(self) -> None:
        self.clock = SystemClock()
        self.journal = Journal(self.directory.journals, "harness", role="harness", clock=self.clock)
        self._tail = Tail(self.directory.journals)
        self._seen: list[AnyEvent] = []
        self._trains_since_ns: int | None = None
        self.disturbed_by: str | None = None

    def begin(self, *, again_after: str | None = None) -> None:
        """Record the plan and the backend of the run."""
        plan = self.plan
        started = RunStarted(
            scenario=plan.scenario,
            seed=plan.seed,
            backend=plan.backend,
            plan=self.directory.load_plan().digest,
            again_after=again_after,
        )
        self.journal.add(started)

    def watch(self) -> None:
        """Watch the driver to the end of the run, and its successor if a fault killed it."""
        start, again = self.clock.now_ns(), True
        while again:
            driver = self.start_driver()
            code: int | None = None
            try:
                self.driver_started(driver)
                code = self._watch_driver(driver, start)
            finally:
                ended = self.end_driver(driver) if code is None else code
                again = code is not None and driver_begins_again(self.plan, self.seen())
                self.journal.add(DriverExited(code=ended))

    def end(self, *, interrupted: bool) -> None:
        """Record that the run is over, as its last event."""
        self.seen()
        self.journal.add(RunEnded(interrupted=interrupted, lines=dict(self._tail.lines)))
        self.journal.close()
        self.seen()

    def seen(self) -> list[AnyEvent]:
        """Read and show the new events of all journals; return all events so far."""
        entries = self._tail.new_entries()
        self._seen.extend(entry.what for entry in entries)
        whys = (entry.what.why for entry in entries if isinstance(entry.what, Disturbed))
        self.disturbed_by = self.disturbed_by or next(whys, None)
        self.show(entries)
        return self._seen

    def workers(self) -> list[WorkerStarted]:
        """Return all workers that have started so far."""
        return [event for event in self.seen() if isinstance(event, WorkerStarted)]

    def stack_taken(self, pid: int, rank: int | None = None) -> None:
        """Record that a process was asked for its stacks."""
        name = DRIVER_STACKS if rank is None else rank_stacks(rank, pid)
        self.journal.add(StackTaken(pid=pid, rank=rank, path=f"logs/{name}"))

    def _watch_driver(self, driver: Driver, start_ns: int) -> int | None:
        """Return the exit code of a driver, None if it is to be ended.

        It is ended at the run's time limit, and after a disturbance from outside: later
        events would be no evidence about the job.
        """
        while (code := self.exit_code(driver)) is None:
            self.seen()
            if self.disturbed_by is not None:
                return None
            if self._is_late(start_ns):
                self.journal.add(DeadlinePassed(limit_s=self.plan.limits.run_s))
                self.take_stacks(driver)
                return None
            self.meanwhile()
        return code

    def _is_late(self, start_ns: int) -> bool:
        """Return whether the run has reached its time limit, counted from its first workers."""
        limit_s, since_ns = self.plan.limits.run_s, self._trains_since_ns
        if since_ns is None:
            if any(isinstance(event, WorkerGroupStarted) for event in self._seen):
                self._trains_since_ns = self.clock.now_ns()
            return seconds_since(start_ns, self.clock) > limit_s + START_S
        return seconds_since(since_ns, self.clock) > limit_s

    @abstractmethod
    def start_driver(self) -> Driver:
        """Start a process that runs the user's script."""

    @abstractmethod
    def driver_started(self, driver: Driver) -> None:
        """Pass the driver on to the code that injects faults, which may kill it."""

    @abstractmethod
    def exit_code(self, driver: Driver) -> int | None:
        """Return a driver's exit code, None while it runs."""

    @abstractmethod
    def end_driver(self, driver: Driver) -> int:
        """End a driver; return its exit code."""

    @abstractmethod
    def meanwhile(self) -> None:
        """Do the work between two looks at a driver."""

    @abstractmethod
    def take_stacks(self, driver: Driver) -> None:
        """Signal all ranks and the driver to write their stacks."""
