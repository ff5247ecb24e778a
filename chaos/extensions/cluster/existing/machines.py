"""The platform's machines under the nodes of a run: announced, taken, and seen to be gone."""

from collections.abc import Sequence

from chaos.extensions.cluster.existing.terms import ClusterFacts
from chaos.extensions.cluster.reclaim.connect import build_reclaimer, find_machine
from chaos.extensions.cluster.reclaim.reclaimer import Reclaimer, convert_permission_errors
from chaos.model.event import NodeReclaimed, Reclaim
from chaos.plan.permissions import NodeFacts
from chaos.run.clock import Clock, SystemClock, await_condition
from chaos.run.journal import Journal

POLL_S = 1.0
GONE_WITHIN_S = 600.0  # a cloud ends a machine in minutes


class Machines:
    """The machines that a platform takes in one run; each thing done is an event of the history."""

    def __init__(self, reclaimer: Reclaimer, journal: Journal, clock: Clock) -> None:
        self._reclaimer = reclaimer
        self._journal = journal
        self._clock = clock
        self._machine_by_node: dict[str, str] = {}
        self._announced: set[str] = set()

    def announce(
        self, node_id: str, cluster: Sequence[NodeFacts], *, notice_s: float
    ) -> tuple[float, float]:
        """Announce the loss of a node.

        Returns the notice that it has, and for how long to wait for its end before it is taken.
        """
        machine = self._find_machine(node_id, cluster)
        with convert_permission_errors(self._reclaimer):
            granted_s = self._reclaimer.announce(machine, notice_s=notice_s)
        self._machine_by_node[node_id] = machine
        self._record(node_id, "announced", notice_s=granted_s)
        if not self._reclaimer.takes_announced:
            return granted_s, granted_s
        self._announced.add(node_id)
        return granted_s, granted_s + GONE_WITHIN_S

    def take_node(self, node_id: str, cluster: Sequence[NodeFacts]) -> None:
        """Take a node, unless it was announced and so goes by itself."""
        if node_id in self._announced:
            return
        machine = self._machine_by_node.get(node_id) or self._find_machine(node_id, cluster)
        with convert_permission_errors(self._reclaimer):
            self._reclaimer.take(machine)
        self._machine_by_node[node_id] = machine
        self._record(node_id, "taken")

    def has_machine(self, node_id: str) -> bool:
        return node_id in self._machine_by_node

    def await_end(self, node_id: str) -> bool:
        machine = self._machine_by_node[node_id]
        with convert_permission_errors(self._reclaimer):
            return await_condition(
                lambda: self._reclaimer.is_gone(machine),
                self._clock,
                within_s=GONE_WITHIN_S,
                poll_s=POLL_S,
            )

    def record_loss(self, node_id: str) -> None:
        self._record(node_id, "gone")

    def describe_taker(self, node_id: str) -> str | None:
        if node_id not in self._machine_by_node:
            return None
        taker = f"{self._reclaimer.name} took it as {self._machine_by_node[node_id]}"
        return f"{taker}, by an adaptor that was seen {self._reclaimer.evidence}"

    def _find_machine(self, node_id: str, cluster: Sequence[NodeFacts]) -> str:
        node = next((node for node in cluster if node.node_id == node_id), None)
        if node is None:
            raise ProcessLookupError(f"node {node_id[:8]}")
        return find_machine(self._reclaimer, node, cluster)

    def _record(self, node_id: str, stage: Reclaim, *, notice_s: float | None = None) -> None:
        self._journal.add(
            NodeReclaimed(
                node_id=node_id,
                machine=self._machine_by_node[node_id],
                platform=self._reclaimer.name,
                verified_against=self._reclaimer.evidence,
                stage=stage,
                notice_s=notice_s,
            )
        )


def open_machines(terms: ClusterFacts, journal: Journal) -> Machines | None:
    """Return the machines under a cluster's nodes, None where chaos itself ends the nodes."""
    if terms.reclaim_by is None:
        return None
    return Machines(build_reclaimer(terms.reclaim_by), journal, SystemClock())
