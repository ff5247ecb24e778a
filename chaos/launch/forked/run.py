"""One run on the embedded backend, from the harness's side."""

import contextlib
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from chaos.launch.forked.lane_handle import LaneHandle
from chaos.launch.forked.messages import Failed, StartRun
from chaos.launch.forked.zygote_handle import ZygoteHandle
from chaos.launch.local_run import LocalRun
from chaos.launch.node_disk import NodeDisk, confines_of
from chaos.launch.process_world import ProcessWorld
from chaos.launch.raytrain.storage import look_for, search_storage
from chaos.model.event import (
    Disturbed,
    DriverExited,
    MemoryExhausted,
    StorageFaulted,
    StorageSeen,
)
from chaos.plan.driver_restart import env_at_start
from chaos.probe.written import Confines
from chaos.processes.exhaustion import Exhaustion
from chaos.processes.tree import living
from chaos.run.armed import ArmedFaults
from chaos.run.journal import driver_journal
from chaos.run.signals import DRIVER_STACKS, is_foreign, killed

MEMORY_POLLS = 5  # of a hundredth of a second: the monitor of Ray 2.60 looks each 0.25 s
# For a second driver's script to come to its fit(): longer than the fault waits for it. Meanwhile
# the first driver is not looked at.
BESIDE_S = 65.0


@dataclass
class ForkedRun(LocalRun[int, ProcessWorld]):
    """One execution of one plan; a driver is represented by its pid.

    `lane_of` returns the run's lane.
    """

    zygote: ZygoteHandle
    lane_of: Callable[[ZygoteHandle], LaneHandle]

    def __post_init__(self) -> None:
        super().__post_init__()
        self._lanes: list[LaneHandle] = []
        self._lane: dict[int, LaneHandle] = {}  # by the pid of its driver
        self._begun_again: list[ZygoteHandle] = []
        self._memory = Exhaustion()
        self._polls = 0

    def make_world(self, armed: ArmedFaults, disk_of: Callable[[str], NodeDisk]) -> ProcessWorld:
        return ProcessWorld(self.clock, self.plan.shape.nodes, armed, disk_of)

    def prepare(self) -> bool:
        """Wait until the script has called `fit()`; record why, if it does not."""
        failed = self.zygote.await_fit()
        if failed is not None:
            self.journal.add(failed.as_event())
            self.journal.add(DriverExited(code=1))
            return False
        self._lanes.append(self.lane_of(self.zygote))
        return True

    def execute(self) -> str | None:
        """Carry out the plan, where all runs here see how much memory its processes take."""
        with self._memory.watching(self.descendants, lambda: self.world.driver):
            return super().execute()

    def start_driver(self) -> int:
        """Ask the lane for a driver; return its pid. After the first one, the script starts anew.

        A user who restarts a script restarts it at its first line, too: what the script
        draws there without a seed differs from the first time.
        """
        env = env_at_start(self.plan, self.seen())
        if self._lane and (failed := self._begin_again(env)) is not None:
            with contextlib.closing(driver_journal(self.directory.journals, self.clock)) as journal:
                journal.add(failed.as_event())
            return self._begun_again[-1].pid  # in place of a driver, which was never forked
        lane = self._lanes[-1]
        pid = lane.start(StartRun(self.address, env))
        self._lane[pid] = lane
        return pid

    def _begin_again(self, env: dict[str, str]) -> Failed | None:
        job = self.plan.job.model_copy(update={"env": env})
        plan = self.plan.model_copy(update={"job": job})
        limit_s = BESIDE_S if self._running else None
        zygote = ZygoteHandle(
            self.zygote.job,
            plan,
            self.directory,
            limit_s=limit_s,
            more=self.start_env,
            view=self.view,
        )
        self._begun_again.append(zygote)
        failed = zygote.await_fit()
        if failed is None:
            self._lanes.append(LaneHandle(zygote))
        return failed

    def pid_of(self, driver: int) -> int:
        return driver

    def exit_code(self, driver: int) -> int | None:
        if driver not in self._lane:
            return 1  # a script that was started again, and did not come to its fit()
        # Of the driver's own lane: a second driver's script has run anew, in a zygote with a lane
        # of its own.
        lane = self._lane[driver]
        code = lane.exit_code(driver)
        for worker in lane.killed():
            self._tell_foreign(f"a worker (pid {worker.pid})", worker.pid, worker.code)
        if code is not None and is_foreign(code):
            self._tell_foreign("the process that calls fit()", driver, code)
        return code

    def _tell_foreign(self, what: str, pid: int, code: int) -> None:
        """Record that a process was ended by a signal, unless a fault or this run sent it."""
        killed_here = {
            event.pid
            for event in self.seen()
            if isinstance(event, MemoryExhausted)
            or (isinstance(event, StorageFaulted) and event.effect == "killed")
        }
        if pid not in killed_here | self.world.signalled:
            self.journal.add(Disturbed(why=killed(what, code)))

    def end_driver(self, driver: int) -> int:
        """Kill the driver; its workers end with the run."""
        with contextlib.suppress(ProcessLookupError):  # it may have ended just now
            os.kill(driver, signal.SIGKILL)
        return -signal.SIGKILL

    def meanwhile(self) -> None:
        """If memory runs out, end the largest process of all runs, provided it is of this run."""
        self._polls += 1
        if self._polls % MEMORY_POLLS == 0 and self._memory.is_near():
            ranks = {event.pid: event.rank for event in self.workers()}
            self._memory.end_the_largest(ranks, self.journal)

    def stacks_of(self, driver: int) -> list[tuple[int, str]]:
        return [(driver, DRIVER_STACKS)]

    def descendants(self) -> list[psutil.Process]:
        """Return the processes below the lanes that still live, which adopt orphans."""
        return [process for lane in self._lanes for process in living(lane.pid)]

    @property
    def confines(self) -> Confines | None:
        return confines_of(self.plan)

    def storage_after(self, op: int) -> StorageSeen | None:
        return look_for(self.plan, self.directory)(op)

    def search_storage(self) -> tuple[str, ...]:
        watched = self.plan.watch.files
        return search_storage(self.journal, self.seen(), self.directory, is_watched=watched)

    def ends_after(self) -> list[Callable[[], object]]:
        """End what the run has started beside its backend's lane, which is the first."""
        return [*(z.end for z in self._begun_again), *(lane.end for lane in self._lanes[1:])]
