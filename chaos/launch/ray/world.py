"""Faults on a local Ray cluster: by node agents, and by Ray's own calls."""

import contextlib
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from queue import Empty, Queue
from typing import Any, Literal, TypeAlias

import ray

from chaos.faults.world import RefusedError, Target
from chaos.launch.ray import compat
from chaos.launch.world import RunWorld
from chaos.model.places import AttemptRank
from chaos.run.armed import ArmedFaults
from chaos.run.clock import SystemClock

GcsErrand: TypeAlias = Literal["end", "start"]


@dataclass
class NodeOrder:
    """Nodes that one fault has asked for; `is_taken` once the harness has begun to start them."""

    count: int
    is_taken: bool = False
    came: Queue[dict[str, Any]] = field(default_factory=Queue)  # agents, once they have joined


class Capacity:
    """Orders for nodes, which the harness fills one after another, each with nodes of its own."""

    def __init__(self) -> None:
        self._waiting: Queue[NodeOrder] = Queue()
        self._in_hand: NodeOrder | None = None

    def order(self, count: int) -> NodeOrder:
        asked = NodeOrder(count)
        self._waiting.put(asked)
        return asked

    def take_order(self) -> int:
        """Return the number of nodes of the next order, 0 if there is none."""
        try:
            self._in_hand = self._waiting.get_nowait()
        except Empty:
            return 0
        self._in_hand.is_taken = True
        return self._in_hand.count

    def deliver(self, agents: dict[str, Any]) -> None:
        """Fill the order that was taken last."""
        if self._in_hand is not None:
            self._in_hand.came.put(agents)


class Gcs:
    """The end and the new start of the GCS, which only the process that started the head can do."""

    def __init__(self) -> None:
        self._errand: GcsErrand | None = None
        self._pids: Queue[int] = Queue()

    def ask(self, errand: GcsErrand, *, within_s: float) -> int | None:
        """Wait until it is done; return the pid that ended or began, None if time runs out."""
        self._errand = errand
        try:
            return self._pids.get(timeout=within_s)
        except Empty:
            return None

    def take_errand(self) -> GcsErrand | None:
        errand, self._errand = self._errand, None
        return errand

    def done(self, pid: int) -> None:
        self._pids.put(pid)


CALL_S = 30.0
JOIN_S = 30.0
HEAD = "head"


