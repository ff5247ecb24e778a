"""The chaos controller's port in an embedded driver: it answers what a cluster would know."""

from chaos.probe.address import ControllerPort, RunAddress, Unattended
from chaos.probe.gates import SocketController


class EmbeddedPort(ControllerPort):
    """The chaos controller's port, with the questions that a cluster would answer."""

    def placed(self, pid: int, node_id: str) -> None:
        """Report the node that a worker was started on."""
        self.ask("placed", pid, node_id)

    def live_nodes(self) -> list[str]:
        """Return the nodes that are neither lost nor announced to be."""
        return list(self.ask("live_nodes"))

    def draining(self) -> dict[str, int]:
        """Return the nodes that were announced to be lost, with deadlines (unix ms)."""
        return dict(self.ask("draining") or {})

    def preempted(self) -> list[str]:
        """Return the nodes that were lost after their loss had been announced."""
        return list(self.ask("preempted") or ())

    def exhausted(self) -> list[int]:
        """Return the pids whose end is to look like one by Ray's memory monitor."""
        return list(self.ask("exhausted") or ())


class EmbeddedController(SocketController, EmbeddedPort):
    """The port of a run with a chaos controller."""


class AbsentController(Unattended, EmbeddedPort):
    """The controller of an earlier training, which gets no fault: all its nodes live."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes

    def live_nodes(self) -> list[str]:
        return [f"node-{number}" for number in range(self._nodes)]


def port_of(address: RunAddress, nodes: int) -> EmbeddedPort:
    """Return the port to a run's chaos controller; a stand-in if the run has none."""
    kind, _, name = address.controller.partition(":")
    return AbsentController(nodes) if kind == "none" else EmbeddedController(name)
