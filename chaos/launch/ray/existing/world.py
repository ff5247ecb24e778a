"""Faults on an existing cluster: each is injected only if the guard permits it."""

import errno
import os
import signal
import socket
from collections.abc import Sequence

import ray

from chaos.faults.world import RefusedError, Release, Target
from chaos.launch.ray import compat
from chaos.launch.ray.existing.agent import AgentPool
from chaos.launch.ray.existing.cluster import nodes
from chaos.launch.ray.existing.machines import GONE_WITHIN_S, Machines
from chaos.launch.ray.existing.terms import LEASE_S, ClusterFacts
from chaos.launch.ray.world import CALL_S, RayWorld, call
from chaos.plan.permitted import OWN
from chaos.processes.tree import is_running
from chaos.run.armed import ArmedFaults
from chaos.run.clock import seconds_since

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
        self._ended: set[tuple[str, int]] = set()

    def signal_worker(self, target: Target, signal_name: str) -> None:
        """Send a signal through the target's node agent, after its journals were fetched.

        A signal that undoes a fault is never refused.
        """
        if signal_name != "CONT":
            self._refuse(target.node_id, is_workers_own=True)
        self._agent_pool.collect(target.node_id)
        super().signal_worker(target, signal_name)

    def end_worker_actor(self, target: Target) -> None:
        self._refuse(target.node_id, is_workers_own=True)
        super().end_worker_actor(target)

    def worker_is_gone(self, target: Target, *, within_s: float) -> bool:
        """Return the answer of the agent of the target's node; for a lost node, its last report."""
        if (target.node_id, target.pid) in self._ended:
            return True
        if self._machines is not None and self._machines.has(target.node_id):
            return self._machines.await_end(target.node_id)
        agent = self._agents[target.node_id]
        return bool(call(agent.is_gone.remote(target.pid, within_s), more_s=within_s))

    def give_notice(self, node_id: str, *, notice_s: float) -> int:
        self._refuse(node_id, costs_node=True)
        self._announced.add(node_id)
        return super().give_notice(node_id, notice_s=notice_s)

    def lose_node(
        self, node_id: str, *, raylet_only: bool = False, unsynced: bool = False
    ) -> Sequence[str]:
        """End all on the node through its agent, note the loss, and then end the agent.

        Where the nodes have a platform, that takes the node instead.
        """
        self._refuse(node_id, costs_node=True)
        assert not unsynced  # see `KillNode.refused_elsewhere`
        if raylet_only:
            raise RefusedError("with the raylet alone gone, nothing shows that its workers are")
        if self._machines is not None:
            self._agent_pool.collect(node_id)
            self._machines.take(node_id, nodes())
            return ()
        agent = self._agents[node_id]
        try:
            gone = call(agent.end_workers.remote())
        except ray.exceptions.RayError as error:
            raise ProcessLookupError(f"node {node_id[:8]} is dead already") from error
        self._ended.update((node_id, pid) for pid in gone)
        # The journals of its workers lie on the node's own disk, and go with it. They are fetched
        # between the end of the workers and that of the agent: nothing is written any more, so what
        # is fetched then is all.
        if self._agent_pool.collect(node_id):
            self._agent_pool.is_all_there(node_id)
        agent.end_node.remote()
        return ()

    def reclaim_node(self, node_id: str, *, notice_s: float, release: Release) -> bool | None:
        """Announce and take the node by its platform; look whether the cluster hears of it.

        Chaos does not drain the node: what is on it, such as `ray start --block`, may.
        """
        if self._machines is None:
            return None
        self._refuse(node_id, costs_node=True)
        notice_s, limit_s = self._machines.announce(node_id, nodes(), notice_s=notice_s)
        self._announced.add(node_id)
        if not self._watch(node_id, notice_s, limit_s, release):
            return False
        if self._is_alive(node_id):
            self._machines.take(node_id, nodes())
        if self.node_is_dead(node_id, within_s=GONE_WITHIN_S):
            self._machines.note_loss(node_id)
        return True

    def taken_by(self, node_id: str) -> str | None:
        return None if self._machines is None else self._machines.taken_by(node_id)

    def node_is_dead(self, node_id: str, *, within_s: float) -> bool:
        """Wait until the GCS counts the node as dead; a platform takes its own time."""
        if self._machines is not None and self._machines.has(node_id):
            within_s = GONE_WITHIN_S
        return super().node_is_dead(node_id, within_s=within_s)

    def freeze_node(self, node_id: str, *, within_s: float) -> int | None:
        """Stop the raylet and all below it but the node's agent, through the agent."""
        self._refuse(node_id, costs_node=True)
        self._agent_pool.collect(node_id)
        agent = self._agents[node_id]
        pids = call(agent.freeze_node.remote())
        stopped = call(agent.are_stopped.remote(pids, within_s), more_s=within_s)
        return len(pids) if stopped else None

    def thaw_node(self, node_id: str) -> None:
        """Continue the stopped processes through the agent; if it is cut off, its lease does."""
        try:
            call(self._agents[node_id].thaw_node.remote())
        except ray.exceptions.RayError as error:
            why = f"its agent cannot be reached, and lets it go on within {LEASE_S:g} s"
            raise RuntimeError(why) from error

    def cut_off_node(self, node_id: str, *, for_s: float) -> None:
        self._refuse(node_id, costs_node=True)
        address, _ = self._place(node_id)
        if address == self._terms.own:
            raise RefusedError(f"the node shares the address {address} with chaos's own")
        self._agent_pool.collect(node_id)
        call(self._agents[node_id].cut_off.remote(address, for_s))

    def node_is_silent(self, node_id: str, *, within_s: float) -> bool:
        return self._knock(node_id, within_s, answers=False)

    def node_is_back(self, node_id: str, *, within_s: float) -> bool:
        """Connect to the raylet's port until the host accepts or refuses; return whether it did."""
        return self._knock(node_id, within_s, answers=True)

    def idle_nodes(self) -> list[str]:
        raise RefusedError("a node that holds none of the job's workers is spared")

    def add_nodes(self, count: int, *, within_s: float) -> list[str]:
        del count, within_s
        raise RefusedError("chaos starts no nodes on a cluster that it did not start")

    def end_controller(self) -> int:
        raise RefusedError(f"Ray's controller runs beside chaos: {OWN}")

    # -- inside ------------------------------------------------------------------------------

    def _end(self, pid: int) -> int:
        """Kill the driver, which is a process of this host and the harness's own child."""
        os.kill(pid, signal.SIGKILL)
        if not self._until(lambda: not is_running(pid), CALL_S):
            raise RuntimeError(f"pid {pid} still runs after {CALL_S:g} s")
        return pid

    def _refuse(
        self, node_id: str, *, costs_node: bool = False, is_workers_own: bool = False
    ) -> None:
        """Raise `RefusedError` if the guard refuses; the target worker's own node is in use."""
        # A node that was given notice may be rid of its workers before it is taken: it is still the
        # fault's.
        used = {target.node_id for target in self.group().values()} | self._announced
        used |= {node_id} if is_workers_own else set()
        why = self._terms.guard.refuses(node_id, used=used, costs_node=costs_node)
        if why is not None:
            raise RefusedError(f"node {node_id[:8]}: {why}")

    def _watch(self, node_id: str, notice_s: float, limit_s: float, release: Release) -> bool:
        """Wait for the node's end, at most `limit_s`; return False if the run ended before.

        The worker is released by the drain's deadline, or after `HEARD_S` where there is no drain.
        """
        begun_ns, is_heard = self._clock.now_ns(), False
        while self._is_alive(node_id):
            passed_s = seconds_since(begun_ns, self._clock)
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
            if not self.let_pass(min(POLL_S, limit_s - passed_s)):
                return False
        return True

    def _place(self, node_id: str) -> tuple[str, int]:
        row = next((n for n in ray.nodes() if n["NodeID"] == node_id), None)
        if row is None:
            raise ProcessLookupError(f"node {node_id[:8]}")
        return str(row["NodeManagerAddress"]), int(row["NodeManagerPort"])

    def _knock(self, node_id: str, within_s: float, *, answers: bool) -> bool:
        place = self._place(node_id)
        return self._until(lambda: _answers(place) is answers, within_s)


def _answers(place: tuple[str, int]) -> bool:
    with socket.socket() as knock:
        knock.settimeout(CONNECT_S)
        code = knock.connect_ex(place)
    # A refusal is an answer of the host, whose raylet is gone. A host that is cut off gives none.
    return code in (0, errno.ECONNREFUSED)
