"""The harness's side of the gates, for workers that one or several agents of torchrun start."""

from chaos.launch.commands.groups import GroupServer
from chaos.launch.torchrun.rendezvous import find_ip
from chaos.launch.torchrun.settings import node_number
from chaos.launch.torchrun.world import AgentWorld
from chaos.run.controller import ChaosController
from chaos.run.journal import Journal

READY_S = 60.0  # an agent that is not ready by then is left to torchrun's own time limits


class AgentServer(GroupServer):
    """The server of one run: what agents report of a round of the rendezvous is one attempt."""

    def __init__(
        self, name: str, controller: ChaosController, world: AgentWorld, journal: Journal
    ) -> None:
        self._agent_world = world
        self._awaited = set(world.list_worker_nodes())  # the nodes of the start
        self._port = 0
        super().__init__(name, controller, world, journal)
        self._answers["rendezvous_hosted"] = self._record_port
        self._answers["rendezvous_port"] = self._await_port
        self._answers["agent_ready"] = self._agent_ready
        self._answers["node_taken"] = lambda: any(
            agents.has_faulted for agents in world.starts[-1:]
        )

    def find_ip(self, node_id: str) -> str:
        return find_ip(node_number(node_id))

    def _record_port(self, port: int) -> None:
        with self._changed:
            self._port = port
            self._changed.notify_all()

    def _await_port(self) -> int:
        """Wait for and return the port, 0 if the host does not come in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._port, timeout=READY_S)
            return self._port

    def _agent_ready(self, node_id: str) -> None:
        """Wait for the agents of the start: one that is a second ahead may begin alone."""
        with self._changed:
            self._agent_world.ready_nodes.add(node_id)
            self._awaited.discard(node_id)
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._awaited, timeout=READY_S)
