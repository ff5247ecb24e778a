"""Machines disappear without a word, one or several in an instant."""

from typing import Self

from pydantic import Field, NonNegativeInt, model_validator

from chaos.faults.base import PLATFORMS, Fault, SharedCluster
from chaos.faults.world import LauncherFeature, Outcome, Target, WorkerRelease, World

PROOF_WITHIN_S = 30.0


class KillNode(Fault):
    """Lose the node that the worker runs on: the raylet and all that it started.

    Landed when the cluster's own control plane counts every node as dead and the workers' processes
    are gone. On a cluster with `reclaim_by` the platform takes the nodes.
    """

    family = "node"
    ends_attempt = "always"
    on_shared_cluster = SharedCluster(
        "costs a node", "the node is lost, and chaos cannot start another", platforms=PLATFORMS
    )
    at_random = ({},)
    target_text = "the node of rank {rank}, and all that runs on it"

    rank: NonNegativeInt | None = Field(
        default=None,
        description="lose this rank's node; left out: the node of the trigger's rank",
    )
    ranks: tuple[NonNegativeInt, ...] = Field(
        default=(),
        description="lose the nodes of all these ranks in one instant, as a rack or a zone goes",
    )
    raylet_only: bool = Field(
        default=False,
        description="end the raylet alone; a worker ends itself if it next calls it (the "
        "embedded backend ends the workers)",
    )

    lose_unsynced: bool = Field(
        default=False,
        description="empty what its processes had not synced (`os.fsync`) on disks that "
        "outlive the node, as the loss of power may: the newest of numbered "
        "files (emulated nodes alone)",
    )

    @model_validator(mode="after")
    def _names_targets_once(self) -> Self:
        if self.ranks and self.rank is not None:
            raise ValueError("kill_node has either rank or ranks")
        if self.raylet_only and self.lose_unsynced:
            raise ValueError("kill_node has either raylet_only or lose_unsynced")
        return self

    @property
    def needs(self) -> LauncherFeature | None:  # type: ignore[override]
        """The cluster, if its node stays: an agent without its workers is none."""
        return "cluster" if self.raylet_only else None

    @property
    def lost_node_count(self) -> int:
        """The largest number of nodes that go: two ranks may share one."""
        return len(set(self.ranks)) or 1

    @property
    def shared_cluster_refusal(self) -> str | None:
        """The reason against settings of nodes whose processes, or writes, are not seen there."""
        if self.lose_unsynced:
            return "with lose_unsynced: what its processes write is not seen"
        if not self.raylet_only:
            return None
        return "not without its workers: with the raylet gone, nothing shows that they ended"

    @property
    def needs_disks(self) -> bool:
        """Whether what its node's processes write has to be known."""
        return self.lose_unsynced

    def describe_injection(self, rank: int | None, place: str) -> str:
        """Return the injection in words, with the nodes named by their ranks."""
        ranks = sorted(set(self.ranks)) if self.ranks else [rank]
        unsynced = ", with what was not synced" if self.lose_unsynced else ""
        if len(ranks) == 1:
            return f"the node of rank {ranks[0]} was lost {place}{unsynced}"
        return f"the nodes of ranks {', '.join(map(str, ranks))} were lost {place}{unsynced}"

    def inject(self, world: World, target: Target, release: WorkerRelease) -> Outcome:
        del release  # the gate goes down with the node
        # The targets are read before the first node goes: their workers are of the group that was
        # there, and of two on one node, which is lost once, each is a proof of its own.
        targets = self._targets(world) or [target]
        emptied_files: list[str] = []
        for node_id in dict.fromkeys(v.node_id for v in targets):
            emptied_files += world.lose_node(
                node_id, raylet_only=self.raylet_only, unsynced=self.lose_unsynced
            )
        prove = prove_node_dead if self.raylet_only else prove_node_lost
        outcomes = [prove(world, v) for v in targets]
        failed_outcomes = [outcome for outcome in outcomes if outcome.status != "ok"]
        if failed_outcomes:
            return failed_outcomes[0]
        details = [outcome.detail for outcome in outcomes]
        if self.lose_unsynced:
            details.append(f"not synced, and empty now: {', '.join(emptied_files) or 'nothing'}")
        return Outcome("ok", "; ".join(details), emptied_files=tuple(emptied_files))

    def _targets(self, world: World) -> list[Target]:
        group = world.list_targets()
        missing = sorted(set(self.ranks) - set(group))
        if missing:
            raise ProcessLookupError(f"no worker holds rank {missing[0]}")
        return [group[rank] for rank in sorted(set(self.ranks))]

    def __str__(self) -> str:
        text = "kill_node (raylet only)" if self.raylet_only else "kill_node"
        text = "kill_node (unsynced files too)" if self.lose_unsynced else text
        return f"{text} of ranks {', '.join(map(str, self.ranks))}" if self.ranks else text


def prove_node_dead(world: World, target: Target) -> Outcome:
    """Return the outcome `ok` if the cluster counts the node of `target` as dead."""
    name = f"node {target.node_id[:8]}"
    is_dead = world.await_node_death(target.node_id, within_s=PROOF_WITHIN_S)
    taker = world.describe_taker(target.node_id)
    if not is_dead:
        reason = f" after {PROOF_WITHIN_S:g} s" if taker is None else f", though {taker}"
        return Outcome("fail", f"{name} is alive{reason}")
    detail = f"{name} is dead, with rank {target.rank} on it"
    return Outcome("ok", detail if taker is None else f"{detail}; {taker}")


def prove_node_lost(world: World, target: Target) -> Outcome:
    """Return the outcome `ok` if the node of `target` is really lost, and its worker with it."""
    outcome = prove_node_dead(world, target)
    if outcome.status != "ok":
        return outcome
    if not world.await_worker_end(target, within_s=PROOF_WITHIN_S):
        return Outcome("fail", f"node {target.node_id[:8]} is dead, its pid {target.pid} is not")
    return outcome


def reclaim_by_platform(
    world: World, target: Target, release: WorkerRelease, *, notice_s: float
) -> Outcome | None:
    """Reclaim the node by its platform; return the outcome, None without a platform.

    The worker is released once the cluster has its drain announced, or no drain has come soon.
    """
    is_gone = world.reclaim_node(target.node_id, notice_s=notice_s, release=release)
    if is_gone is None:
        return None
    if not is_gone:
        return Outcome("fail", "the job ended before its platform had taken the node")
    return prove_node_lost(world, target)
