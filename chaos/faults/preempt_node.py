"""A spot machine is reclaimed: a notice, then the loss of the node at the deadline."""

from pydantic import Field, NonNegativeInt

from chaos.faults.kill_node import lost
from chaos.faults.world import Outcome, Release, Victim, World
from chaos.record import Record


class PreemptNode(Record):
    """Announce the loss of the worker's node, let training go on, lose it at the deadline.

    The notice is Ray's own drain with reason PREEMPTION. Ray never ends a
    drained node (read in 2.60.0); the loss at the deadline is ours, as it is
    the cloud's. Landed when the node is dead.
    """

    notice_s: float = Field(gt=0, le=600, description="seconds between the notice and the loss")
    rank: NonNegativeInt | None = Field(
        default=None,
        description="lose this rank's node; left out: the node of the trigger's rank",
    )

    def strike(self, world: World, victim: Victim, release: Release) -> Outcome:
        """Give notice while the worker is held, release it, and lose the node in time."""
        deadline_ns = world.give_notice(victim.node_id, notice_s=self.notice_s)
        release(deadline_ns)
        if not world.wait_until(deadline_ns):
            return Outcome("fail", "the job ended before the node's deadline; nothing was lost")
        world.lose_node(victim.node_id)
        return lost(world, victim)

    def __str__(self) -> str:
        return f"preempt_node ({self.notice_s:g} s notice)"
