"""A fork of the zygote, at the script's `fit()`, for one run at a time (`root` has a drawing).

It has one thread and does nothing but fork: a driver for each run that the
harness asks for, a worker for each that a driver asks for. It adopts the
processes that they leave behind, so that each belongs to one lane.

Ray puts each worker into a process group of its own. Once the worker has ended,
for whatever reason, Ray sends the group SIGTERM and 200 ms later SIGKILL (Ray
2.60, RAY_process_group_cleanup_enabled, on since 2.57; ray-project/ray#64407).
So a DataLoader's workers end, which otherwise look for their parent every 5 s.
A process that makes a session of its own leaves the group. So it is here.
"""

import contextlib
import os
import selectors
import signal
import socket
import sys
from pathlib import Path

from chaos.launch.child import watch_children
from chaos.launch.forked import compat, core
from chaos.launch.forked.cluster import ForkCluster
from chaos.launch.forked.messages import (
    StartRun,
    StartWorker,
    WorkerEnding,
    WorkerKilled,
    WorkerStuck,
)
from chaos.launch.forked.worker import live_as_worker
from chaos.launch.node_disk import HEAD, NodeDisk, build_confines
from chaos.launch.raytrain.fit import RunPart
from chaos.model.paths import SESSION
from chaos.model.tiers import Tiers
from chaos.processes.child import die_with_parent, reap_children, redirect_streams
from chaos.processes.forks import ChildExited, ChildStarted
from chaos.processes.wire import Wire
from chaos.run.clock import Clock, SystemClock, elapsed_seconds
from chaos.run.directory import RunDirectory
from chaos.run.journal import open_driver_journal
from chaos.run.signals import (
    DRIVER_STACKS,
    STACK_SIGNAL,
    START_STACKS,
    answer_with_stacks,
    is_foreign,
)

GRACE_S = 0.2  # from SIGTERM to SIGKILL, of a worker's group
POLL_S = 0.01


class Lane:
    """The loop of a lane's process, which forks on request until the harness is gone."""

    def __init__(self, harness: Wire) -> None:
        self._harness = harness
        self._drivers: dict[int, Wire] = {}
        self._workers = ProcessGroups(SystemClock())
        self._announced_kills: set[int] = set()
        self._newest = 0
        self._selector = selectors.DefaultSelector()
        self._selector.register(harness.end, selectors.EVENT_READ, harness)

    def serve(self) -> RunPart:
        """Serve for ever; return only in a driver, with the run that it is to execute."""
        while True:
            if (part := self._handle_requests(POLL_S)) is not None:
                return part
            exits = list(reap_children())
            # A driver announces whom it kills before it does: messages are read before deaths.
            if exits and (part := self._handle_requests(0)) is not None:
                return part
            for pid, code in exits:
                self._handle_exit(pid, code)
            self._workers.kill_overdue()

    def _handle_requests(self, within_s: float) -> RunPart | None:
        """Carry out the requests that have come; return a run's part in its driver alone."""
        while keys := self._selector.select(within_s):
            within_s = 0
            for key, _ in keys:
                wire: Wire = key.data
                try:
                    request, end = wire.receive_with_socket()
                except EOFError:
                    self._drop_connection(wire)
                    continue
                if isinstance(request, WorkerEnding):
                    self._announced_kills.add(request.pid)
                elif isinstance(request, StartWorker):
                    assert end is not None
                    self._fork_worker(request, end)
                elif isinstance(request, WorkerStuck):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(self._newest, STACK_SIGNAL)
                elif (part := self._fork_driver(request)) is not None:
                    return part
        return None

    def _fork_driver(self, request: StartRun) -> RunPart | None:
        # A worker inherits this handler: it writes its stacks even if it hangs before its
        # own first line.
        answer_with_stacks(RunDirectory(request.address.directory).logs / START_STACKS)
        lane_end, driver_end = socket.socketpair()
        lane = os.getpid()
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            lane_end.close()
            self._close_inherited()
            die_with_parent(lane)
            return _begin_run(request, Wire(driver_end))
        driver_end.close()
        self._drivers[pid] = Wire(lane_end)
        self._selector.register(lane_end, selectors.EVENT_READ, self._drivers[pid])
        self._harness.send(ChildStarted(pid))
        return None

    def _fork_worker(self, spawn: StartWorker, end: socket.socket) -> None:
        # A child of the lane, not of its driver (see `ForkCluster`): it continues from the script
        # as it stood at `fit()`, and the lane learns its exit code.
        lane, pid = os.getpid(), os.fork()
        if pid != 0:
            end.close()  # an open copy would hide the worker's end from its driver
            self._workers.add(pid)
            self._newest = pid
            return
        self._close_inherited()
        try:
            # A group of its own, led by the worker: what the job starts in it (a DataLoader's
            # processes) ends with it, as on Ray 2.60.
            os.setpgid(0, 0)
            die_with_parent(lane)
            redirect_streams(Path(spawn.log))
            watch_children(spawn.disk.use())
            core.Context.node_id = spawn.disk.node_id
            core.Context.session = spawn.session
            live_as_worker(spawn, end, compat.worker_class()())
        finally:
            # Never back into the lane's own loop, whatever was raised: there would be two lanes.
            os._exit(1)

    def _close_inherited(self) -> None:
        """Close, in a child, the lane's ends of connections: an open copy would hide an EOF."""
        self._selector.close()
        for wire in [self._harness, *self._drivers.values()]:
            wire.close()

    def _drop_connection(self, wire: Wire) -> None:
        self._selector.unregister(wire.end)
        if wire is self._harness:
            os._exit(0)

    def _handle_exit(self, pid: int, code: int) -> None:
        # After the driver's end the harness kills workers that are left: that is no disturbance.
        is_announced = pid in self._announced_kills
        self._announced_kills.discard(pid)
        if self._workers.end_group(pid) and is_foreign(code) and not is_announced and self._drivers:
            self._harness.send(WorkerKilled(pid, code))
        if pid in self._drivers:
            wire = self._drivers.pop(pid)
            if wire.end in {key.fileobj for key in self._selector.get_map().values()}:
                self._selector.unregister(wire.end)
            wire.close()
            self._harness.send(ChildExited(pid, code))


