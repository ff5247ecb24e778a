"""The frame of a run: the same for every launcher, which fills in what its processes need.

A launcher has one class below `LaunchedRun`, made for each run. The frame calls, in this order:
`prepare`; `controller`, around the rest; `start_driver` and `driver_started`; `exit_code` and
`do_background_work` by turns, and `take_stacks` at the time limit; `end_driver`; `clean_up`. What
came of the run is in its journals, and nowhere else.
"""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, TypeVar

from chaos.errors import HarnessError
from chaos.launch.environment import FIRST_ARGS_ENV, START_ENV
from chaos.launch.standstill import StandstillWatch, describe_threads
from chaos.model.event import (
    AnyEvent,
    DeadlinePassed,
    Disturbed,
    DriverExited,
    RunEnded,
    RunStarted,
    StartedAgain,
    ThreadWaits,
    WorkerGroupStarted,
    WorkerStarted,
)
from chaos.model.plan import Plan
from chaos.plan.driver_restart import must_restart_driver
from chaos.processes.activity import Activity, measure_activities
from chaos.processes.tree import is_running
from chaos.run.clock import SystemClock, elapsed_seconds
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal, JournalTail
from chaos.run.ports import ShowEntries
from chaos.run.signals import rank_stacks
from chaos.run.stacks import ThreadStack, parse_stacks, select_user_stacks

Driver = TypeVar("Driver")
START_S = 60.0  # added until the first workers start: a slow machine must not look like a hang


def execute_with_retry(
    execute_run: Callable[[str | None], str | None],
    directory: RunDirectory,
    *,
    retryable_error: type[HarnessError] = HarnessError,
) -> None:
    """Execute a plan; once more if the machine, or chaos itself, disturbed the first try.

    `execute_run` is called with the reason for a second try, None for the first, and returns what
    disturbed the run, None if nothing did. An error of the second try is raised.
    """
    try:
        reason = execute_run(None)
    except retryable_error as error:
        reason = str(error)
    if reason is not None:
        directory.archive_first_try()
        execute_run(reason)


