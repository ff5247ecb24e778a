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
from chaos.model.scenario import parse_platform

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

    def apply(self, plan: Plan) -> Plan:
        """Return a plan for the command line's cluster, if it names one; else for the file's."""
        if not plan.has_cluster:
            cluster_options: dict[str, str | None] = dict.fromkeys(
                ("address", "storage", "reclaim_by")
            )
        elif self.address is not None:
            stated_options = {"storage": self.storage, "reclaim_by": self.reclaim_by}
            supported_options = {
                k: v
                for k, v in stated_options.items()
                if v and k in plan.job.launcher_facts.fields.cluster
            }
            cluster_options = {"address": self.address, **supported_options}
        else:
            return plan
        shape = plan.shape.model_copy(update=cluster_options)
        return plan.replace(shape=shape)


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
    def protection_reason(self) -> str | None:
        """The reason why the node is never a target; None where it may be one."""
        if self.is_head:
            return HEAD
        return OWN if self.is_own else None

    @property
    def standing(self) -> Standing:
        """Whether the node may be a target, as far as that is known before a run."""
        if self.protection_reason is not None:
            return "spared"
        return "may have faults" if self.cpus > 0 else "holds no worker"


@dataclass(frozen=True)
class Refusal:
    """An op that will not be carried out, and the reason."""

    op: Op
    reason: str

    def __str__(self) -> str:
        return f"{self.op.kind} (fault {self.op.index}): {self.reason}"


def find_missing_permission(plan: Plan, permissions: Permissions) -> str | None:
    """Return which permission the plan's cluster lacks, None where it lacks none."""
    address = plan.shape.address
    if address is None or not plan.has_cluster or permissions.faults_on == address:
        return None
    if permissions.faults_on is None:
        return f"chaos did not start the cluster at {address}, and faults are not allowed on it"
    return f"faults are allowed on {permissions.faults_on}, and the scenario's cluster is {address}"


def find_refusals(plan: Plan, permissions: Permissions) -> tuple[Refusal, ...]:
    """Return the ops that cannot, or must not, be carried out on a cluster that runs already."""
    if plan.shape.address is None:
        return ()
    op_reasons = ((op, _find_refusal_reason(plan, op, permissions)) for op in plan.ops)
    return tuple(Refusal(op, reason) for op, reason in op_reasons if reason is not None)


def find_platform(plan: Plan, op: Op) -> Platform | None:
    """Return the platform that takes the node of an op in place of chaos; None where none does."""
    if plan.shape.reclaim_by is None:
        return None
    platform, _ = parse_platform(plan.shape.reclaim_by)
    return platform if platform in op.fault.on_shared_cluster.platforms else None


def _find_refusal_reason(plan: Plan, op: Op, permissions: Permissions) -> str | None:
    rule, platform = op.fault.on_shared_cluster, find_platform(plan, op)
    refusal = plan.job.launcher_facts.nodes.shared_loss_refusal
    if rule.rule == "costs a node" and refusal:
        return f"not on a cluster that chaos did not start: {refusal}"
    if rule.rule == "never" and platform is None:
        platforms_text = (
            f" ({' or '.join(rule.platforms)} does it: --reclaim-by)" if rule.platforms else ""
        )
        return f"not on a cluster that chaos did not start{platforms_text}: {rule.why}"
    reason = (
        rule.why if platform is None else f"{platform} takes the node, and chaos starts no other"
    )
    if rule.rule != "safe" and not permissions.node_loss:
        return f"needs --allow-node-loss: {reason}"
    by_platform = None if platform is None else op.fault.platform_refusal
    return op.fault.shared_cluster_refusal or by_platform


@dataclass(frozen=True)
class InjectionGuard:
    """The permission of each single injection, by the facts at that moment."""

    protected: Mapping[str, str]
    node_loss: bool

    @classmethod
    def from_nodes(cls, nodes: Sequence[NodeFacts], permissions: Permissions) -> "InjectionGuard":
        """Return the guard of a cluster with these nodes."""
        protected = {
            n.node_id: n.protection_reason for n in nodes if n.protection_reason is not None
        }
        return cls(protected=protected, node_loss=permissions.node_loss)

    def find_refusal(
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