def _begin_run(request: StartRun, lane: Wire) -> RunPart:
    """Become the driver of a run, in a process that was forked for it."""
    directory = RunDirectory(request.address.directory)
    log = directory.logs / "driver.log"
    os.environ.update(request.address.build_variables())
    os.environ.update(request.env)
    redirect_streams(log)
    plan = directory.load_plan()
    confines = build_confines(plan)
    tiers = Tiers.from_plan(plan, normalize=os.path.realpath)
    NodeDisk(request.address, HEAD, confines, tiers).use()
    answer_with_stacks(directory.logs / DRIVER_STACKS)
    journal = open_driver_journal(directory.journals, SystemClock())
    core.Context.session = str(directory.storage / SESSION)
    cluster = ForkCluster(
        lane,
        request.address.connect(),
        lambda node_id: NodeDisk(request.address, node_id, confines, tiers),
        plan=plan,
        log=str(log),
        record_failure=journal.add,
    )
    compat.use_cluster(cluster)
    compat.run_controllers_locally(cluster.run_controller)
    return RunPart(plan, directory, journal)


class ProcessGroups:
    """The groups of one parent's children, each named by its leader's pid."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._leaders: set[int] = set()
        self._terminated_ns: dict[int, int] = {}

    def add(self, pid: int) -> None:
        self._leaders.add(pid)

    def end_group(self, pid: int) -> bool:
        """Return whether an ended child was a leader; if so, send the rest of its group SIGTERM."""
        if pid not in self._leaders:
            return False
        self._leaders.remove(pid)
        if _signal(pid, signal.SIGTERM):
            self._terminated_ns[pid] = self._clock.now_ns()
        return True

    def kill_overdue(self) -> None:
        """Kill the groups whose SIGTERM was sent `GRACE_S` ago."""
        for pid, since_ns in list(self._terminated_ns.items()):
            if elapsed_seconds(since_ns, self._clock) >= GRACE_S:
                del self._terminated_ns[pid]
                _signal(pid, signal.SIGKILL)


def _signal(group: int, number: int) -> bool:
    """Signal a group; return whether a process was left in it."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True
