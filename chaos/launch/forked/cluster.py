"""The driver's side of the embedded backend: its workers, its objects and Ray's controller."""

import asyncio
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any

from ray.exceptions import OutOfMemoryError, RayError

from chaos.launch.forked import core
from chaos.launch.forked.messages import StartWorker, WorkerEnding, WorkerStuck
from chaos.launch.node_disk import NodeDisk
from chaos.model.event import Disturbed
from chaos.model.plan import Plan
from chaos.probe.address import ControllerPort
from chaos.processes.wire import Wire
from chaos.run.clock import SystemClock, elapsed_seconds
from chaos.run.signals import START_STACKS

# For a lane to fork a worker, which takes milliseconds where the machine is not stuck.
FORK_S = 30.0
STUCK = f"a worker did not come to its first line, twice; logs/{START_STACKS} says where it stood"
POLL_S = 0.02


class ForkCluster:
    """The emulated cluster of one run, in the run's driver."""

    def __init__(
        self,
        lane: Wire,
        port: ControllerPort,
        build_disk: Callable[[str], NodeDisk],
        *,
        plan: Plan,
        log: str,
        record_failure: Callable[[Disturbed], object],
    ) -> None:
        self._lane = lane
        self.port = port
        self._build_disk = build_disk
        self._nodes = [f"node-{number}" for number in range(plan.shape.nodes)]
        self._cpus_per_node = plan.shape.cpus_per_node
        self._holds_any = plan.follows_script
        self._log = log
        self._record_failure = record_failure
        self._clock = SystemClock()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True, name="objects").start()

    def start_worker(self, node_id: str, env: dict[str, str]) -> core.ProcessActor:
        """Start a worker, a fork of the lane, and return it once it runs.

        Starts another if it does not come to its first line: Ray, too, retries a start.
        """
        spawn = StartWorker(self._build_disk(node_id), env, self._log, core.Context.session)
        started = self._fork_worker(spawn) or self._fork_worker(spawn)
        if started is None:  # no defect of the job: no check judges a disturbed run
            self._record_failure(Disturbed(why=STUCK))
            raise core.WorkerDiedError(is_preempted=False)
        pid, wire = started
        self.port.placed(pid, node_id)
        return core.ProcessActor(
            pid, wire, lambda: self._build_death_error(pid, node_id), lambda: self._end(pid)
        )

    def _fork_worker(self, spawn: StartWorker) -> tuple[int, Wire] | None:
        # The lane forks, not this process: Ray's controller has threads here, and a lock that
        # one of them holds at a fork stays locked in the child for ever.
        driver_end, worker_end = socket.socketpair()
        with worker_end:
            self._lane.send(spawn, passed_socket=worker_end)
        wire = Wire(driver_end, core.dumps)
        driver_end.settimeout(FORK_S)
        try:
            pid = wire.receive()
        except (EOFError, TimeoutError) as error:
            if isinstance(error, TimeoutError):
                self._lane.send(WorkerStuck())
            wire.close()
            return None
        driver_end.settimeout(None)
        return pid, wire

    def _end(self, pid: int) -> None:
        """Kill a worker; announce it to the lane, which would report a foreign signal otherwise."""
        with contextlib.suppress(OSError):  # the worker has ended, or the lane and so the worker
            self._lane.send(WorkerEnding(pid))
            os.kill(pid, signal.SIGKILL)

    def _build_death_error(self, pid: int, node_id: str) -> RayError:
        if pid in self.port.exhausted():
            return OutOfMemoryError("Task was killed due to the node running low on memory.")
        return core.WorkerDiedError(is_preempted=node_id in self.port.preempted())

    def start_object(self, instance: Any) -> core.ObjectActor:
        return core.ObjectActor(instance, self._loop)

    def await_slots(self, count: int, *, within_s: float) -> list[str]:
        """Return the nodes of `count` workers, all of them alive; fewer when time runs out.

        A node holds any number of workers while only the script states their number.
        """
        start = self._clock.now_ns()
        while True:
            nodes = self._live_nodes()
            workers_per_node = self._cpus_per_node
            if self._holds_any and nodes:
                workers_per_node = max(workers_per_node, -(-count // len(nodes)))
            node_slots = [node for node in nodes for _ in range(workers_per_node)][:count]
            if len(node_slots) == count or elapsed_seconds(start, self._clock) > within_s:
                return node_slots
            self._clock.sleep(POLL_S)

    def find_capacity(self) -> dict[str, dict[str, float]]:
        """Return what each node that is alive can hold, as Ray's autoscaling coordinator would."""
        return {node: {"CPU": float(self._cpus_per_node)} for node in self._live_nodes()}

    def _live_nodes(self) -> list[str]:
        nodes = self.port.live_nodes()
        return self._nodes if nodes is None else nodes

    def run_controller(self, controller_class: Any, arguments: dict[str, Any]) -> Any:
        """Run Ray's controller to its end, in this thread; return the run's `Result`."""

        async def run() -> Any:
            controller = controller_class(**arguments)
            loop = asyncio.get_running_loop()
            core.Context.current_actor = core.ObjectActor(controller, loop)
            await controller.run()
            return controller.get_result()

        result = asyncio.run(run())
        if result.error:
            raise result.error
        return result
