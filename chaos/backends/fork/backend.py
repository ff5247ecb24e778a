"""Executes plans without a cluster: a warm zygote per job, forked once for each run."""

import contextlib
import os
import signal
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
    DriverExited,
    Leftover,
    LeftoversSearched,
    MemoryExhausted,
    ScriptRaised,
)
from chaos.model.plan import Plan
from chaos.run.armed import ArmedFaults
from chaos.run.clock import seconds_since
from chaos.run.controller import ChaosController
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal
from chaos.run.ports import Show
from chaos.run.stacks import DRIVER_STACKS, STACK_SIGNAL, rank_stacks
from chaos.run.watch import RunWatch

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
            Run(plan, directory, show, self._zygote).execute()
        except (
            BaseException
        ):  # broken off, perhaps in mid-sentence: the next run has its own zygote
            self.close()
            raise


@dataclass
class Run(RunWatch[int]):
    """One execution of one plan, from the harness's side; a driver is its pid."""

    zygote: ZygoteHandle

    def __post_init__(self) -> None:
        super().__post_init__()
        token = os.urandom(4).hex()
        self.address = RunAddress(self.directory.path, token, f"unix:chaos-gates-{token}")
        armed = ArmedFaults(self.directory.storage_faults)
        self.world = ForkWorld(self.clock, self.plan.shape.nodes, armed)
        self._memory_limit = memory.threshold()

    def execute(self) -> None:
        """Fork a driver, watch it, clean up; the history says how it went."""
        self.begin()
        failed = self._await_fit()
        if failed is not None:
            self.journal.add(ScriptRaised(error=failed.error, message=failed.message))
            self.journal.add(DriverExited(code=1))
            self._end(interrupted=False)
            return
        look = look_for(self.plan, self.directory)
        chaos = Journal(self.directory.journals, "chaos", role="chaos", clock=self.clock)
        controller = ChaosController(self.plan, self.world, chaos, look=look)
        server = GateServer(self.address.controller.partition(":")[2], controller, self.world)
        interrupted = True
        try:
            self.watch()
            interrupted = False
        finally:
            self.world.end()
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

    def start_driver(self) -> int:
        """Have the zygote fork a driver; gives its pid."""
        return self.zygote.start(StartRun(self.address, dict(self.plan.job.env)))

    def driver_started(self, driver: int) -> None:
        """Tell the world which process the driver is."""
        self.world.driver = driver

    def exit_code(self, driver: int) -> int | None:
        """Wait a moment for the driver's end; gives its exit code, None while it runs."""
        return self.zygote.exit_code(driver)

    def end_driver(self, driver: int) -> int:
        """Kill the driver; what it forked goes with the run."""
        with contextlib.suppress(ProcessLookupError):  # it may have ended just now
            os.kill(driver, signal.SIGKILL)
        return -signal.SIGKILL

    def meanwhile(self) -> None:
        """End the largest process of the run where memory runs out; its attempt fails."""
        if memory.used_share() < self._memory_limit:
            return
        if (process := memory.largest(self.descendants())) is None:
            return
        rank = next((e.rank for e in self.workers() if e.pid == process.pid), None)
        share = memory.used_share()
        self.journal.add(MemoryExhausted(pid=process.pid, rank=rank, share=share))
        kill(process)
        psutil.wait_procs([process], timeout=END_S)

    def take_stacks(self, driver: int) -> None:
        """Ask all ranks and the driver for their stacks: faulthandler answers even from C++."""
        ranks = [(e.pid, e.rank, rank_stacks(e.rank, e.pid)) for e in self.workers()]
        asked: list[tuple[int, int | None, str]] = [(driver, None, DRIVER_STACKS), *ranks]
        for pid, rank, name in asked:
            if (self.directory.logs / name).exists() and psutil.pid_exists(pid):
                os.kill(pid, STACK_SIGNAL)
                self.stack_taken(pid, rank)
        self.clock.sleep(STACKS_S)

    def descendants(self) -> list[psutil.Process]:
        """Give what is left of the run, where its zygote still lives."""
        try:
            return self.zygote.descendants()
        except psutil.NoSuchProcess:
            return []

    def _end(self, *, interrupted: bool) -> None:
        self._search_leftovers()
        self.end(interrupted=interrupted)

    def _search_leftovers(self) -> None:
        """Wait a little for the run's processes to end, record those that do not, end them."""
        start = self.clock.now_ns()
        while (left := self.descendants()) and seconds_since(start, self.clock) < END_S:
            self.clock.sleep(POLL_S)
        for process in left:
            command = " ".join(process.cmdline())[:120]
            self.journal.add(Leftover(kind="process", what=f"pid {process.pid}: {command}"))
            kill(process)
        looked_at = search_storage(
            self.journal,
            self.seen(),
            self.directory,
            is_watched=self.plan.watch.files,
        )
        self.journal.add(LeftoversSearched(places=("processes", *looked_at)))