@dataclass
class LaunchedRun(ABC, Generic[Driver]):
    """One execution of one plan; a driver is what runs the user's script once.

    `retry_reason` is the reason if this is the second try.
    """

    plan: Plan
    directory: RunDirectory
    show: ShowEntries
    retry_reason: str | None

    def __post_init__(self) -> None:
        self.clock = SystemClock()
        self.journal = Journal(self.directory.journals, "harness", role="harness", clock=self.clock)
        self._tail = JournalTail(self.directory.journals)
        self._events: list[AnyEvent] = []
        self._trains_since_ns: int | None = None
        #: for which the job has waited for nodes among the jobs of others: no limit counts it
        self.waited_ns = 0
        self.disturbed_by: str | None = None
        self._standstill: StandstillWatch | None = None
        self._running: dict[int, Driver] = {}  # by the number of its start, from 0
        self._starts = 0
        #: this start of the command has the arguments of the first one: nothing is saved yet
        self.has_first_args = False

    def execute(self) -> str | None:
        """Carry out the plan; return what disturbed the run from outside, None if nothing did."""
        self._begin()
        interrupted = True
        try:
            is_ready = self.prepare()
            with self.controller() if is_ready else contextlib.nullcontext():
                if is_ready:
                    self.watch()
                interrupted = False
        finally:
            with contextlib.ExitStack() as closing:  # the journal ends, even if cleaning up raises
                closing.callback(self._end, interrupted=interrupted)
                self.clean_up()
        return self.disturbed_by

    def _begin(self) -> None:
        plan = self.plan
        start_event = RunStarted(
            scenario=plan.scenario,
            seed=plan.seed,
            backend=plan.backend,
            plan=self.directory.load_plan().digest,
            again_after=self.retry_reason,
        )
        self.journal.add(start_event)

    def watch(self) -> None:
        """Watch the driver to the end of the run, and those that are started after or beside it.

        They are ended at the run's time limit, and after a disturbance from outside: later events
        would be no evidence about the job.
        """
        since_ns = self.clock.now_ns()
        self._standstill = self._watch_standstill()
        try:
            self._start_next_driver()
            while self._running:
                self._poll_drivers()
                if self._must_end(since_ns):
                    return
                if self._running and self.take_driver_request():
                    self._start_next_driver()
                elif self._running:
                    self.do_background_work()
        finally:
            with contextlib.ExitStack() as closing:  # each is ended, even if the end of one raises
                for number in reversed(self._running):
                    closing.callback(self._stop_driver, number)

    def _end(self, *, interrupted: bool) -> None:
        """Record that the run is over, as its last event."""
        # The lines of each journal up to here: by them a judge knows later whether any is missing.
        self.fetch_events()
        self.journal.add(RunEnded(interrupted=interrupted, lines=dict(self._tail.lines)))
        self.journal.close()
        self.fetch_events()

    def fetch_events(self) -> list[AnyEvent]:
        """Read and show the new events of all journals; return all events so far."""
        # The journals are the only channel back: what a worker, a driver or the chaos controller
        # has to say is an event. So a run that is judged later is judged by what was known here.
        entries = self._tail.fetch_entries()
        self._events.extend(entry.event for entry in entries)
        reasons = (entry.event.why for entry in entries if isinstance(entry.event, Disturbed))
        self.disturbed_by = self.disturbed_by or next(reasons, None)
        self.show(entries)
        return self._events

    def workers(self) -> list[WorkerStarted]:
        return [event for event in self.fetch_events() if isinstance(event, WorkerStarted)]

    def latest_workers(self) -> list[WorkerStarted]:
        """Return the workers of the last attempt; the pids of others may be used again."""
        workers = self.workers()
        latest_attempt = max((worker.attempt for worker in workers), default=None)
        return [worker for worker in workers if worker.attempt == latest_attempt]

    def _start_next_driver(self) -> None:
        number, self._starts = self._starts, self._starts + 1
        if number and self.plan.job.restarts_by_command:
            self.has_first_args = bool(self.plan.job.restart_args) and not self.may_have_saved()
            restart_event = StartedAgain(start=number, has_first_args=self.has_first_args)
            self.journal.add(restart_event)
        self._running[number] = self.start_driver()
        self.driver_started(self._running[number])

    def _poll_drivers(self) -> None:
        for number, driver in tuple(self._running.items()):
            # The events are read after the end was seen: the fault that killed a driver has been
            # recorded by then, and it decides whether there is a successor.
            if (code := self.exit_code(driver)) is not None:
                is_restarting = must_restart_driver(self.plan, self.fetch_events(), code=code)
                self._record_exit(number, code)
                if is_restarting:
                    self._start_next_driver()

    def _record_exit(self, number: int, code: int) -> None:
        self.journal.add(DriverExited(code=code, start=number))
        self.driver_ended(self._running.pop(number))

    def _stop_driver(self, number: int) -> None:
        # Without `driver_ended`: the run is over, and its cluster may not answer any more.
        self.journal.add(DriverExited(code=self.end_driver(self._running[number]), start=number))

    def _must_end(self, start_ns: int) -> bool:
        """Return whether the drivers are to be ended; record it, with stacks, at the time limit."""
        self.fetch_events()
        if self.disturbed_by is not None:
            return True
        if not self._running:
            return False
        limit_s = self.plan.limits.run_s
        if self._standstill is not None and self.sees_processes:
            still_s = self._standstill.find_hang(self._events)
            if still_s is not None:
                self.journal.add(DeadlinePassed(limit_s=limit_s, still_s=still_s))
                self._record_waits(self._standstill.waits)
                return True
        if not self._is_late(start_ns):
            return False
        self.journal.add(DeadlinePassed(limit_s=limit_s))
        self._take_all_stacks()
        threads = ((worker, self._load_rank_stacks(worker)) for worker in self._list_live_ranks())
        for worker, stacks in threads:
            self._record_waits(describe_threads(worker, select_user_stacks(stacks)))
        return True

    def _watch_standstill(self) -> StandstillWatch | None:
        """Return what looks for a hang, where a clean run has shown how long the job may pause."""
        limit_s = self.plan.limits.idle_s
        if limit_s is None or not self.plan.ops:
            return None
        return StandstillWatch(
            self.plan,
            limit_s,
            self.clock,
            measure_activities=self._measure_activities,
            take_stacks=self._take_all_stacks,
            load_stacks=self._load_rank_stacks,
        )

    def _measure_activities(self, ranks: Sequence[WorkerStarted]) -> Mapping[int, Activity]:
        drivers = (pid for driver in self._running.values() for pid in self.find_pids(driver))
        return measure_activities([*drivers, *(worker.pid for worker in ranks)])

    def _take_all_stacks(self) -> None:
        for driver in tuple(self._running.values()):
            self.take_stacks(driver)

    def _list_live_ranks(self) -> list[WorkerStarted]:
        """Return the ranks of the last attempt that live; none where processes are out of sight."""
        workers = self.latest_workers() if self.sees_processes else []
        return [worker for worker in workers if is_running(worker.pid)]

    def _load_rank_stacks(self, worker: WorkerStarted) -> Sequence[ThreadStack]:
        file = self.directory.logs / rank_stacks(worker.rank, worker.pid)
        try:
            text = file.read_text(errors="replace")
        except OSError:  # it has not come to its first line
            return ()
        return parse_stacks(text, cwd=self.plan.cwd)

    def _record_waits(self, waits: Iterable[ThreadWaits]) -> None:
        for wait in waits:
            self.journal.add(wait)

    def _is_late(self, start_ns: int) -> bool:
        """Return whether the run has reached its time limit, counted from its first workers."""
        # Until the first workers are there the limit has a minute more, and only then does it
        # count: a limit of 50 s was over before a busy machine had started them (docs/notes, 5).
        limit_s, since_ns = self.plan.limits.run_s, self._trains_since_ns
        if since_ns is None:
            if any(isinstance(event, WorkerGroupStarted) for event in self._events):
                self._trains_since_ns = self.clock.now_ns() - self.waited_ns
            return elapsed_seconds(start_ns + self.waited_ns, self.clock) > limit_s + START_S
        return elapsed_seconds(since_ns + self.waited_ns, self.clock) > limit_s

    @property
    def start_number(self) -> int:
        """The number of the last start of the script, from 0."""
        return self._starts - 1

    @property
    def start_env(self) -> dict[str, str]:
        """The variables that tell a driver which start of the script it is."""
        argument_env = {FIRST_ARGS_ENV: "1"} if self.has_first_args else {}
        return {START_ENV: str(self.start_number), **argument_env}

    # -- filled in by a launcher -----------------------------------------------------------

    @property
    def sees_processes(self) -> bool:
        """Whether the processes of the run are of this host, so that a hang can be seen early."""
        return True

    def find_pids(self, driver: Driver) -> list[int]:
        """Return the pids of a driver on this host; none where it runs elsewhere."""
        del driver
        return []

    def prepare(self) -> bool:
        """Do what must be done before a driver can be started; return whether one can be."""
        return True

    @abstractmethod
    def controller(self) -> AbstractContextManager[None]:
        """Answer the processes of the run, and inject its faults, while the context lasts."""

    @abstractmethod
    def start_driver(self) -> Driver:
        """Start a process that runs the user's script; it may run beside an earlier one."""

    @abstractmethod
    def driver_started(self, driver: Driver) -> None:
        """Pass the driver on to the code that injects faults, which may kill it."""

    def driver_ended(self, driver: Driver) -> None:
        """Pass on that a driver has ended, where a fault may wait for it."""

    def take_driver_request(self) -> bool:
        """Return whether a fault asks for a second driver, beside the one that runs."""
        return False

    def may_have_saved(self) -> bool:
        """Return whether the job may have made its first save; true where that is not seen."""
        return True

    @abstractmethod
    def exit_code(self, driver: Driver) -> int | None:
        """Return a driver's exit code, None while it runs; record what ended it from outside."""

    @abstractmethod
    def end_driver(self, driver: Driver) -> int:
        """End a driver; return its exit code."""

    @abstractmethod
    def do_background_work(self) -> None:
        """Do the work between two looks at a driver."""

    @abstractmethod
    def take_stacks(self, driver: Driver) -> None:
        """Signal all ranks and the driver to write their stacks."""

    @abstractmethod
    def clean_up(self) -> None:
        """Record what is left of the run, and remove it; the journal is still open."""
