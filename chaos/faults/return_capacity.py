"""Machines are available again: new nodes join the cluster."""

from typing import ClassVar

from pydantic import Field, PositiveInt

from chaos.faults.base import Fault, SharedCluster
from chaos.faults.world import Outcome, Target, WorkerRelease, World

PROOF_WITHIN_S = 60.0


class ReturnCapacity(Fault):
    """Add nodes, as a cloud does that replaces the nodes it took.

    An elastic job that was short of workers grows again; one that waits for room goes on. Landed
    when the control plane counts the new nodes as alive.
    """

    family = "capacity"
    ends_attempt = "perhaps"
    needs = None
    on_shared_cluster = SharedCluster("never", "chaos starts no nodes there")
    sentence = "new nodes ({fault.nodes}) were added {place}"
    target_text = "nobody"
    releases_worker_itself = True

    rank: ClassVar[None] = None
    nodes: PositiveInt
    after_s: float = Field(
        default=0.0, ge=0, le=600, description="seconds from the place until they come"
    )
    hold: bool = Field(
        default=False,
        description="the worker stays at the place until they have joined",
    )

    @property
    def nodes_added(self) -> int:
        return self.nodes

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        """Release the worker, unless it is to wait, and add the nodes when it is time."""
        del target
        if not self.hold:
            release(None)
        if not world.wait_seconds(self.after_s):
            return Outcome("fail", "the job ended before the nodes were to come")
        return add_nodes(world, self.nodes)

    def __str__(self) -> str:
        delay_text = f", after {self.after_s:g} s" if self.after_s else ""
        hold_text = ", training held until they are there" if self.hold else ""
        return f"return_capacity ({self.nodes} nodes{delay_text}{hold_text})"


def add_nodes(world: World, count: int) -> Outcome:
    """Add nodes, and return the outcome `ok` if the cluster counts them as alive."""
    joined_nodes = world.add_nodes(count, within_s=PROOF_WITHIN_S)
    if len(joined_nodes) < count:
        return Outcome(
            "fail", f"{len(joined_nodes)} of {count} nodes came within {PROOF_WITHIN_S:g} s"
        )
    return Outcome("ok", f"joined: node {', '.join(node_id[:8] for node_id in joined_nodes)}")
