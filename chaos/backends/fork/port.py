"""The chaos controller in the harness, as the other processes of a run see it."""

import threading
from collections.abc import Mapping
from typing import Any

from chaos.backends.fork.gates import connect
from chaos.backends.train.address import RunAddress, Unattended
from chaos.faults.order import Order
from chaos.faults.world import Victim
from chaos.model.event import Committed, FailureDecided


class SocketController:
    """Calls over a socket, one at a time; each waits for its answer."""

    def __init__(self, name: str) -> None:
        self._gate = connect(name)
        self._lock = threading.Lock()

    def group_started(self, group: Mapping[int, tuple[Victim, Any]]) -> None:
        """Tell who holds each rank; handles stay where they are."""
        self._ask("group_started", {rank: victim for rank, (victim, _) in group.items()})

    def group_launched(self, attempt: int) -> None:
        """Tell that every rank of an attempt has begun its train function."""
        self._ask("group_launched", attempt)

    def committed(self, event: Committed) -> None:
        """Tell of a commit."""
        self._ask("committed", event)

    def may_poll(self) -> None:
        """Wait until Ray's controller may poll its workers again."""
        self._ask("may_poll")

    def await_hold(self, op: int) -> bool:
        """Wait until Ray's controller is held for an op, and say whether it is."""
        return bool(self._ask("await_hold", op))

    def enter_state(self, op: int) -> None:
        """Wait, in Ray's controller, until the strike of an op that waits for its state is over."""
        self._ask("enter_state", op)

    def arrive(self, op: int, victim: Victim) -> Order | None:
        """Wait at an op's place until the worker may go on; gives what it is to do to itself."""
        order: Order | None = self._ask("arrive", op, victim)
        return order

    def obeyed(self, token: str) -> None:
        """Tell that this worker does as it was told."""
        self._ask("obeyed", token)

    def failure_decided(self, event: FailureDecided) -> None:
        """Tell what Ray has decided to do about a failure."""
        self._ask("failure_decided", event)

    def placed(self, pid: int, node_id: str) -> None:
        """Report the node that a worker was started on."""
        self._ask("placed", pid, node_id)

    def live_nodes(self) -> list[str]:
        """Return the nodes that are neither lost nor about to be."""
        return list(self._ask("live_nodes"))

    def draining(self) -> dict[str, int]:
        """Return the nodes that were announced to be lost, with deadlines (unix ms)."""
        return dict(self._ask("draining"))

    def preempted(self) -> list[str]:
        """Return the nodes that were lost after their loss had been announced."""
        return list(self._ask("preempted"))

    def exhausted(self) -> list[int]:
        """Return the pids whose end is to read as one by Ray's memory monitor."""
        return list(self._ask("exhausted"))

    def _ask(self, question: str, *arguments: Any) -> Any:  # noqa: ANN401 - the question's answer
        with self._lock:
            return self._gate.ask(question, *arguments)


class NobodysController(Unattended):
    """The controller of an earlier training, to which nothing is done: all its nodes live."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes

    def placed(self, pid: int, node_id: str) -> None:
        """Do nothing: there is no controller."""

    def live_nodes(self) -> list[str]:
        """Return all nodes."""
        return [f"node-{number}" for number in range(self._nodes)]

    def draining(self) -> dict[str, int]:
        """Return none."""
        return {}

    def preempted(self) -> list[str]:
        """Return none."""
        return []

    def exhausted(self) -> list[int]:
        """Return none."""
        return []


def port_of(address: RunAddress, nodes: int) -> SocketController | NobodysController:
    """Return the way to a run's chaos controller, where it has one."""
    kind, _, name = address.controller.partition(":")
    return NobodysController(nodes) if kind == "none" else SocketController(name)
