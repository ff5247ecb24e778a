"""Faults on nodes of torchrun: a node is an agent, its workers, and all that they started."""

from collections.abc import Callable

from chaos.launch.commands.world import MachineWorld
from chaos.launch.node_disk import NodeDisk
from chaos.launch.torchrun.agents import Agents
from chaos.run.armed import ArmedFaults
from chaos.run.clock import Clock

TAKEN_IN_S = 10.0  # a lost node counts for three seconds more


class AgentWorld(MachineWorld):
    """The nodes and workers of one run. torchelastic ends its workers on SIGTERM, and leaves."""

    def __init__(
        self,
        clock: Clock,
        nodes: int,
        armed: ArmedFaults,
        disk_of: Callable[[str], NodeDisk],
    ) -> None:
        super().__init__(clock, nodes, armed, disk_of)
        self.starts: list[Agents] = []  # the agents of each start of the command
        self.ready: set[str] = set()  # the nodes whose agents have come to their first rendezvous

    def first_of(self, node_id: str) -> int:
        return self._with(node_id).pid_of(node_id)

    def take(self, node_id: str) -> None:
        self._with(node_id).take(node_id)

    def add_nodes(self, count: int, *, within_s: float) -> list[str]:
        """Start agents that join the rendezvous; return the nodes of those that come to it.

        The other agents ask for newcomers once a second. Until they have taken these in, or need
        none, training that is held for them may not go on: it could be over before.
        """
        added = [self.starts[-1].add() for _ in range(count)]
        with self._lock:
            self._live += added
            self._joined += added
        self._await(lambda: self.ready.issuperset(added), within_s)
        self._await(lambda: self._have_workers(added), TAKEN_IN_S)
        return [node for node in added if node in self.ready]

    def _have_workers(self, nodes: list[str]) -> bool:
        return {worker.node_id for worker in self.group().values()}.issuperset(nodes)

    def _with(self, node_id: str) -> Agents:
        """Return the agents of the last start that had a node."""
        return next(agents for agents in reversed(self.starts) if agents.has(node_id))
