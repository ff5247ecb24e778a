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
from chaos.model.event import JournalCut, Leftover
from chaos.model.places import AttemptRank
from chaos.run.armed_faults import ArmedFaults
from chaos.run.clock import SystemClock
from chaos.run.signals import STACKS

GcsAction: TypeAlias = Literal["end", "start"]


@dataclass
class NodeOrder:
    """Nodes that one fault has asked for; `is_taken` once the harness has begun to start them."""

    count: int
    is_taken: bool = False
    deliveries: Queue[dict[str, Any]] = field(
        default_factory=Queue
    )  # agents, once they have joined


class NodeOrderQueue:
    """Orders for nodes, which the harness fills one after another, each with nodes of its own."""

    def __init__(self) -> None:
        self._waiting: Queue[NodeOrder] = Queue()
        self._current: NodeOrder | None = None

    def order(self, count: int) -> NodeOrder:
        node_order = NodeOrder(count)
        self._waiting.put(node_order)
        return node_order

    def take_order(self) -> int:
        """Return the number of nodes of the next order, 0 if there is none."""
        try:
            self._current = self._waiting.get_nowait()
        except Empty:
            return 0
        self._current.is_taken = True
        return self._current.count

    def deliver(self, agents: dict[str, Any]) -> None:
        """Fill the order that was taken last."""
        if self._current is not None:
            self._current.deliveries.put(agents)


class GcsRequests:
    """The end and the new start of the GCS, which only the process that started the head can do."""

    def __init__(self) -> None:
        self._errand: GcsAction | None = None
        self._pids: Queue[int] = Queue()

    def ask(self, errand: GcsAction, *, within_s: float) -> int | None:
        """Wait until it is done; return the pid that ended or began, None if time runs out."""
        self._errand = errand
        try:
            return self._pids.get(timeout=within_s)
        except Empty:
            return None

    def take_errand(self) -> GcsAction | None:
        errand, self._errand = self._errand, None
        return errand

    def record_pid(self, pid: int) -> None:
        self._pids.put(pid)


CALL_TIMEOUT_S = 30.0
AGENT_TIMEOUT_S = 30.0
HEAD = "head"


