"""The machines that were to take over are not available."""

from typing import ClassVar

from pydantic import Field, PositiveInt

from chaos.faults.base import Fault, SharedCluster
from chaos.faults.return_capacity import add_nodes
from chaos.faults.world import Outcome, Target, WorkerRelease, World

PROOF_WITHIN_S = 30.0


class WithholdCapacity(Fault):
    """Take nodes away that hold no worker, for a time or for good.

    A job that has lost a node finds no other: one of a fixed size waits, an elastic one goes on
    with fewer workers. Landed when the control plane counts the nodes as dead and, after `for_s`,
    as many new ones as alive.
    """

    family = "capacity"
    ends_attempt = "perhaps"
    on_shared_cluster = SharedCluster("never", "it takes nodes that hold none of the job's workers")
    sentence = "idle nodes ({fault.nodes}) were taken away {place}"
    target_text = "nodes without workers"
    releases_worker_itself = True

    rank: ClassVar[None] = None
    nodes: PositiveInt
    for_s: float | None = Field(
        default=None, gt=0, le=600, description="then new ones come; left out: they never do"
    )

    @property
    def nodes_added(self) -> int:
        """The number of nodes that never come back, below 0."""
        return 0 if self.for_s else -self.nodes

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        """Lose idle nodes while the worker is held, and add as many when it is time."""
        del target
        idle_nodes = world.idle_nodes()[: self.nodes]
        if len(idle_nodes) < self.nodes:
            return Outcome("fail", f"{len(idle_nodes)} of {self.nodes} nodes hold no worker")
        for node_id in idle_nodes:
            world.lose_node(node_id)
        for node_id in idle_nodes:
            if not world.await_node_death(node_id, within_s=PROOF_WITHIN_S):
                return Outcome("fail", f"node {node_id[:8]} is alive after {PROOF_WITHIN_S:g} s")
        release(None)
        if self.for_s is None:
            return Outcome("ok", f"{self.nodes} idle nodes are gone for good")
        if not world.wait_seconds(self.for_s):
            return Outcome("ok", f"{self.nodes} idle nodes were gone until the job ended")
        return add_nodes(world, self.nodes)

    def __str__(self) -> str:
        how_long = "for good" if self.for_s is None else f"for {self.for_s:g} s"
        return f"withhold_capacity ({self.nodes} nodes, {how_long})"
