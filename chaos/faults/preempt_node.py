"""A spot machine is reclaimed: a notice, then the loss of the node, or a false alarm."""

from typing import ClassVar, Literal, TypeAlias

from pydantic import Field, NonNegativeInt

from chaos.faults.base import PLATFORMS, Fault, SecondsRange, SharedCluster
from chaos.faults.kill_node import prove_node_lost, reclaim_by_platform
from chaos.faults.world import LauncherFeature, Outcome, Target, WorkerRelease, World

Reclaim: TypeAlias = Literal["on_time", "early", "late", "never"]

# The time of the loss, in parts of the notice.
_PARTS: dict[Reclaim, float] = {"on_time": 1.0, "early": 0.5, "late": 2.0}

# Ray gives an attempt up at the deadline. Whether its poll saw that or the broken connection was
# chance: in one run of four the loss was charged to `max_failures`.
RULING_S = 1.0


class PreemptNode(Fault):
    """Announce the loss of the worker's node, let training go on, lose it at the deadline.

    The notice is Ray's own drain with reason PREEMPTION. Ray never ends a drained node (read in
    2.60.0), so chaos ends it at the deadline, as the cloud does. Ray gives the attempt up at that
    same moment. `on_time` lets Ray do so first, for `RULING_S` at most; otherwise the order would
    be chance (2.60.0 charges a node that went first to `max_failures`). Landed when the node is
    dead; a false alarm (`never`) when the node outlives its deadline. On a cluster with
    `reclaim_by` the platform announces and takes the node.
    """

    family = "node"
    ends_attempt = "always"
    on_shared_cluster = SharedCluster(
        "costs a node", "Ray has no undrain, and the node may be lost", platforms=PLATFORMS
    )
    # A notice long enough for a poll of Ray's controller, short enough for a job of some seconds.
    at_random = ({"notice_s": SecondsRange(0.2, 0.5)},)
    sentence = "the node of rank {rank} was {fault.announced} {place} and {fault.reclaimed}"
    target_text = "the node of rank {rank}, and all that runs on it"
    lost_node_count: ClassVar[int] = 1  # a drained node holds no worker again, though it may stay
    releases_worker_itself = True
    is_announced = True

    notice_s: float = Field(ge=0, le=600, description="seconds between the notice and the deadline")
    reclaim: Reclaim = Field(
        default="on_time",
        description="when the node goes: at its deadline; `early`: after half of the "
        "notice; `late`: after twice the notice; `never`: it stays",
    )
    rank: NonNegativeInt | None = Field(
        default=None,
        description="lose this rank's node; left out: the node of the trigger's rank",
    )

    @property
    def needs(self) -> LauncherFeature | None:  # type: ignore[override]
        """The cluster, if the node stays: an agent that was sent SIGTERM does not."""
        return "cluster" if self.reclaim == "never" else None

    @property
    def platform_refusal(self) -> str | None:
        """The reason against another end than the deadline, which is the platform's own."""
        if self.reclaim == "on_time":
            return None
        return f"with reclaim: {self.reclaim}: a platform takes a node when its notice is over"

    @property
    def announced(self) -> str:
        """The beginning of it, as part of a sentence: without a notice nothing announces it."""
        return "given notice" if self.notice_s else "preempted"

    @property
    def reclaimed(self) -> str:
        """The end of the node, as part of a sentence."""
        if not self.notice_s and self.reclaim != "never":
            return "lost at once"
        lost_ns = self.loss_ns(int(self.notice_s * 1e9))
        return "stayed" if lost_ns is None else f"lost {lost_ns / 1e9:g} s later"

    def loss_ns(self, deadline_ns: int) -> int | None:
        """Return the time at which the node goes (monotonic ns); None where it stays."""
        part = _PARTS.get(self.reclaim)
        return None if part is None else deadline_ns + int((part - 1) * self.notice_s * 1e9)

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        """Announce the loss while the worker is held, release it, and lose the node in time."""
        outcome = reclaim_by_platform(world, target, release, notice_s=self.notice_s)
        if outcome is not None:
            return outcome
        deadline_ns = world.give_notice(target.node_id, notice_s=self.notice_s)
        world.post_notice(target.node_id, deadline_ns=deadline_ns)
        release(deadline_ns)
        loss_ns = self.loss_ns(deadline_ns)
        reached = world.wait_for_deadline(deadline_ns if loss_ns is None else loss_ns)
        # A cloud stops a machine when the deadline is over, not at the millisecond. Ray gives the
        # attempt up at the deadline by itself, and is let do so first.
        if reached and self.reclaim == "on_time" and self.notice_s:
            world.wait_for_failure(target, within_s=RULING_S)
            reached = world.wait_seconds(0.0)
        if not reached and world.await_node_death(target.node_id, within_s=0.0):
            return prove_node_lost(world, target)  # torchrun's agent leaves before its deadline
        if not reached:
            return Outcome("fail", "the job ended before the node's deadline; nothing was lost")
        if loss_ns is not None:
            world.lose_node(target.node_id)
            return prove_node_lost(world, target)
        if world.await_node_death(target.node_id, within_s=0.0):
            return Outcome("fail", f"node {target.node_id[:8]} was to stay, and is dead")
        return Outcome("ok", f"node {target.node_id[:8]} was announced to go, and stayed")

    def __str__(self) -> str:
        loss_text = {"on_time": "", "never": ", a false alarm"}.get(
            self.reclaim, f", lost {self.reclaim}"
        )
        return f"preempt_node ({self.notice_s:g} s notice{loss_text})"
