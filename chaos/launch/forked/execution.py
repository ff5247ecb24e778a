"""One run on the embedded backend, from the harness's side."""

import contextlib
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace

import psutil

from chaos.launch.files_outside import settle
from chaos.launch.forked.lane_handle import LaneHandle
from chaos.launch.forked.messages import Failed, StartRun
from chaos.launch.forked.zygote_handle import ZygoteHandle
from chaos.launch.frame import RunWatch
from chaos.launch.gate_server import GateServer
from chaos.launch.node_disk import NodeDisk, confines_of, make_room, remove_disks
from chaos.launch.process_world import ForkWorld
from chaos.launch.raytrain.storage import look_for, search_storage
from chaos.launch.world import metadata_of
from chaos.model.event import (
    Disturbed,
    DriverExited,
    Leftover,
    LeftoversSearched,
    MemoryExhausted,
    ScriptRaised,
    StorageFaulted,
)
from chaos.plan.again import env_at_start
from chaos.probe.address import RunAddress
from chaos.processes.exhaustion import Exhaustion
from chaos.processes.tree import kill
from chaos.run.armed import ArmedFaults
from chaos.run.clock import seconds_since
from chaos.run.controller import ChaosController
from chaos.run.journal import Journal, Trained, driver_journal
from chaos.run.signals import DRIVER_STACKS, STACK_SIGNAL, is_foreign, killed, rank_stacks

MEMORY_POLLS = 5  # of a hundredth of a second: the monitor of Ray 2.60 looks each 0.25 s
POLL_S = 0.01
END_S = 5.0
STACKS_S = 0.5
# For a second driver's script to come to its fit(): longer than the fault waits for it. Meanwhile
# the first driver is not looked at.
BESIDE_S = 65.0


@dataclass
class Run(RunWatch[int]):
    """One execution of one plan; a driver is represented by its pid.

    `lane_of` returns the run's lane. `again_after` is the reason if this is the second try.
    """

    zygote: ZygoteHandle
    lane_of: Callable[[ZygoteHandle], LaneHandle]
    again_after: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        token = os.urandom(4).hex()
        self.address = RunAddress(self.directory.path, token, f"unix:chaos-gates-{token}")
        make_room(self.address)
        armed = ArmedFaults(self.directory.storage_faults)
        self.world = ForkWorld(
            self.clock, self.plan.shape.nodes, armed, lambda node: NodeDisk(self.address, node)
        )
        self._lanes: list[LaneHandle] = []
        self._lane: dict[int, LaneHandle] = {}  # by the pid of its driver
        self._begun_again: list[ZygoteHandle] = []
        self._memory = Exhaustion()
        self._polls = 0

    def execute(self) -> None:
        """Fork a driver, watch it, clean up; the outcome is in the journals."""
        with (
            self._memory.watching(self.descendants, lambda: self.world.driver),
            metadata_of(self.plan, self.world, self.directory) as variables,
        ):
            self.address = replace(self.address, metadata=variables)
            self._execute()

    def _execute(self) -> None:
        self.begin(again_after=self.again_after)
        failed = self._await_fit()
        if failed is not None:
            self.journal.add(ScriptRaised(error=failed.error, message=failed.message))
            self.journal.add(DriverExited(code=1))
            self._end(interrupted=False)
            return
        look = look_for(self.plan, self.directory)
        chaos = Journal(self.directory.journals, "chaos", role="chaos", clock=self.clock)
        has_trained = self.world.has_trained = Trained(self.directory.journals)
        controller = ChaosController(
            self.plan, self.world, chaos, look=look, has_trained=has_trained
        )
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
            failed = self.zygote.await_fit()
            if failed is None:
                self._lanes.append(self.lane_of(self.zygote))
        except BaseException:
            self._end(interrupted=True)
            raise
        return failed

    def start_driver(self) -> int:
        """Ask the lane for a driver; return its pid. After the first one, the script starts anew.

        A user who restarts a script restarts it at its first line, too: what the script
        draws there without a seed differs from the first time.
        """
        env = env_at_start(self.plan, self.seen())
        if self._lane and (failed := self._begin_again(env)) is not None:
            with contextlib.closing(driver_journal(self.directory.journals, self.clock)) as journal:
                journal.add(ScriptRaised(error=failed.error, message=failed.message))
            return self._begun_again[-1].pid  # in place of a driver, which was never forked
        lane = self._lanes[-1]
        pid = lane.start(StartRun(self.address, env))
        self._lane[pid] = lane
        return pid

    def _begin_again(self, env: dict[str, str]) -> Failed | None:
        job = self.plan.job.model_copy(update={"env": env})
        plan = self.plan.model_copy(update={"job": job})
        limit_s = BESIDE_S if self._running else None
        zygote = ZygoteHandle(self.zygote.job, plan, self.directory, limit_s=limit_s)
        self._begun_again.append(zygote)
        failed = zygote.await_fit()
        if failed is None:
            self._lanes.append(LaneHandle(zygote))
        return failed

    def driver_started(self, driver: int) -> None:
        """Add to the world's drivers, the targets of faults that kill them."""
        self.world.driver_started(driver)

    def driver_ended(self, driver: int) -> None:
        """Note the end for a fault that waits for it."""
        self.world.driver_ended(driver)

    def driver_wanted(self) -> bool:
        """Return whether a fault asks for a second driver."""
        return self.world.driver_wanted()

    def exit_code(self, driver: int) -> int | None:
        """Wait a moment for the driver's end; return its exit code, None while it runs."""
        if driver not in self._lane:
            return 1  # a script that was started again, and did not come to its fit()
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

    def take_stacks(self, driver: int) -> None:
        """Signal all ranks and the driver to write their stacks: faulthandler does, even in C++."""
        ranks = [(e.pid, e.rank, rank_stacks(e.rank, e.pid)) for e in self.workers()]
        asked: list[tuple[int, int | None, str]] = [(driver, None, DRIVER_STACKS), *ranks]
        for pid, rank, name in asked:
            if (self.directory.logs / name).exists() and psutil.pid_exists(pid):
                os.kill(pid, STACK_SIGNAL)
                self.stack_taken(pid, rank)
        self.clock.sleep(STACKS_S)

    def descendants(self) -> list[psutil.Process]:
        """Return the processes that are left of the run, below the lanes that still live."""
        return [process for lane in self._lanes for process in lane.descendants()]

    def _end(self, *, interrupted: bool) -> None:
        # The body comes first, then the callbacks from the last to the first; each step is taken,
        # even if one before it raises.
        with contextlib.ExitStack() as closing:
            closing.callback(self.end, interrupted=interrupted)
            for zygote in self._begun_again:
                closing.callback(zygote.end)
            closing.callback(remove_disks, self.address)
            for lane in self._lanes[1:]:  # the first one is its backend's
                closing.callback(lane.end)
            self._search_leftovers()
            confines = confines_of(self.plan)
            if confines is not None:  # no process of the run is left that could write
                settle(self.address, confines, self.journal)

    def _search_leftovers(self) -> None:
        """Wait a little for the run's processes to end, record those that do not, end them."""
        start = self.clock.now_ns()
        while (left := self.descendants()) and seconds_since(start, self.clock) < END_S:
            self.clock.sleep(POLL_S)
        for process in left:
            with contextlib.suppress(psutil.Error):  # it may end with another of its group
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
