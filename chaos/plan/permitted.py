"""Permissions on a cluster that chaos did not start: pure rules, for plans and for injections.

There are three rules. Nothing happens to a cluster that the user has not named twice. A fault that
may cost a node, which chaos cannot bring back, takes an option of its own. The head, chaos's own
node, and nodes without a worker of the job are never targets.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from chaos.model.plan import Op, Plan

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

    def over(self, plan: Plan) -> Plan:
        """Return a plan for the command line's cluster, if it names one; else for the file's."""
        address, storage = plan.shape.address, plan.shape.storage
        if self.address is not None:
            address, storage = self.address, self.storage or storage
        if plan.backend != "ray":  # it needs no cluster, and has none
            address, storage = None, None
        shape = plan.shape.model_copy(update={"address": address, "storage": storage})
        return plan.model_copy(update={"shape": shape})


@dataclass(frozen=True)
class NodeFacts:
    """One node of a cluster. `is_own`: the harness runs there."""

    node_id: str
    address: str
    cpus: float
    is_head: bool = False
    is_own: bool = False

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
    if address is None or plan.backend != "ray" or permissions.faults_on == address:
        return None
    if permissions.faults_on is None:
        return f"chaos did not start the cluster at {address}, and faults are not allowed on it"
    return f"faults are allowed on {permissions.faults_on}, and the scenario's cluster is {address}"


def refusals(plan: Plan, permissions: Permissions) -> tuple[Refusal, ...]:
    """Return the ops that cannot, or must not, be carried out on a cluster that runs already."""
    if plan.shape.address is None:
        return ()
    found = ((op, _refused(op, permissions)) for op in plan.ops)
    return tuple(Refusal(op, why) for op, why in found if why is not None)


def _refused(op: Op, permissions: Permissions) -> str | None:
    rule = op.fault.on_shared_cluster
    if rule.rule == "never":
        return f"not on a cluster that chaos did not start: {rule.why}"
    if rule.rule == "costs a node" and not permissions.node_loss:
        return f"needs --allow-node-loss: {rule.why}"
    return op.fault.refused_elsewhere


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
