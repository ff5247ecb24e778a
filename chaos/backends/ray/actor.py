"""The chaos controller as an actor on the head node, and its `World`."""

import os
import signal
from pathlib import Path
from typing import Any

import ray

from chaos.backends.ray import compat
from chaos.backends.train.storage import look_for
from chaos.faults.order import Order
from chaos.faults.world import Victim
from chaos.model.event import Committed, FailureDecided
from chaos.run.armed import ArmedFaults
from chaos.run.clock import Clock, SystemClock, seconds_since
from chaos.run.controller import ChaosController
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal
from chaos.run.world import RunWorld

POLL_S = 0.05
CALL_S = 30.0


class RayWorld(RunWorld):
    """Does harm through node agents and Ray's own calls."""

    def __init__(self, address: str, agents: dict[str, Any], armed: ArmedFaults) -> None:
        super().__init__(SystemClock(), armed)
        self._address = address
        self._agents = agents
        self.handles: dict[tuple[int, int], Any] = {}
        self.capacity = Capacity(self._clock)
        self._frozen: dict[str, tuple[int, ...]] = {}

    def signal_worker(self, victim: Victim, signal_name: str) -> None:
        """Have the victim's node agent send a signal."""
        _call(self._agents[victim.node_id].send_signal.remote(victim.pid, signal_name))

    def end_worker_actor(self, victim: Victim) -> None:
        """Call `ray.kill` on the worker's actor handle."""
        if self.worker_is_gone(victim, within_s=0.0):
            raise ProcessLookupError(f"pid {victim.pid}")
        ray.kill(self.handles[victim.attempt, victim.rank], no_restart=True)

    def worker_is_gone(self, victim: Victim, *, within_s: float) -> bool:
        """Ask the agent of the victim's node, or the head's where that node is dead."""
        agent = self._agents[victim.node_id if self._is_alive(victim.node_id) else HEAD]
        return bool(_call(agent.is_gone.remote(victim.pid, within_s), more_s=within_s))

    def worker_is_stopped(self, victim: Victim, *, within_s: float) -> bool:
        """Ask the agent of the victim's node."""
        agent = self._agents[victim.node_id]
        return bool(_call(agent.is_stopped.remote(victim.pid, within_s), more_s=within_s))

    def give_notice(self, node_id: str, *, notice_s: float) -> int:
        """Drain the node for preemption, as a cloud's handler does on a spot notice."""
        deadline_ns = self._clock.now_ns() + int(notice_s * 1e9)
        unix_ms = (self._clock.wall_ns() + int(notice_s * 1e9)) // 1_000_000
        accepted, why = compat.drain_for_preemption(self._address, node_id, unix_ms)
        if not accepted:
            raise RuntimeError(f"the drain was refused: {why}")
        return deadline_ns

    def lose_node(self, node_id: str, *, raylet_only: bool = False) -> None:
        """Have the node's agent end the node and itself."""
        agent = self._agents[node_id]
        try:
            _call(agent.ready.remote())  # the GCS learns of a death later than its agent dies
        except ray.exceptions.RayError as error:
            raise ProcessLookupError(f"node {node_id[:8]} is dead already") from error
        (agent.lose_raylet if raylet_only else agent.lose_node).remote()

    def freeze_node(self, node_id: str, *, within_s: float) -> int | None:
        """Have the head's agent stop a raylet of this host and all below it."""
        raylet = _call(self._agents[node_id].ready.remote())
        self._frozen[node_id] = pids = _call(self._agents[HEAD].freeze.remote(raylet))
        stopped = _call(self._agents[HEAD].are_stopped.remote(pids, within_s), more_s=within_s)
        return len(pids) if stopped else None

    def thaw_node(self, node_id: str) -> None:
        """Have the head's agent continue what it stopped."""
        _call(self._agents[HEAD].thaw.remote(self._frozen.pop(node_id)))

    def idle_nodes(self) -> list[str]:
        """Give the nodes with an agent of ours that hold no worker and are not draining."""
        used = {victim.node_id for victim in self.group().values()} | compat.draining_nodes()
        alive = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
        return [node_id for node_id in alive if node_id in self._agents and node_id not in used]

    def add_nodes(self, count: int, *, within_s: float) -> list[str]:
        """Ask the harness for nodes: only its main thread may start them."""
        fresh = self.capacity.ask(count, within_s=within_s)
        self._agents.update(fresh)
        return [n for n in fresh if self._is_alive(n)]

    def end_driver(self) -> int:
        """Kill the driver, a process of the head's host."""
        if self.driver is None:
            raise ProcessLookupError("there is no driver")
        return self._end(self.driver)

    def end_controller(self) -> int:
        """Kill the process of Ray Train's controller actor, a process of this host."""
        pids = [pid for name, pid in compat.live_actors().values() if name == compat.CONTROLLER]
        if not pids:
            raise ProcessLookupError("there is no controller")
        return self._end(pids[0])

    def _end(self, pid: int) -> int:
        os.kill(pid, signal.SIGKILL)
        if not _call(self._agents[HEAD].is_gone.remote(pid, CALL_S), more_s=CALL_S):
            raise RuntimeError(f"pid {pid} still runs after {CALL_S:g} s")
        return pid

    def node_is_dead(self, node_id: str, *, within_s: float) -> bool:
        """Ask the GCS until it counts the node as dead."""
        start = self._clock.now_ns()
        while self._is_alive(node_id):
            if seconds_since(start, self._clock) > within_s:
                return False
            self._clock.sleep(POLL_S)
        return True

    def _is_alive(self, node_id: str) -> bool:
        return any(node["NodeID"] == node_id and node["Alive"] for node in ray.nodes())


