"""A node's pod is evicted: SIGTERM to `ray start --block`, and SIGKILL when the grace is over."""

from typing import ClassVar, Self

from pydantic import Field, NonNegativeInt, model_validator

from chaos.faults.base import Fault, SharedCluster
from chaos.faults.kill_node import PROOF_WITHIN_S, prove_node_lost, reclaim_by_platform
from chaos.faults.world import Outcome, Target, WorkerRelease, World

HOOK_MORE_S = 3.0  # the hook outlives its own deadline by a poll of Ray Train's (2 s) and more
NS = 1e9


class EvictNode(Fault):
    """Evict the pod of the worker's node, as Kubernetes does.

    Its first process, `ray start --block`, gets SIGTERM, and all of the pod SIGKILL when `grace_s`
    is over. Ray 2.60 answers SIGTERM with a drain of its own node, with reason PREEMPTION and
    `drain_s` of notice, and then ends the node. Landed when the node is dead and its worker gone;
    where a drain was due, the GCS has announced it. The embedded backend has no `ray start`. On a
    cluster with `reclaim_by` the platform evicts the pod.
    """

    family = "node"
    ends_attempt = "always"
    on_shared_cluster = SharedCluster(
        "never",
        "the first process of a node is not chaos's to signal, and no other node comes",
        platforms=("local", "kubernetes"),
    )
    target_text = "the pod of rank {rank}'s node, and all that runs in it"
    sentence = "the pod of rank {rank}'s node was evicted {place}"
    lost_node_count: ClassVar[int] = 1

    grace_s: float = Field(
        default=30.0,
        ge=0,
        le=600,
        description="seconds to SIGKILL: Kubernetes' terminationGracePeriodSeconds",
    )
    drain_s: float = Field(
        default=30.0,
        ge=0,
        le=600,
        description="the node's RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S; 0: it does not drain",
    )
    hook_s: float = Field(
        default=0.0,
        ge=0,
        le=600,
        description="notice given by a preStop hook, `ray drain-node`, which returns "
        f"{HOOK_MORE_S:g} s after its deadline; SIGTERM follows. The grace counts from the hook on",
    )
    again_after_s: float | None = Field(
        default=None, gt=0, le=600, description="a second SIGTERM so long after the first"
    )
    rank: NonNegativeInt | None = Field(
        default=None,
        description="evict this rank's node; left out: the node of the trigger's rank",
    )

    @model_validator(mode="after")
    def _has_time(self) -> Self:
        if self.hook_s and self.hook_s + HOOK_MORE_S >= self.grace_s:
            raise ValueError(
                f"hook_s and {HOOK_MORE_S:g} s more must be below grace_s: the hook is part of it"
            )
        second_term_s = self.again_after_s
        if second_term_s is not None and second_term_s >= min(
            self.drain_s, self.grace_s - self._term_s
        ):
            raise ValueError("again_after_s must be below drain_s and what is left of grace_s")
        return self

    @property
    def is_announced(self) -> bool:  # type: ignore[override]
        """Whether the loss is announced to Ray, by the drain or by the hook."""
        return bool(self.drain_s or self.hook_s)

    @property
    def releases_worker_itself(self) -> bool:  # type: ignore[override]
        """Whether training goes on between notice and loss."""
        return self.is_announced

    @property
    def platform_refusal(self) -> str | None:
        """The reason against a hook of chaos's own: a pod has its own, or none."""
        if not self.hook_s and self.again_after_s is None:
            return None
        return "with hook_s or again_after_s: a platform sends SIGTERM once, after the pod's hook"

    @property
    def needs_drain_s(self) -> float:
        return self.drain_s

    @property
    def _term_s(self) -> float:
        """The seconds from the beginning of the eviction to SIGTERM."""
        return self.hook_s + HOOK_MORE_S if self.hook_s else 0.0

    @property
    def _notice_s(self) -> float:
        return self.hook_s or self.drain_s

    def loss_ns(self, deadline_ns: int) -> int:
        """Return when the node goes at the latest (monotonic ns), by the deadline in force."""
        ends_s = min(self.grace_s, self._term_s + self.drain_s)
        return deadline_ns + int((ends_s - self._notice_s) * NS)

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        """Evict the pod; training goes on meanwhile, if the loss was announced."""
        outcome = reclaim_by_platform(world, target, release, notice_s=self.grace_s)
        if outcome is not None:
            return outcome
        term_ns = self._terminate(world, target.node_id, release)
        if term_ns is None or not self._await_end(world, target.node_id, term_ns):
            return Outcome("fail", "the job ended before the pod's node did; nothing was lost")
        return prove_node_lost(world, target)

    def _terminate(self, world: World, node_id: str, release: WorkerRelease) -> int | None:
        """Send SIGTERM, after the hook; return when it was sent, None if the run ended before."""
        # With a hook Ray learns of the loss by the hook's drain, and SIGTERM comes when that is
        # over: Ray Train has given the attempt up by then, while the node is still there. Without
        # one, SIGTERM itself makes Ray drain the node (docs/notes, 23).
        if self.hook_s:
            deadline_ns = world.give_notice(node_id, notice_s=self.hook_s)
            release(deadline_ns)
            if not world.wait_for_deadline(deadline_ns + int(HOOK_MORE_S * NS)):
                return None
        term_ns = world.terminate_node(node_id, drains_s=self.drain_s)
        if self.drain_s and not self.hook_s:
            release(term_ns + int(self.drain_s * NS))
        return term_ns

    def _await_end(self, world: World, node_id: str, term_ns: int) -> bool:
        """Wait until Ray ends the node, and end it with the grace; False if the run ended before.

        A node that does not drain goes at once, with the worker that is held.
        """
        if self.again_after_s is not None:
            if not world.wait_for_deadline(term_ns + int(self.again_after_s * NS)):
                return False
            world.terminate_node(node_id, drains_s=0.0)
        left_s = self.grace_s - self._term_s
        if not world.wait_for_deadline(term_ns + int(min(self.drain_s, left_s) * NS)):
            return False
        # Ray 2.60 ends the node itself when its drain is over. Only a node that outlives that, or
        # whose grace is over before, is killed.
        more_s = left_s - self.drain_s
        if more_s <= 0 or not world.await_node_death(node_id, within_s=min(more_s, PROOF_WITHIN_S)):
            world.end_node(node_id)
        return True

    def __str__(self) -> str:
        drain = f"drain of {self.drain_s:g} s" if self.drain_s else "no drain"
        hook = f", after a hook's notice of {self.hook_s:g} s" if self.hook_s else ""
        second_term = "" if self.again_after_s is None else ", SIGTERM twice"
        return f"evict_node (grace {self.grace_s:g} s, {drain}{hook}{second_term})"
