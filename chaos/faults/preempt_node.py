"""A spot machine is reclaimed: a notice, then the loss of the node, or a false alarm."""

from typing import Literal, TypeAlias

from pydantic import Field, NonNegativeInt

from chaos.faults.kill_node import lost
from chaos.faults.world import Outcome, Release, Victim, World
from chaos.record import Record

Reclaim: TypeAlias = Literal["on_time", "early", "late", "never"]

# When the node goes, in parts of its notice.
_PARTS: dict[Reclaim, float] = {"on_time": 1.0, "early": 0.5, "late": 2.0}

RULING_S = 1.0


class PreemptNode(Record):
    """Announce the loss of the worker's node, let training go on, lose it at the deadline.

    The notice is Ray's own drain with reason PREEMPTION. Ray never ends a
    drained node (read in 2.60.0); the loss at the deadline is ours, as it is
    the cloud's. A cloud stops a machine when its deadline is over, not a
    moment sooner, and Ray gives the attempt up by itself at that same moment:
    `on_time` lets Ray do so first, for `RULING_S` at most, or it would be
    chance which of the two the controller sees (2.60.0 charges the broken
    connections of a node that went first to `max_failures`). A node that is
    gone while Ray still counts on it is `early`, or had no notice. Landed when the node is dead;
    a false alarm (`never`) when the node outlives its deadline.
    """

    notice_s: float = Field(ge=0, le=600, description="seconds between the notice and the deadline")
    reclaim: Reclaim = Field(
        default="on_time",
        description="when the node goes: when its deadline is over; `early`: after half of the "
        "notice; `late`: after twice the notice; `never`: a false alarm, and the node stays",
    )
    rank: NonNegativeInt | None = Field(
        default=None,
        description="lose this rank's node; left out: the node of the trigger's rank",
    )

    @property
    def nodes_lost(self) -> int:
        """A drained node holds no worker again, whether it goes or not (Ray has no undrain)."""
        return 1

    def loss_ns(self, deadline_ns: int) -> int | None:
        """Give when the node goes (monotonic ns); None where it stays."""
        part = _PARTS.get(self.reclaim)
        return None if part is None else deadline_ns + int((part - 1) * self.notice_s * 1e9)

    def strike(self, world: World, victim: Victim, release: Release) -> Outcome:
        """Give notice while the worker is held, release it, and lose the node in time."""
        deadline_ns = world.give_notice(victim.node_id, notice_s=self.notice_s)
        release(deadline_ns)
        loss_ns = self.loss_ns(deadline_ns)
        reached = world.wait_until(deadline_ns if loss_ns is None else loss_ns)
        if reached and self.reclaim == "on_time" and self.notice_s:
            world.failure_of(victim, within_s=RULING_S)
            reached = world.let_pass(0.0)
        if not reached:
            return Outcome("fail", "the job ended before the node's deadline; nothing was lost")
        if loss_ns is not None:
            world.lose_node(victim.node_id)
            return lost(world, victim)
        if world.node_is_dead(victim.node_id, within_s=0.0):
            return Outcome("fail", f"node {victim.node_id[:8]} was to stay, and is dead")
        return Outcome("ok", f"node {victim.node_id[:8]} was announced to go, and stayed")

    def __str__(self) -> str:
        when = {"on_time": "", "never": ", a false alarm"}.get(
            self.reclaim, f", lost {self.reclaim}"
        )
        return f"preempt_node ({self.notice_s:g} s notice{when})"
