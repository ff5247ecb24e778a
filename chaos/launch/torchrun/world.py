"""Faults on nodes of torchrun: a node is an agent, its workers, and all that they started."""

from collections.abc import Callable

from chaos.launch.commands.world import MachineWorld
from chaos.launch.node_disk import NodeDisk
from chaos.launch.torchrun.agents import Agents
from chaos.run.armed_faults import ArmedFaults
from chaos.run.clock import Clock

TAKEN_IN_S = 10.0  # a lost node counts for three seconds more


class AgentWorld(MachineWorld):
    """The nodes and workers of one run. torchelastic ends its workers on SIGTERM, and leaves."""

    def __init__(
        self,
        clock: Clock,
        nodes: int,
        armed: ArmedFaults,
        build_disk: Callable[[str], NodeDisk],
    ) -> None:
        super().__init__(clock, nodes, armed, build_disk)
        self.starts: list[Agents] = []  # the agents of each start of the command
        self.ready_nodes: set[str] = (
            set()
        )  # the nodes whose agents have come to their first rendezvous

    def find_first_pid(self, node_id: str) -> int:
        return self._find_agents(node_id).find_pid(node_id)

    def mark_faulted(self, node_id: str) -> None:
        self._find_agents(node_id).mark_faulted(node_id)

    def add_nodes(self, count: int, *, within_s: float) -> list[str]:
        """Start agents that join the rendezvous; return the nodes of those that come to it.

        The other agents ask for newcomers once a second. Until they have taken these in, or need
        none, training that is held for them may not go on: it could be over before.
        """
        new_nodes = [self.starts[-1].add() for _ in range(count)]
        with self._lock:
            self._live += new_nodes
            self._joined += new_nodes
        self._await_condition(lambda: self.ready_nodes.issuperset(new_nodes), within_s)
        self._await_condition(lambda: self._have_workers(new_nodes), TAKEN_IN_S)
        return [node for node in new_nodes if node in self.ready_nodes]

    def _have_workers(self, nodes: list[str]) -> bool:
        return {worker.node_id for worker in self.list_targets().values()}.issuperset(nodes)

    def _find_agents(self, node_id: str) -> Agents:
        """Return the agents of the last start that had a node."""
        return next(agents for agents in reversed(self.starts) if agents.has_node(node_id))
