"""Executes plans without a cluster: a warm zygote per job, forked once for each run."""

import contextlib
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import psutil

from chaos.backends.fork import memory
from chaos.backends.fork.messages import Failed, StartRun
from chaos.backends.fork.server import GateServer
from chaos.backends.fork.world import ForkWorld
from chaos.backends.fork.zygote_handle import ZygoteHandle, kill
from chaos.backends.train.address import RunAddress
from chaos.backends.train.storage import look_for, search_storage
from chaos.model.event import (
    AnyEvent,
    DeadlinePassed,
    DriverExited,
    Leftover,
    LeftoversSearched,
    MemoryExhausted,
    RunEnded,
    RunStarted,
    ScriptRaised,
    StackTaken,
    WorkerStarted,
)
from chaos.model.plan import Plan
from chaos.plan.again import driver_begins_again
from chaos.run.armed import ArmedFaults
from chaos.run.clock import SystemClock, seconds_since
from chaos.run.controller import ChaosController
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal, Tail
from chaos.run.ports import Show

POLL_S = 0.01
END_S = 5.0
STACKS_S = 0.5


class ForkBackend:
    """A context: leaving it ends the zygote and all that it forked."""

    def __init__(self) -> None:
        self._zygote: ZygoteHandle | None = None

    def __enter__(self) -> Self:
        """Start nothing yet; the first plan says which job is needed."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the zygote."""
        self.close()

    def close(self) -> None:
        """End the zygote, if there is one."""
        if self._zygote is not None:
            self._zygote.end()
            self._zygote = None

    def execute(self, plan: Plan, directory: RunDirectory, show: Show) -> None:
        """Carry out a plan; everything that was seen is in the directory's journals."""
        job = (plan.cwd, plan.job.source, repr(plan.job.args), repr(plan.job.env))
        if self._zygote is not None and (self._zygote.job != job or not self._zygote.is_ready):
            self.close()
        if self._zygote is None:
            self._zygote = ZygoteHandle(job, plan, directory)
        try:
            Run(plan, directory, self._zygote, show).execute()
        except (
            BaseException
        ):  # broken off, perhaps in mid-sentence: the next run has its own zygote
            self.close()
            raise


