"""The chaos controller in the harness, as the other processes of a run see it."""

import threading
from collections.abc import Mapping
from typing import Any

from chaos.backends.fork.gates import connect
from chaos.backends.train.address import ControllerPort, RunAddress, Unattended
from chaos.faults.world import Target


class ForkPort(ControllerPort):
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


class SocketController(ForkPort):
    """The port over a socket, one question at a time."""

    def __init__(self, name: str) -> None:
        self._gate = connect(name)
        self._lock = threading.Lock()

    def ask(self, question: str, *arguments: object) -> Any:  # noqa: ANN401 - the question's answer
        """Return the harness's answer."""
        with self._lock:
            return self._gate.ask(question, *arguments)

    def group_started(self, group: Mapping[int, tuple[Target, Any]]) -> None:
        """Report the worker of each rank; its handle stays in this process."""
        self.ask("group_started", {rank: target for rank, (target, _) in group.items()})


class NobodysController(Unattended, ForkPort):
    """The controller of an earlier training, which gets no fault: all its nodes live."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes

    def live_nodes(self) -> list[str]:
        """Return all nodes."""
        return [f"node-{number}" for number in range(self._nodes)]


def port_of(address: RunAddress, nodes: int) -> ForkPort:
    """Return the port to a run's chaos controller; a stand-in if the run has none."""
    kind, _, name = address.controller.partition(":")
    return NobodysController(nodes) if kind == "none" else SocketController(name)
