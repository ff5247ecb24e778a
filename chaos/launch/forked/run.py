"""One run on the embedded backend, from the harness's side."""

import contextlib
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from chaos.launch.forked.handles import LaneHandle, ZygoteHandle
from chaos.launch.forked.messages import ScriptFailed, StartRun
from chaos.launch.local_run import LocalRun
from chaos.launch.node_disk import NodeDisk, build_confines
from chaos.launch.process_world import ProcessWorld
from chaos.launch.raytrain.storage import build_storage_reader, search_storage
from chaos.model.event import (
    Disturbed,
    DriverExited,
    MemoryExhausted,
    StorageFaulted,
    StorageSeen,
)
from chaos.plan.driver_restart import build_driver_env
from chaos.probe.write_ledger import WriteLimits
from chaos.processes.memory_monitor import MemoryMonitor
from chaos.processes.tree import find_living_descendants
from chaos.run.armed_faults import ArmedFaults
from chaos.run.journal import open_driver_journal
from chaos.run.signals import DRIVER_STACKS, describe_kill, is_foreign

MEMORY_POLLS = 5  # of a hundredth of a second: the monitor of Ray 2.60 looks each 0.25 s
# For a second driver's script to come to its fit(): longer than the fault waits for it. Meanwhile
# the first driver is not looked at.
SECOND_SCRIPT_S = 65.0


@dataclass
class ForkedRun(LocalRun[int, ProcessWorld]):
    """One execution of one plan; a driver is represented by its pid.

    `get_lane` returns the run's lane.
    """

    zygote: ZygoteHandle
    get_lane: Callable[[ZygoteHandle], LaneHandle]

    def __post_init__(self) -> None:
        super().__post_init__()
        self._lanes: list[LaneHandle] = []
        self._lane_by_driver: dict[int, LaneHandle] = {}  # by the pid of its driver
        self._restarted_zygotes: list[ZygoteHandle] = []
        self._memory = MemoryMonitor()
        self._polls = 0

    def make_world(self, armed: ArmedFaults, build_disk: Callable[[str], NodeDisk]) -> ProcessWorld:
        return ProcessWorld(self.clock, self.plan.shape.nodes, armed, build_disk)

    def prepare(self) -> bool:
        """Wait until the script has called `fit()`; record why, if it does not."""
        failed = self.zygote.await_fit()
        if failed is not None:
            self.journal.add(failed.build_event())
            self.journal.add(DriverExited(code=1))
            return False
        self._lanes.append(self.get_lane(self.zygote))
        return True

    def execute(self) -> str | None:
        """Carry out the plan, where all runs here see how much memory its processes take."""
        with self._memory.watch_processes(self.descendants, lambda: self.world.driver_pid):
            return super().execute()

    def start_driver(self) -> int:
        """Ask the lane for a driver; return its pid. After the first one, the script starts anew.

        A user who restarts a script restarts it at its first line, too: what the script
        draws there without a seed differs from the first time.
        """
        env = build_driver_env(self.plan, self.fetch_events())
        if self._lane_by_driver and (failed := self._restart_script(env)) is not None:
            with contextlib.closing(
                open_driver_journal(self.directory.journals, self.clock)
            ) as journal:
                journal.add(failed.build_event())
            return self._restarted_zygotes[-1].pid  # in place of a driver, which was never forked
        lane = self._lanes[-1]
        pid = lane.start(StartRun(self.address, env))
        self._lane_by_driver[pid] = lane
        return pid

    def _restart_script(self, env: dict[str, str]) -> ScriptFailed | None:
        job = self.plan.job.replace(env=env)
        plan = self.plan.replace(job=job)
        limit_s = SECOND_SCRIPT_S if self._running else None
        zygote = ZygoteHandle(
            self.zygote.job,
            plan,
            self.directory,
            limit_s=limit_s,
            extra_env=self.start_env,
            view=self.view,
        )
        self._restarted_zygotes.append(zygote)
        failed = zygote.await_fit()
        if failed is None:
            self._lanes.append(LaneHandle(zygote))
        return failed

    def find_pid(self, driver: int) -> int:
        return driver

    def exit_code(self, driver: int) -> int | None:
        if driver not in self._lane_by_driver:
            return 1  # a script that was started again, and did not come to its fit()
        # Of the driver's own lane: a second driver's script has run anew, in a zygote with a lane
        # of its own.
        lane = self._lane_by_driver[driver]
        code = lane.exit_code(driver)
        for worker in lane.take_killed_workers():
            self._record_foreign_kill(f"a worker (pid {worker.pid})", worker.pid, worker.code)
        if code is not None and is_foreign(code):
            self._record_foreign_kill("the process that calls fit()", driver, code)
        return code

    def _record_foreign_kill(self, process: str, pid: int, code: int) -> None:
        """Record that a process was ended by a signal, unless a fault or this run sent it."""
        expected_pids = {
            event.pid
            for event in self.fetch_events()
            if isinstance(event, MemoryExhausted)
            or (isinstance(event, StorageFaulted) and event.effect == "killed")
        }
        if pid not in expected_pids | self.world.signalled:
            self.journal.add(Disturbed(why=describe_kill(process, code)))

    def end_driver(self, driver: int) -> int:
        """Kill the driver; its workers end with the run."""
        with contextlib.suppress(ProcessLookupError):  # it may have ended just now
            os.kill(driver, signal.SIGKILL)
        return -signal.SIGKILL

    def do_background_work(self) -> None:
        """If memory runs out, end the largest process of all runs, provided it is of this run."""
        self._polls += 1
        if self._polls % MEMORY_POLLS == 0 and self._memory.is_memory_low():
            ranks = {event.pid: event.rank for event in self.workers()}
            self._memory.kill_largest(ranks, self.journal)

    def list_stack_files(self, driver: int) -> list[tuple[int, str]]:
        return [(driver, DRIVER_STACKS)]

    def descendants(self) -> list[psutil.Process]:
        """Return the processes below the lanes that still live, which adopt orphans."""
        return [process for lane in self._lanes for process in find_living_descendants(lane.pid)]

    @property
    def confines(self) -> WriteLimits | None:
        return build_confines(self.plan)

    def capture_storage(self, op: int) -> StorageSeen | None:
        return build_storage_reader(self.plan, self.directory)(op)

    def search_storage(self) -> tuple[str, ...]:
        watched = self.plan.watch.files
        return search_storage(self.journal, self.fetch_events(), self.directory, is_watched=watched)

    def list_cleanups(self) -> list[Callable[[], object]]:
        """End what the run has started beside its backend's lane, which is the first."""
        return [
            *(zygote.end for zygote in self._restarted_zygotes),
            *(lane.end for lane in self._lanes[1:]),
        ]
