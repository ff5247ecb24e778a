"""Permissions on a cluster that chaos did not start: pure rules, for plans and for injections.

There are three rules. Nothing happens to a cluster that the user has not named twice. A fault that
may cost a node, which chaos cannot bring back, takes an option of its own. The head, chaos's own
node, and nodes without a worker of the job are never targets.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from chaos.faults.base import Platform
from chaos.model.plan import Op, Plan
from chaos.model.scenario import platform_in

Standing: TypeAlias = Literal["may have faults", "spared", "holds no worker"]

HEAD = "the head node is spared"
OWN = "chaos itself runs on this node"
UNUSED = "no worker of this job runs on this node"


@dataclass(frozen=True)
class Permissions:
    """The permissions that the user has stated, on the command line and nowhere else."""

    faults_on: str | None = None
    node_loss: bool = False


@dataclass(frozen=True)
class ClusterOverrides:
    """The command line's options for a cluster that chaos did not start."""

    address: str | None = None
    storage: str | None = None
    permissions: Permissions = Permissions()
    reclaim_by: str | None = None

    def over(self, plan: Plan) -> Plan:
        """Return a plan for the command line's cluster, if it names one; else for the file's."""
        if not plan.has_cluster:
            there: dict[str, str | None] = dict.fromkeys(("address", "storage", "reclaim_by"))
        elif self.address is not None:
            stated = {"storage": self.storage, "reclaim_by": self.reclaim_by}
            kept = {k: v for k, v in stated.items() if v and k in plan.job.facts.cluster}
            there = {"address": self.address, **kept}
        else:
            return plan
        shape = plan.shape.model_copy(update=there)
        return plan.model_copy(update={"shape": shape})


@dataclass(frozen=True)
class NodeFacts:
    """One node of a cluster, with a port at which it listens."""

    node_id: str
    address: str
    cpus: float
    port: int = 0
    hostname: str = ""
    is_head: bool = False
    #: the harness runs there
    is_own: bool = False
    #: those of a Slurm's
    partitions: frozenset[str] = frozenset()

    @property
    def protection(self) -> str | None:
        """The reason why the node is never a target; None where it may be one."""
        if self.is_head:
            return HEAD
        return OWN if self.is_own else None

    @property
    def standing(self) -> Standing:
        """Whether the node may be a target, as far as that is known before a run."""
        if self.protection is not None:
            return "spared"
        return "may have faults" if self.cpus > 0 else "holds no worker"


@dataclass(frozen=True)
class Refusal:
    """An op that will not be carried out, and the reason."""

    op: Op
    why: str

    def __str__(self) -> str:
        return f"{self.op.kind} (fault {self.op.index}): {self.why}"


def needs_permission(plan: Plan, permissions: Permissions) -> str | None:
    """Return which permission the plan's cluster lacks, None where it lacks none."""
    address = plan.shape.address
    if address is None or not plan.has_cluster or permissions.faults_on == address:
        return None
    if permissions.faults_on is None:
        return f"chaos did not start the cluster at {address}, and faults are not allowed on it"
    return f"faults are allowed on {permissions.faults_on}, and the scenario's cluster is {address}"


def refusals(plan: Plan, permissions: Permissions) -> tuple[Refusal, ...]:
    """Return the ops that cannot, or must not, be carried out on a cluster that runs already."""
    if plan.shape.address is None:
        return ()
    found = ((op, _refused(plan, op, permissions)) for op in plan.ops)
    return tuple(Refusal(op, why) for op, why in found if why is not None)


def platform_for(plan: Plan, op: Op) -> Platform | None:
    """Return the platform that takes the node of an op in place of chaos; None where none does."""
    if plan.shape.reclaim_by is None:
        return None
    platform, _ = platform_in(plan.shape.reclaim_by)
    return platform if platform in op.fault.on_shared_cluster.by else None


def _refused(plan: Plan, op: Op, permissions: Permissions) -> str | None:
    rule, platform = op.fault.on_shared_cluster, platform_for(plan, op)
    if rule.rule == "costs a node" and not plan.job.facts.lacks_part("queue"):
        return "not on a cluster that chaos did not start: its nodes are not a user's to take"
    if rule.rule == "never" and platform is None:
        able = f" ({' or '.join(rule.by)} does it: --reclaim-by)" if rule.by else ""
        return f"not on a cluster that chaos did not start{able}: {rule.why}"
    why = rule.why if platform is None else f"{platform} takes the node, and chaos starts no other"
    if rule.rule != "safe" and not permissions.node_loss:
        return f"needs --allow-node-loss: {why}"
    by_platform = None if platform is None else op.fault.refused_by_platform
    return op.fault.refused_elsewhere or by_platform


@dataclass(frozen=True)
class Guard:
    """The permission of each single injection, by the facts at that moment."""

    protected: Mapping[str, str]
    node_loss: bool

    @classmethod
    def over(cls, nodes: Sequence[NodeFacts], permissions: Permissions) -> "Guard":
        """Return the guard of a cluster with these nodes."""
        protected = {n.node_id: n.protection for n in nodes if n.protection is not None}
        return cls(protected=protected, node_loss=permissions.node_loss)

    def refuses(
        self, node_id: str, *, used: Collection[str], costs_node: bool = False
    ) -> str | None:
        """Return why a node must not be a target; None where it may be one.

        `used` are the nodes that hold the job's workers now.
        """
        if node_id in self.protected:
            return self.protected[node_id]
        if node_id not in used:
            return UNUSED
        if costs_node and not self.node_loss:
            return "the node may be lost by it, and --allow-node-loss was not given"
        return None