class RayWorld(RunWorld):
    """The nodes and workers of a local cluster; agents and Ray's own calls inject the faults."""

    def __init__(self, address: str, agents: dict[str, Any], armed: ArmedFaults) -> None:
        super().__init__(SystemClock(), armed, poll_s=0.05)
        self._address = address
        self._agents = agents
        self.worker_actors: dict[AttemptRank, Any] = {}
        self.node_orders, self.gcs = NodeOrderQueue(), GcsRequests()
        self.faulted_nodes: set[str] = set()
        self._frozen: dict[str, tuple[int, ...]] = {}
        self._start_pids: dict[
            str, int
        ] = {}  # the pid of `ray start`, of nodes that were terminated

    def signal_worker(self, target: Target, signal_name: str) -> None:
        get_answer(self._agents[target.node_id].send_signal.remote(target.pid, signal_name))

    def end_worker_actor(self, target: Target) -> None:
        if self.await_worker_end(target, within_s=0.0):
            raise ProcessLookupError(f"pid {target.pid}")
        ray.kill(self.worker_actors[AttemptRank(target.attempt, target.rank)], no_restart=True)

    def disguise_as_memory_kill(self, target: Target) -> None:
        raise RefusedError(
            f"a raylet ends workers by the machine's memory, and not pid {target.pid} by its own"
        )

    def await_worker_end(self, target: Target, *, within_s: float) -> bool:
        """Return the answer of the target's node agent, or the head's if that node is dead."""
        # All nodes of a local cluster are processes of one host, so the head's agent sees the pid
        # when the node's own has gone with it.
        agent = self._agents[target.node_id if self._is_alive(target.node_id) else HEAD]
        return bool(get_answer(agent.is_gone.remote(target.pid, within_s), more_s=within_s))

    def list_descendants(self, target: Target, *, name: str | None = None) -> list[int]:
        agent = self._agents[target.node_id]
        return [int(pid) for pid in get_answer(agent.list_descendants.remote(target.pid, name))]

    def await_worker_stop(self, target: Target, *, within_s: float) -> bool:
        agent = self._agents[target.node_id]
        return bool(get_answer(agent.is_stopped.remote(target.pid, within_s), more_s=within_s))

    def give_notice(self, node_id: str, *, notice_s: float) -> int:
        """Drain the node for preemption, as a cloud's handler does on a spot notice."""
        self.faulted_nodes.add(node_id)
        deadline_ns = self._clock.now_ns() + int(notice_s * 1e9)
        unix_ms = (self._clock.wall_ns() + int(notice_s * 1e9)) // 1_000_000
        accepted, reason = compat.drain_for_preemption(self._address, node_id, unix_ms)
        if not accepted:
            raise RuntimeError(f"the drain was refused: {reason}")
        return deadline_ns

    def lose_node(
        self, node_id: str, *, raylet_only: bool = False, unsynced: bool = False
    ) -> Sequence[str]:
        """End the node, and its agent, through the agent."""
        assert not unsynced, (
            "a plan for nodes with disks of their own"
        )  # see `Plan.required_backend`
        # Noted before the harm: the harness looks at the cluster's processes all the time, and
        # would take the end of this one for a disturbance from outside.
        agent = self._get_agent(node_id)
        self.faulted_nodes.add(node_id)
        try:
            get_answer(
                agent.await_raylet_pid.remote()
            )  # the GCS detects the death some time after the agent's end
        except ray.exceptions.RayError as error:
            raise ProcessLookupError(f"node {node_id[:8]} is dead already") from error
        agent.lose_node.remote(raylet_only=raylet_only)
        return ()

    def terminate_node(self, node_id: str, *, drains_s: float) -> int:
        """Send SIGTERM to the node's `ray start`, and wait until the GCS knows of its drain."""
        self.faulted_nodes.add(node_id)
        if node_id not in self._start_pids:
            raylet = get_answer(self._agents[node_id].await_raylet_pid.remote())
            self._start_pids[node_id] = get_answer(
                self._agents[HEAD].find_first_process.remote(raylet)
            )
        sent_ns = self._clock.now_ns()
        os.kill(self._start_pids[node_id], signal.SIGTERM)
        if drains_s and not self._await_even_after_run(
            lambda: node_id in compat.draining_nodes(), CALL_TIMEOUT_S
        ):
            raise RuntimeError(f"node {node_id[:8]} was sent SIGTERM, and announces no drain")
        return sent_ns

    def end_node(self, node_id: str) -> None:
        """End the node's `ray start` and all below it, through the head's agent."""
        get_answer(self._agents[HEAD].end_tree.remote(self._start_pids[node_id]))

    def freeze_node(self, node_id: str, *, within_s: float) -> int | None:
        """Stop a raylet of this host and all below it, through the head's agent."""
        self.faulted_nodes.add(node_id)
        raylet = get_answer(self._agents[node_id].await_raylet_pid.remote())
        self._frozen[node_id] = pids = get_answer(self._agents[HEAD].freeze.remote(raylet))
        stopped = get_answer(self._agents[HEAD].are_stopped.remote(pids, within_s), more_s=within_s)
        return len(pids) if stopped else None

    def thaw_node(self, node_id: str) -> None:
        get_answer(self._agents[HEAD].thaw.remote(self._frozen.pop(node_id)))

    def request_stack(self, node_id: str, pid: int) -> None:
        get_answer(self._agents[node_id].send_signal.remote(pid, STACKS))

    def renew_agents(self) -> None:
        """Renew the leases of the run's agents; those of a local cluster have none."""

    def retire_agents(self) -> Sequence[Leftover | JournalCut]:
        """End the run's agents; return what they found. Those of a local cluster stay."""
        return ()

    def list_worker_nodes(self) -> list[str]:
        """Return every node that has or had an agent, oldest first."""
        return [node_id for node_id in self._agents if node_id != HEAD]

    def idle_nodes(self) -> list[str]:
        """Return the nodes with an agent that hold no worker and are not draining."""
        used = {target.node_id for target in self.list_targets().values()} | {
            *compat.draining_nodes()
        }
        alive = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
        return [node_id for node_id in alive if node_id in self._agents and node_id not in used]

    def add_nodes(self, count: int, *, within_s: float) -> list[str]:
        """Ask the harness for nodes: only its main thread may start them."""
        order = self.node_orders.order(count)
        self._await_condition(lambda: order.is_taken)  # others may be filled before it
        with contextlib.suppress(Empty):
            return [n for n in order.deliveries.get(timeout=within_s) if self._is_alive(n)]
        return []

    def nodes_joined(self, agents: dict[str, Any]) -> None:
        """Add the nodes that the harness has started for the order that it took."""
        self._agents.update(agents)
        self.node_orders.deliver(agents)

    def end_driver(self) -> int:
        if self.driver_pid is None:
            raise ProcessLookupError("there is no driver")
        return self._kill_process(self.driver_pid)

    def end_controller(self) -> int:
        pids = _list_controller_pids()
        if not pids:
            raise ProcessLookupError("there is no controller")
        return self._kill_process(pids[0])

    def _list_job_pids(self) -> list[int]:
        return [*super()._list_job_pids(), *_list_controller_pids()]

    def end_gcs(self) -> int:
        pid = self.gcs.ask("end", within_s=CALL_TIMEOUT_S)
        if pid is None:
            raise RuntimeError(f"the GCS was not ended within {CALL_TIMEOUT_S:g} s")
        return pid

    def start_gcs(self, *, within_s: float) -> int | None:
        return self.gcs.ask("start", within_s=within_s)

    def _kill_process(self, pid: int) -> int:
        os.kill(pid, signal.SIGKILL)
        if not get_answer(
            self._agents[HEAD].is_gone.remote(pid, CALL_TIMEOUT_S), more_s=CALL_TIMEOUT_S
        ):
            raise RuntimeError(f"pid {pid} still runs after {CALL_TIMEOUT_S:g} s")
        return pid

    def await_node_death(self, node_id: str, *, within_s: float) -> bool:
        return self._await_even_after_run(lambda: not self._is_alive(node_id), within_s)

    def _get_agent(self, node_id: str) -> Any:  # an actor handle
        """Return a node's agent, and wait for it.

        A node can be picked as a target just after it joined, before its agent has registered.
        """
        if not self._await_condition(lambda: node_id in self._agents, AGENT_TIMEOUT_S):
            raise RefusedError(f"node {node_id[:8]} has joined, and no agent of chaos is there yet")
        return self._agents[node_id]

    def _is_alive(self, node_id: str) -> bool:
        return any(node["NodeID"] == node_id and node["Alive"] for node in ray.nodes())


def get_answer(reference: Any, *, more_s: float = 0.0) -> Any:  # whatever the agent gives
    """Return an agent's answer; wait `CALL_TIMEOUT_S` and the time of its work at most."""
    return ray.get(reference, timeout=CALL_TIMEOUT_S + more_s)


def _list_controller_pids() -> list[int]:
    """Return the pids of Ray Train's controllers, processes of this host."""
    return [pid for name, pid in compat.live_actors().values() if name == compat.CONTROLLER]