HEAD = "head"


class Capacity:
    """Nodes that a fault has asked for, and those that the harness has started for it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wanted = 0
        self._came: dict[str, Any] = {}

    def ask(self, count: int, *, within_s: float) -> dict[str, Any]:
        """Wait for `count` new nodes; gives their agents, fewer where time runs out."""
        start = self._clock.now_ns()
        self._wanted += count
        while len(self._came) < count and seconds_since(start, self._clock) < within_s:
            self._clock.sleep(POLL_S)
        came, self._came = self._came, {}
        return came

    def take_order(self) -> int:
        """Give how many nodes are to be started, once."""
        wanted, self._wanted = self._wanted, 0
        return wanted

    def deliver(self, agents: dict[str, Any]) -> None:
        """Take the agents of nodes that have joined."""
        self._came = {**self._came, **agents}


@ray.remote(num_cpus=0, max_restarts=0)
class ChaosActor:
    """Gives the observer and the workers a way to the `ChaosController`."""

    def __init__(self, directory: str, address: str, agents: dict[str, Any]) -> None:
        run = RunDirectory(Path(directory))
        journal = Journal(run.journals, "chaos", role="chaos", clock=SystemClock())
        self._world = RayWorld(address, agents, ArmedFaults(run.storage_faults))
        plan = run.load_plan()
        self._controller = ChaosController(plan, self._world, journal, look=look_for(plan, run))

    def ready(self) -> None:
        """Return once the actor is up."""

    def driver_started(self, pid: int) -> None:
        """Learn which process runs the user's script."""
        self._world.driver = pid

    def nodes_wanted(self) -> int:
        """Give how many nodes the harness is to start, once."""
        return self._world.capacity.take_order()

    def nodes_joined(self, agents: dict[str, Any]) -> None:
        """Take the agents of the nodes that were started."""
        self._world.capacity.deliver(agents)

    def group_started(self, group: dict[int, tuple[Victim, Any]]) -> None:
        """Learn who holds each rank, and by which handle."""
        for rank, (victim, handle) in group.items():
            self._world.handles[victim.attempt, rank] = handle
        workers = {rank: victim for rank, (victim, _) in group.items()}
        self._world.learn_group(workers)
        self._controller.group_started(workers)

    def committed(self, event: Committed) -> None:
        """Learn of a commit."""
        self._controller.committed(event)

    def may_poll(self) -> None:
        """Return when Ray's controller may poll its workers again."""
        self._controller.may_poll()

    def await_hold(self, op: int) -> bool:
        """Return once Ray's controller is held for an op."""
        return self._controller.await_hold(op)

    def enter_state(self, op: int) -> None:
        """Return when Ray's controller, in the state that an op waits for, may go on."""
        self._controller.enter_state(op)

    def arrive(self, op: int, victim: Victim) -> Order | None:
        """Return when the worker at an op's place may go on, with what it is to do to itself."""
        return self._controller.arrive(op, victim)

    def obeyed(self, token: str) -> None:
        """Learn that a worker does as it was told."""
        self._world.obeyed(token)

    def failure_decided(self, event: FailureDecided) -> None:
        """Learn what Ray has decided to do about a failure."""
        self._world.failure_decided(event)

    def finish(self, within_s: float) -> None:
        """Open all gates; wait for strikes that are under way."""
        self._world.end()
        self._controller.finish(within_s=within_s)


def _call(reference: Any, *, more_s: float = 0.0) -> Any:  # noqa: ANN401 - whatever the agent gives
    return ray.get(reference, timeout=CALL_S + more_s)
