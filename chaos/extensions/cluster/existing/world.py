"""Faults on an existing cluster: each is injected only if the guard permits it."""

import errno
import os
import signal
import socket
from collections.abc import Mapping, Sequence

import ray

from chaos.extensions.cluster.existing.agent import AgentPool
from chaos.extensions.cluster.existing.machines import GONE_WITHIN_S, Machines
from chaos.extensions.cluster.existing.nodes import list_nodes
from chaos.extensions.cluster.existing.terms import LEASE_S, ClusterFacts
from chaos.faults.world import RefusedError, Target, WorkerRelease
from chaos.launch.ray import compat
from chaos.launch.ray.world import CALL_TIMEOUT_S, RayWorld, get_answer
from chaos.model.event import JournalCut, Leftover
from chaos.plan.permissions import OWN
from chaos.processes.tree import is_running
from chaos.run.armed_faults import ArmedFaults
from chaos.run.clock import elapsed_seconds

CONNECT_S = 1.0
HEARD_S = 5.0  # Ray 2.60's `ray start` drains within a second of SIGTERM; a handler may poll
POLL_S = 0.2


class ExistingWorld(RayWorld):
    """The nodes and workers of an existing cluster; agents inject the faults."""

    def __init__(
        self,
        address: str,
        agent_pool: AgentPool,
        terms: ClusterFacts,
        armed: ArmedFaults,
        machines: Machines | None = None,
    ) -> None:
        super().__init__(address, agent_pool.agents, armed)
        self._machines = machines
        self._agent_pool = agent_pool
        self._terms = terms
        self._announced: set[str] = set()
        self._ended_workers: set[tuple[str, int]] = set()

    def learn_group(self, group: Mapping[int, Target]) -> None:
        """Start an agent on every node of a group before a fault may look for one there."""
        self._agent_pool.ensure_agents((target.node_id, target.pid) for target in group.values())
        super().learn_group(group)

    def renew_agents(self) -> None:
        self._agent_pool.renew()

    def retire_agents(self) -> Sequence[Leftover | JournalCut]:
        """End the run's agents; return leftovers on their hosts, and the journals cut short."""
        leftovers, cuts = self._agent_pool.retire()
        return *leftovers, *cuts

    def signal_worker(self, target: Target, signal_name: str) -> None:
        """Send a signal through the target's node agent, after its journals were fetched.

        A signal that undoes a fault is never refused.
        """
        if signal_name != "CONT":
            self._check_guard(target.node_id, is_workers_own=True)
        self._agent_pool.collect(target.node_id)
        super().signal_worker(target, signal_name)

    def end_worker_actor(self, target: Target) -> None:
        self._check_guard(target.node_id, is_workers_own=True)
        super().end_worker_actor(target)

    def await_worker_end(self, target: Target, *, within_s: float) -> bool:
        """Return the answer of the agent of the target's node; for a lost node, its last report."""
        if (target.node_id, target.pid) in self._ended_workers:
            return True
        if self._machines is not None and self._machines.has_machine(target.node_id):
            return self._machines.await_end(target.node_id)
        agent = self._agents[target.node_id]
        return bool(get_answer(agent.is_gone.remote(target.pid, within_s), more_s=within_s))

    def give_notice(self, node_id: str, *, notice_s: float) -> int:
        self._check_guard(node_id, costs_node=True)
        self._announced.add(node_id)
        return super().give_notice(node_id, notice_s=notice_s)

    def lose_node(
        self, node_id: str, *, raylet_only: bool = False, unsynced: bool = False
    ) -> Sequence[str]:
        """End all on the node through its agent, note the loss, and then end the agent.

        Where the nodes have a platform, that takes the node instead.
        """
        self._check_guard(node_id, costs_node=True)
        assert not unsynced  # see `KillNode.shared_cluster_refusal`
        if raylet_only:
            raise RefusedError("with the raylet alone gone, nothing shows that its workers are")
        if self._machines is not None:
            self._agent_pool.collect(node_id)
            self._machines.take_node(node_id, list_nodes())
            return ()
        agent = self._agents[node_id]
        try:
            ended_pids = get_answer(agent.end_workers.remote())
        except ray.exceptions.RayError as error:
            raise ProcessLookupError(f"node {node_id[:8]} is dead already") from error
        self._ended_workers.update((node_id, pid) for pid in ended_pids)
        # The journals of its workers lie on the node's own disk, and go with it. They are fetched
        # between the end of the workers and that of the agent: nothing is written any more, so what
        # is fetched then is all.
        if self._agent_pool.collect(node_id):
            self._agent_pool.mark_complete(node_id)
        agent.end_node.remote()
        return ()

    def reclaim_node(self, node_id: str, *, notice_s: float, release: WorkerRelease) -> bool | None:
        """Announce and take the node by its platform; look whether the cluster hears of it.

        Chaos does not drain the node: what is on it, such as `ray start --block`, may.
        """
        if self._machines is None:
            return None
        self._check_guard(node_id, costs_node=True)
        notice_s, limit_s = self._machines.announce(node_id, list_nodes(), notice_s=notice_s)
        self._announced.add(node_id)
        if not self._await_loss(node_id, notice_s, limit_s, release):
            return False
        if self._is_alive(node_id):
            self._machines.take_node(node_id, list_nodes())
        if self.await_node_death(node_id, within_s=GONE_WITHIN_S):
            self._machines.record_loss(node_id)
        return True

    def describe_taker(self, node_id: str) -> str | None:
        return None if self._machines is None else self._machines.describe_taker(node_id)

    def await_node_death(self, node_id: str, *, within_s: float) -> bool:
        """Wait until the GCS counts the node as dead; a platform takes its own time."""
        if self._machines is not None and self._machines.has_machine(node_id):
            within_s = GONE_WITHIN_S
        return super().await_node_death(node_id, within_s=within_s)

    def freeze_node(self, node_id: str, *, within_s: float) -> int | None:
        """Stop the raylet and all below it but the node's agent, through the agent."""
        self._check_guard(node_id, costs_node=True)
        self._agent_pool.collect(node_id)
        agent = self._agents[node_id]
        pids = get_answer(agent.freeze_node.remote())
        stopped = get_answer(agent.are_stopped.remote(pids, within_s), more_s=within_s)
        return len(pids) if stopped else None

    def thaw_node(self, node_id: str) -> None:
        """Continue the stopped processes through the agent; if it is cut off, its lease does."""
        try:
            get_answer(self._agents[node_id].thaw_node.remote())
        except ray.exceptions.RayError as error:
            why = f"its agent cannot be reached, and lets it go on within {LEASE_S:g} s"
            raise RuntimeError(why) from error

    def cut_off_node(self, node_id: str, *, for_s: float) -> None:
        self._check_guard(node_id, costs_node=True)
        address, _ = self._find_raylet_address(node_id)
        if address == self._terms.own_address:
            raise RefusedError(f"the node shares the address {address} with chaos's own")
        self._agent_pool.collect(node_id)
        get_answer(self._agents[node_id].cut_off.remote(address, for_s))

    def await_node_silence(self, node_id: str, *, within_s: float) -> bool:
        return self._await_answer(node_id, within_s, answers=False)

    def await_node_return(self, node_id: str, *, within_s: float) -> bool:
        """Connect to the raylet's port until the host accepts or refuses; return whether it did."""
        return self._await_answer(node_id, within_s, answers=True)

    def idle_nodes(self) -> list[str]:
        raise RefusedError("a node that holds none of the job's workers is spared")

    def add_nodes(self, count: int, *, within_s: float) -> list[str]:
        del count, within_s
        raise RefusedError("chaos starts no nodes on a cluster that it did not start")

    def end_controller(self) -> int:
        raise RefusedError(f"Ray's controller runs beside chaos: {OWN}")

    # -- inside ------------------------------------------------------------------------------

    def _kill_process(self, pid: int) -> int:
        """Kill the driver, which is a process of this host and the harness's own child."""
        os.kill(pid, signal.SIGKILL)
        if not self._await_even_after_run(lambda: not is_running(pid), CALL_TIMEOUT_S):
            raise RuntimeError(f"pid {pid} still runs after {CALL_TIMEOUT_S:g} s")
        return pid

    def _check_guard(
        self, node_id: str, *, costs_node: bool = False, is_workers_own: bool = False
    ) -> None:
        """Raise `RefusedError` if the guard refuses; the target worker's own node is in use."""
        # A node that was given notice may be rid of its workers before it is taken: it is still the
        # fault's.
        used = {target.node_id for target in self.list_targets().values()} | self._announced
        used |= {node_id} if is_workers_own else set()
        reason = self._terms.guard.find_refusal(node_id, used=used, costs_node=costs_node)
        if reason is not None:
            raise RefusedError(f"node {node_id[:8]}: {reason}")

    def _await_loss(
        self, node_id: str, notice_s: float, limit_s: float, release: WorkerRelease
    ) -> bool:
        """Wait for the node's end, at most `limit_s`; return False if the run ended before.

        The worker is released by the drain's deadline, or after `HEARD_S` where there is no drain.
        """
        start_ns, is_heard = self._clock.now_ns(), False
        while self._is_alive(node_id):
            passed_s = elapsed_seconds(start_ns, self._clock)
            deadline_ms = compat.draining_nodes().get(node_id)
            if deadline_ms is not None and not is_heard:
                is_heard = True
                left_ns = deadline_ms * 1_000_000 - self._clock.wall_ns()
                release(self._clock.now_ns() + left_ns)
            # Chaos drains no node there. Whether the loss is announced to Ray is looked up, as what
            # is on the node may do it, or not; a worker that is held must go on in either case.
            elif passed_s >= min(HEARD_S, notice_s):
                release()
            if passed_s >= limit_s:
                break
            if not self.wait_seconds(min(POLL_S, limit_s - passed_s)):
                return False
        return True

    def _find_raylet_address(self, node_id: str) -> tuple[str, int]:
        row = next((n for n in ray.nodes() if n["NodeID"] == node_id), None)
        if row is None:
            raise ProcessLookupError(f"node {node_id[:8]}")
        return str(row["NodeManagerAddress"]), int(row["NodeManagerPort"])

    def _await_answer(self, node_id: str, within_s: float, *, answers: bool) -> bool:
        raylet_address = self._find_raylet_address(node_id)
        return self._await_even_after_run(lambda: _has_answer(raylet_address) is answers, within_s)


def _has_answer(raylet_address: tuple[str, int]) -> bool:
    with socket.socket() as connection:
        connection.settimeout(CONNECT_S)
        code = connection.connect_ex(raylet_address)
    # A refusal is an answer of the host, whose raylet is gone. A host that is cut off gives none.
    return code in (0, errno.ECONNREFUSED)
