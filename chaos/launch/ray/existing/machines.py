"""The platform's machines under the nodes of a run: announced, taken, and seen to be gone."""

from collections.abc import Sequence

from chaos.launch.ray.existing.terms import ClusterFacts
from chaos.model.event import NodeReclaimed, Reclaim
from chaos.plan.permitted import NodeFacts
from chaos.reclaim.connect import connect, machine_of
from chaos.reclaim.port import Reclaimer, asked
from chaos.run.clock import Clock, SystemClock, came
from chaos.run.journal import Journal

POLL_S = 1.0
GONE_WITHIN_S = 600.0  # a cloud ends a machine in minutes


class Machines:
    """The machines that a platform takes in one run; each thing done is an event of the history."""

    def __init__(self, reclaimer: Reclaimer, journal: Journal, clock: Clock) -> None:
        self._reclaimer = reclaimer
        self._journal = journal
        self._clock = clock
        self._of: dict[str, str] = {}
        self._going: set[str] = set()

    def announce(
        self, node_id: str, cluster: Sequence[NodeFacts], *, notice_s: float
    ) -> tuple[float, float]:
        """Announce the loss of a node.

        Returns the notice that it has, and for how long to wait for its end before it is taken.
        """
        machine = self._under(node_id, cluster)
        with asked(self._reclaimer):
            given_s = self._reclaimer.announce(machine, notice_s=notice_s)
        self._of[node_id] = machine
        self._record(node_id, "announced", notice_s=given_s)
        if not self._reclaimer.takes_announced:
            return given_s, given_s
        self._going.add(node_id)
        return given_s, given_s + GONE_WITHIN_S

    def take(self, node_id: str, cluster: Sequence[NodeFacts]) -> None:
        """Take a node, unless it was announced and so goes by itself."""
        if node_id in self._going:
            return
        machine = self._of.get(node_id) or self._under(node_id, cluster)
        with asked(self._reclaimer):
            self._reclaimer.take(machine)
        self._of[node_id] = machine
        self._record(node_id, "taken")

    def has(self, node_id: str) -> bool:
        return node_id in self._of

    def await_end(self, node_id: str) -> bool:
        machine = self._of[node_id]
        with asked(self._reclaimer):
            return came(
                lambda: self._reclaimer.is_gone(machine),
                self._clock,
                within_s=GONE_WITHIN_S,
                poll_s=POLL_S,
            )

    def note_loss(self, node_id: str) -> None:
        self._record(node_id, "gone")

    def taken_by(self, node_id: str) -> str | None:
        if node_id not in self._of:
            return None
        by = f"{self._reclaimer.name} took it as {self._of[node_id]}"
        return f"{by}, by an adaptor that was seen {self._reclaimer.seen}"

    def _under(self, node_id: str, cluster: Sequence[NodeFacts]) -> str:
        node = next((node for node in cluster if node.node_id == node_id), None)
        if node is None:
            raise ProcessLookupError(f"node {node_id[:8]}")
        return machine_of(self._reclaimer, node, cluster)

    def _record(self, node_id: str, stage: Reclaim, *, notice_s: float | None = None) -> None:
        self._journal.add(
            NodeReclaimed(
                node_id=node_id,
                machine=self._of[node_id],
                by=self._reclaimer.name,
                seen=self._reclaimer.seen,
                stage=stage,
                notice_s=notice_s,
            )
        )


def machines_of(terms: ClusterFacts, journal: Journal) -> Machines | None:
    """Return the machines under a cluster's nodes, None where chaos itself ends the nodes."""
    if terms.reclaim_by is None:
        return None
    return Machines(connect(terms.reclaim_by), journal, SystemClock())
