"""The chaos controller as an actor on the head node, and its `World`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray

from chaos.backends.ray import compat
from chaos.backends.train.storage import look_for
from chaos.faults.order import Order
from chaos.faults.world import Victim
from chaos.model.event import Committed, FailureDecided
from chaos.run.armed import ArmedFaults, StorageWorld
from chaos.run.clock import Clock, SystemClock, seconds_since
from chaos.run.controller import ChaosController
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal
from chaos.run.witness import Witness

POLL_S = 0.05
CALL_S = 30.0


class RayWorld(StorageWorld):
    """Does harm through node agents and Ray's own calls."""

    def __init__(self, address: str, agents: dict[str, Any], armed: ArmedFaults) -> None:
        self._clock: Clock = SystemClock()
        super().__init__(armed, self._clock)
        self._address = address
        self._agents = agents
        self.witness = Witness(self._clock)
        self.victims: dict[int, Victim] = {}
        self.handles: dict[tuple[int, int], Any] = {}

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

    def group(self) -> Mapping[int, Victim]:
        """Give who holds each rank now."""
        return dict(self.victims)

    def failure_of(self, victim: Victim, *, within_s: float) -> Mapping[int, str] | None:
        """Wait until Ray has recorded that the victim's attempt failed."""
        return self.witness.failure_of(victim.attempt, within_s=within_s)

    def has_obeyed(self, order: Order, *, within_s: float) -> bool:
        """Wait until a worker says that it does as it was told."""
        return self.witness.has_obeyed(order, within_s=within_s)

    def let_pass(self, seconds: float) -> bool:
        """Let time pass; False where the run ended before it was over."""
        return self.witness.let_pass(seconds)

    def give_notice(self, node_id: str, *, notice_s: float) -> int:
        """Drain the node for preemption, as a cloud's handler does on a spot notice."""
        deadline_ns = self._clock.now_ns() + int(notice_s * 1e9)
        unix_ms = (self._clock.wall_ns() + int(notice_s * 1e9)) // 1_000_000
        accepted, why = compat.drain_for_preemption(self._address, node_id, unix_ms)
        if not accepted:
            raise RuntimeError(f"the drain was refused: {why}")
        return deadline_ns

    def wait_until(self, deadline_ns: int) -> bool:
        """Wait for a deadline, or for the end of the run."""
        while self._clock.now_ns() < deadline_ns:
            if self.witness.over:
                return False
            self._clock.sleep(POLL_S)
        return True

    def lose_node(self, node_id: str) -> None:
        """Have the node's agent end the node and itself."""
        agent = self._agents[node_id]
        try:
            _call(agent.ready.remote())  # the GCS learns of a death later than its agent dies
        except ray.exceptions.RayError as error:
            raise ProcessLookupError(f"node {node_id[:8]} is dead already") from error
        agent.lose_node.remote()

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

    def group_started(self, group: dict[int, tuple[Victim, Any]]) -> None:
        """Learn who holds each rank, and by which handle."""
        for rank, (victim, handle) in group.items():
            self._world.handles[victim.attempt, rank] = handle
        self._world.victims = {rank: victim for rank, (victim, _) in group.items()}
        self._controller.group_started(self._world.victims)

    def committed(self, event: Committed) -> None:
        """Learn of a commit."""
        self._controller.committed(event)

    def may_poll(self) -> None:
        """Return when Ray's controller may poll its workers again."""
        self._controller.may_poll()

    def await_hold(self, op: int) -> bool:
        """Return once Ray's controller is held for an op."""
        return self._controller.await_hold(op)

    def arrive(self, op: int, victim: Victim) -> Order | None:
        """Return when the worker at an op's place may go on, with what it is to do to itself."""
        return self._controller.arrive(op, victim)

    def obeyed(self, token: str) -> None:
        """Learn that a worker does as it was told."""
        self._world.witness.obeyed(token)

    def failure_decided(self, event: FailureDecided) -> None:
        """Learn what Ray has decided to do about a failure."""
        self._world.witness.failure_decided(event)

    def finish(self, within_s: float) -> None:
        """Open all gates; wait for strikes that are under way."""
        self._world.over = self._world.witness.over = True
        self._controller.finish(within_s=within_s)


def _call(reference: Any, *, more_s: float = 0.0) -> Any:  # noqa: ANN401 - whatever the agent gives
    return ray.get(reference, timeout=CALL_S + more_s)