class RayWorld(RunWorld):
    """The nodes and workers of a local cluster; agents and Ray's own calls inject the faults."""

    def __init__(self, address: str, agents: dict[str, Any], armed: ArmedFaults) -> None:
        super().__init__(SystemClock(), armed, poll_s=0.05)
        self._address = address
        self._agents = agents
        self.handles: dict[AttemptRank, Any] = {}
        self.capacity, self.gcs = Capacity(), Gcs()
        self.struck: set[str] = set()
        self._frozen: dict[str, tuple[int, ...]] = {}
        self._first: dict[str, int] = {}  # the pid of `ray start`, of nodes that were terminated

    def signal_worker(self, target: Target, signal_name: str) -> None:
        call(self._agents[target.node_id].send_signal.remote(target.pid, signal_name))

    def end_worker_actor(self, target: Target) -> None:
        if self.worker_is_gone(target, within_s=0.0):
            raise ProcessLookupError(f"pid {target.pid}")
        ray.kill(self.handles[AttemptRank(target.attempt, target.rank)], no_restart=True)

    def blame_memory(self, target: Target) -> None:
        raise RefusedError(
            f"a raylet ends workers by the machine's memory, and not pid {target.pid} by its own"
        )

    def worker_is_gone(self, target: Target, *, within_s: float) -> bool:
        """Return the answer of the target's node agent, or the head's if that node is dead."""
        # All nodes of a local cluster are processes of one host, so the head's agent sees the pid
        # when the node's own has gone with it.
        agent = self._agents[target.node_id if self._is_alive(target.node_id) else HEAD]
        return bool(call(agent.is_gone.remote(target.pid, within_s), more_s=within_s))

    def processes_below(self, target: Target, *, name: str | None = None) -> list[int]:
        agent = self._agents[target.node_id]
        return [int(pid) for pid in call(agent.processes_below.remote(target.pid, name))]

    def worker_is_stopped(self, target: Target, *, within_s: float) -> bool:
        agent = self._agents[target.node_id]
        return bool(call(agent.is_stopped.remote(target.pid, within_s), more_s=within_s))

    def give_notice(self, node_id: str, *, notice_s: float) -> int:
        """Drain the node for preemption, as a cloud's handler does on a spot notice."""
        self.struck.add(node_id)
        deadline_ns = self._clock.now_ns() + int(notice_s * 1e9)
        unix_ms = (self._clock.wall_ns() + int(notice_s * 1e9)) // 1_000_000
        accepted, why = compat.drain_for_preemption(self._address, node_id, unix_ms)
        if not accepted:
            raise RuntimeError(f"the drain was refused: {why}")
        return deadline_ns

    def lose_node(
        self, node_id: str, *, raylet_only: bool = False, unsynced: bool = False
    ) -> Sequence[str]:
        """End the node, and its agent, through the agent."""
        assert not unsynced, "a plan for nodes with disks of their own"  # see `Plan.needs_backend`
        # Noted before the harm: the harness looks at the cluster's processes all the time, and
        # would take the end of this one for a disturbance from outside.
        agent = self._agent_on(node_id)
        self.struck.add(node_id)
        try:
            call(agent.ready.remote())  # the GCS detects the death some time after the agent's end
        except ray.exceptions.RayError as error:
            raise ProcessLookupError(f"node {node_id[:8]} is dead already") from error
        agent.lose_node.remote(raylet_only=raylet_only)
        return ()

    def terminate_node(self, node_id: str, *, drains_s: float) -> int:
        """Send SIGTERM to the node's `ray start`, and wait until the GCS knows of its drain."""
        self.struck.add(node_id)
        if node_id not in self._first:
            raylet = call(self._agents[node_id].ready.remote())
            self._first[node_id] = call(self._agents[HEAD].first_process.remote(raylet))
        sent_ns = self._clock.now_ns()
        os.kill(self._first[node_id], signal.SIGTERM)
        if drains_s and not self._until(lambda: node_id in compat.draining_nodes(), CALL_S):
            raise RuntimeError(f"node {node_id[:8]} was sent SIGTERM, and announces no drain")
        return sent_ns

    def end_node(self, node_id: str) -> None:
        """End the node's `ray start` and all below it, through the head's agent."""
        call(self._agents[HEAD].end_tree.remote(self._first[node_id]))

    def freeze_node(self, node_id: str, *, within_s: float) -> int | None:
        """Stop a raylet of this host and all below it, through the head's agent."""
        self.struck.add(node_id)
        raylet = call(self._agents[node_id].ready.remote())
        self._frozen[node_id] = pids = call(self._agents[HEAD].freeze.remote(raylet))
        stopped = call(self._agents[HEAD].are_stopped.remote(pids, within_s), more_s=within_s)
        return len(pids) if stopped else None

    def thaw_node(self, node_id: str) -> None:
        call(self._agents[HEAD].thaw.remote(self._frozen.pop(node_id)))

    def joined_nodes(self) -> list[str]:
        """Return every node that has or had an agent, oldest first."""
        return [node_id for node_id in self._agents if node_id != HEAD]

    def idle_nodes(self) -> list[str]:
        """Return the nodes with an agent that hold no worker and are not draining."""
        used = {target.node_id for target in self.group().values()} | {*compat.draining_nodes()}
        alive = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
        return [node_id for node_id in alive if node_id in self._agents and node_id not in used]

    def add_nodes(self, count: int, *, within_s: float) -> list[str]:
        """Ask the harness for nodes: only its main thread may start them."""
        order = self.capacity.order(count)
        self._await(lambda: order.is_taken)  # others may be filled before it
        with contextlib.suppress(Empty):
            return [n for n in order.came.get(timeout=within_s) if self._is_alive(n)]
        return []

    def nodes_joined(self, agents: dict[str, Any]) -> None:
        """Add the nodes that the harness has started for the order that it took."""
        self._agents.update(agents)
        self.capacity.deliver(agents)

    def end_driver(self) -> int:
        if self.driver is None:
            raise ProcessLookupError("there is no driver")
        return self._end(self.driver)

    def end_controller(self) -> int:
        pids = _controllers()
        if not pids:
            raise ProcessLookupError("there is no controller")
        return self._end(pids[0])

    def _of_driver(self) -> list[int]:
        return [*super()._of_driver(), *_controllers()]

    def end_gcs(self) -> int:
        pid = self.gcs.ask("end", within_s=CALL_S)
        if pid is None:
            raise RuntimeError(f"the GCS was not ended within {CALL_S:g} s")
        return pid

    def start_gcs(self, *, within_s: float) -> int | None:
        return self.gcs.ask("start", within_s=within_s)

    def _end(self, pid: int) -> int:
        os.kill(pid, signal.SIGKILL)
        if not call(self._agents[HEAD].is_gone.remote(pid, CALL_S), more_s=CALL_S):
            raise RuntimeError(f"pid {pid} still runs after {CALL_S:g} s")
        return pid

    def node_is_dead(self, node_id: str, *, within_s: float) -> bool:
        return self._until(lambda: not self._is_alive(node_id), within_s)

    def _agent_on(self, node_id: str) -> Any:  # an actor handle
        """Return a node's agent; one that has just joined may be used before its agent is known."""
        if not self._await(lambda: node_id in self._agents, JOIN_S):
            raise RefusedError(f"node {node_id[:8]} has joined, and no agent of chaos is there yet")
        return self._agents[node_id]

    def _is_alive(self, node_id: str) -> bool:
        return any(node["NodeID"] == node_id and node["Alive"] for node in ray.nodes())


def call(reference: Any, *, more_s: float = 0.0) -> Any:  # whatever the agent gives
    """Return an agent's answer; wait no longer than `CALL_S` and the time of its work."""
    return ray.get(reference, timeout=CALL_S + more_s)


def _controllers() -> list[int]:
    """Return the pids of Ray Train's controllers, processes of this host."""
    return [pid for name, pid in compat.live_actors().values() if name == compat.CONTROLLER]
