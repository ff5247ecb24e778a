"""A machine disappears without a word."""

from pydantic import Field, NonNegativeInt

from chaos.faults.world import Outcome, Release, Victim, World
from chaos.record import Record

PROOF_WITHIN_S = 30.0


class KillNode(Record):
    """Lose the node that the worker runs on: the raylet and all that it started.

    Landed when the cluster's own control plane counts the node as dead and the
    worker's process is gone.
    """

    rank: NonNegativeInt | None = Field(
        default=None,
        description="lose this rank's node; left out: the node of the trigger's rank",
    )

    def strike(self, world: World, victim: Victim, release: Release) -> Outcome:
        """Lose the node while the worker is held."""
        del release  # the gate goes down with the node
        world.lose_node(victim.node_id)
        return lost(world, victim)

    def __str__(self) -> str:
        return "kill_node"


def lost(world: World, victim: Victim) -> Outcome:
    """Say whether the node of `victim`, just struck, is really lost."""
    if not world.node_is_dead(victim.node_id, within_s=PROOF_WITHIN_S):
        return Outcome("fail", f"node {victim.node_id[:8]} is alive after {PROOF_WITHIN_S:g} s")
    if not world.worker_is_gone(victim, within_s=PROOF_WITHIN_S):
        return Outcome("fail", f"node {victim.node_id[:8]} is dead, its pid {victim.pid} is not")
    return Outcome("ok", f"node {victim.node_id[:8]} is dead, with rank {victim.rank} on it")
