"""A machine is cut off: it runs on, and no message leaves or reaches it."""

from typing import ClassVar

from pydantic import Field, NonNegativeInt

from chaos.faults.base import Fault, SharedCluster
from chaos.faults.world import Outcome, Target, WorkerRelease, World

PROOF_WITHIN_S = 10.0
# For a node's network to be up again, beyond the time for which it was to be down.
BACK_WITHIN_S = 15.0


class PartitionNode(Fault):
    """Take the network of the worker's node down, and up again after a time.

    Connections survive a short cut; after a long one the cluster has given the node up. Landed when
    the node's address no longer answers. The node puts its network up again by a timer of its own.
    It needs a cluster whose nodes have addresses of their own.
    """

    family = "node"
    ends_attempt = "perhaps"
    on_shared_cluster = SharedCluster("costs a node", "Ray gives a node up that is silent for long")
    sentence = "the node of rank {rank} was cut off for {fault.for_s:g} s {place}"
    target_text = "the node of rank {rank}, and all that runs on it"
    lost_node_count: ClassVar[int] = 1  # the cluster may give a node up that is silent for long
    stops_progress = True

    for_s: float = Field(gt=0, le=600, description="seconds that the node is cut off")
    rank: NonNegativeInt | None = Field(
        default=None,
        description="cut this rank's node off; left out: the node of the trigger's rank",
    )

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        """Cut the node off while the worker is held; its release arrives once the node is back."""
        del release
        name = f"node {target.node_id[:8]}"
        world.cut_off_node(target.node_id, for_s=self.for_s)
        if world.await_node_silence(target.node_id, within_s=min(PROOF_WITHIN_S, self.for_s)):
            return Outcome("ok", f"{name} does not answer, with rank {target.rank} on it")
        return Outcome("fail", f"{name} still answers")

    def heal(self, world: World, target: Target) -> str:
        """Wait until the node has put its network up again, which it does by itself."""
        name = f"node {target.node_id[:8]}"
        world.wait_seconds(self.for_s)
        if world.await_node_return(target.node_id, within_s=self.for_s + BACK_WITHIN_S):
            return f"{name} answers again"
        return f"{name} does not answer after {self.for_s + BACK_WITHIN_S:g} s more"

    def __str__(self) -> str:
        return f"partition_node ({self.for_s:g} s)"
