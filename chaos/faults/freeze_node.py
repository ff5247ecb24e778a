"""A machine stands still: nothing on it runs, and no connection to it is closed."""

from pydantic import Field, NonNegativeInt

from chaos.faults.world import Outcome, Release, Victim, World
from chaos.record import Record

PROOF_WITHIN_S = 10.0


class FreezeNode(Record):
    """Stop the raylet of the worker's node and all below it, and let them go on after a time.

    No socket is closed, so only timeouts can see it: a short one is a pause,
    a long one the loss of the node. Landed when every process was seen to
    stand still; healed by SIGCONT, at the latest when the run is over.
    """

    for_s: float = Field(gt=0, le=600, description="seconds that the node stands still")
    rank: NonNegativeInt | None = Field(
        default=None,
        description="freeze this rank's node; left out: the node of the trigger's rank",
    )

    @property
    def nodes_lost(self) -> int:
        """The cluster may give a node up that is silent for long."""
        return 1

    def strike(self, world: World, victim: Victim, release: Release) -> Outcome:
        """Stop the node, let go of the held worker, and continue the node when it is time."""
        stopped = world.freeze_node(victim.node_id)
        try:
            if not world.are_stopped(stopped, within_s=PROOF_WITHIN_S):
                return Outcome("fail", f"node {victim.node_id[:8]} went on running")
            release(None)
            world.wait(self.for_s)
        finally:
            world.thaw(stopped)
        return Outcome(
            "ok",
            f"{len(stopped)} processes of node {victim.node_id[:8]} stood still, "
            f"with rank {victim.rank} on it",
        )

    def __str__(self) -> str:
        return f"freeze_node ({self.for_s:g} s)"
