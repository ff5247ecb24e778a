"""A machine stands still: nothing on it runs, and no connection to it is closed."""

from typing import ClassVar

from pydantic import Field, NonNegativeInt

from chaos.faults.base import Fault, SecondsRange, SharedCluster
from chaos.faults.world import Outcome, Target, WorkerRelease, World

PROOF_WITHIN_S = 10.0


class FreezeNode(Fault):
    """Stop the raylet of the worker's node and all below it, and let them go on after a time.

    No socket is closed, so only timeouts can see it. Landed when every process was seen to stand
    still; healed by SIGCONT, at the latest when the run is over.
    """

    family = "node"
    ends_attempt = "perhaps"
    needs = None
    on_shared_cluster = SharedCluster("costs a node", "Ray gives a node up that is silent for long")
    at_random = ({"for_s": SecondsRange(0.1, 0.5)},)
    sentence = "the node of rank {rank} stood still for {fault.for_s:g} s {place}"
    target_text = "the node of rank {rank}, and all that runs on it"
    lost_node_count: ClassVar[int] = 1  # the cluster may give a node up that is silent for long
    stops_progress = True

    for_s: float = Field(gt=0, le=600, description="seconds that the node stands still")
    rank: NonNegativeInt | None = Field(
        default=None,
        description="freeze this rank's node; left out: the node of the trigger's rank",
    )

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        """Stop the node while the worker is held; the gate opens on a stopped node."""
        del release
        name = f"node {target.node_id[:8]}"
        stopped = world.freeze_node(target.node_id, within_s=PROOF_WITHIN_S)
        if stopped is None:
            world.thaw_node(target.node_id)
            return Outcome("fail", f"{name} went on running")
        return Outcome(
            "ok", f"{stopped} processes of {name} stand still, with rank {target.rank} on it"
        )

    def heal(self, world: World, target: Target) -> str:
        time_text = (
            f"after {self.for_s:g} s" if world.wait_seconds(self.for_s) else "at the end of the run"
        )
        world.thaw_node(target.node_id)
        return f"node {target.node_id[:8]} goes on {time_text}"

    def __str__(self) -> str:
        return f"freeze_node ({self.for_s:g} s)"