@dataclass
class Run:
    """One execution of one plan, from the harness's side."""

    plan: Plan
    directory: RunDirectory
    zygote: ZygoteHandle
    show: Show

    def __post_init__(self) -> None:
        self.clock = SystemClock()
        token = os.urandom(4).hex()
        self.address = RunAddress(self.directory.path, token, f"unix:chaos-gates-{token}")
        self.journal = Journal(self.directory.journals, "harness", role="harness", clock=self.clock)
        self.tail = Tail(self.directory.journals)
        self.seen: list[AnyEvent] = []
        self._memory_limit = memory.threshold()

    def execute(self) -> None:
        """Fork a driver, watch it, clean up; the history says how it went."""
        plan = self.plan
        self.journal.add(RunStarted(scenario=plan.scenario, seed=plan.seed, backend=plan.backend))
        failed = self._await_fit()
        if failed is not None:
            self.journal.add(ScriptRaised(error=failed.error, message=failed.message))
            self.journal.add(DriverExited(code=1))
            self._end(interrupted=False)
            return
        armed = ArmedFaults(self.directory.storage_faults)
        world = ForkWorld(self.clock, plan.shape.nodes, armed)
        chaos = Journal(self.directory.journals, "chaos", role="chaos", clock=self.clock)
        controller = ChaosController(plan, world, chaos, look=look_for(plan, self.directory))
        server = GateServer(self.address.controller.partition(":")[2], controller, world)
        interrupted = True
        try:
            self._watch(world)
            interrupted = False
        finally:
            world.end()
            controller.finish(within_s=END_S)
            server.close()
            chaos.close()
            self._end(interrupted=interrupted)

    def _await_fit(self) -> Failed | None:
        try:
            return self.zygote.await_fit()
        except BaseException:
            self._end(interrupted=True)
            raise

    def _watch(self, world: ForkWorld) -> None:
        """Watch the driver, and its successor where a fault killed it, to the end of the run."""
        start, again = self.clock.now_ns(), True
        while again:
            world.driver = driver = self.zygote.start(
                StartRun(self.address, dict(self.plan.job.env))
            )
            code: int | None = None
            try:
                code = self._watch_driver(driver, start)
            finally:
                if code is None:
                    with contextlib.suppress(ProcessLookupError):  # it may have ended just now
                        os.kill(driver, signal.SIGKILL)
                self._show_new()
                again = code is not None and driver_begins_again(self.plan, self.seen)
                self.journal.add(DriverExited(code=-signal.SIGKILL if code is None else code))

    def _watch_driver(self, driver: int, start_ns: int) -> int | None:
        """Give the exit code of a driver, None where it is not over at the run's limit."""
        while (code := self.zygote.exit_code(driver)) is None:
            self._show_new()
            self._guard_memory()
            if seconds_since(start_ns, self.clock) > self.plan.limits.run_s:
                self.journal.add(DeadlinePassed(limit_s=self.plan.limits.run_s))
                self._take_stacks(driver)
                return None
        return code

    def _guard_memory(self) -> None:
        """End the largest process of the run where memory runs out; its attempt fails."""
        if memory.used_share() < self._memory_limit:
            return
        if (process := memory.largest(self.zygote_children())) is None:
            return
        started = (e for e in self.seen if isinstance(e, WorkerStarted))
        rank = next((e.rank for e in started if e.pid == process.pid), None)
        share = memory.used_share()
        self.journal.add(MemoryExhausted(pid=process.pid, rank=rank, share=share))
        kill(process)
        psutil.wait_procs([process], timeout=END_S)

    def _end(self, *, interrupted: bool) -> None:
        self._search_leftovers()
        self.journal.add(RunEnded(interrupted=interrupted))
        self.journal.close()
        self._show_new()

    def _search_leftovers(self) -> None:
        """Wait a little for the run's processes to end, record those that do not, end them."""
        start = self.clock.now_ns()
        while (left := self.zygote_children()) and seconds_since(start, self.clock) < END_S:
            self.clock.sleep(POLL_S)
        for process in left:
            command = " ".join(process.cmdline())[:120]
            self.journal.add(Leftover(kind="process", what=f"pid {process.pid}: {command}"))
            kill(process)
        self._show_new()
        looked_at = search_storage(
            self.journal,
            self.seen,
            self.directory,
            is_watched=self.plan.watch.files,
        )
        self.journal.add(LeftoversSearched(places=("processes", *looked_at)))

    def zygote_children(self) -> list[psutil.Process]:
        """Give what is left of the run, where its zygote still lives."""
        try:
            return self.zygote.descendants()
        except psutil.NoSuchProcess:
            return []

    def _show_new(self) -> None:
        entries = self.tail.new_entries()
        self.seen.extend(entry.what for entry in entries)
        self.show(entries)

    def _take_stacks(self, driver: int) -> None:
        """Ask all ranks and the driver for their stacks: faulthandler answers even from C++."""
        self._show_new()
        logs = self.directory.logs
        asked: Sequence[tuple[int, int | None, str]] = [
            (driver, None, "stacks-driver.txt"),
            *(
                (e.pid, e.rank, f"stacks-rank-{e.rank}-{e.pid}.txt")
                for e in self.seen
                if isinstance(e, WorkerStarted)
            ),
        ]
        for pid, rank, name in asked:
            if (logs / name).exists() and psutil.pid_exists(pid):
                os.kill(pid, signal.SIGUSR2)
                self.journal.add(StackTaken(pid=pid, rank=rank, path=f"logs/{name}"))
        self.clock.sleep(STACKS_S)
