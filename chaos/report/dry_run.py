"""A dry run: the target of each fault of a plan."""

from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from chaos.faults.base import Fault
from chaos.model.plan import Plan
from chaos.plan.permitted import NodeFacts, Permissions, needs_permission, refusals

_STYLES = {"may have faults": "yellow", "spared": "green", "holds no worker": "dim"}


def dry_run(plan: Plan, nodes: Sequence[NodeFacts], permissions: Permissions) -> Group:
    """Return the faults of a plan with their needs, and the cluster's nodes.

    The node of a rank is unknown until the job runs: it may be any permitted node.
    """
    parts: list[Text | Table] = [Text(plan.scenario, style="bold"), _faults(plan, permissions)]
    missing = needs_permission(plan, permissions)
    if missing is not None:
        line = f"not allowed: {missing}; it needs --allow-faults-on {plan.shape.address}"
        parts.append(Text(line, style="red"))
    if plan.shape.address is None:
        shape = plan.shape
        line = f"on a local cluster of {shape.nodes} nodes that chaos starts and ends"
        parts.append(Text(line, style="dim"))
    else:
        parts += [Text(f"nodes of the cluster at {plan.shape.address}"), _nodes(nodes)]
    return Group(*parts, Text("nothing was done", style="dim"))


def _faults(plan: Plan, permissions: Permissions) -> Table | Text:
    if not plan.ops:
        return Text("no fault is planned")
    refused = {refusal.op.index: refusal.why for refusal in refusals(plan, permissions)}
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("fault", "place", "target", "needs"):
        table.add_column(title, overflow="fold")
    for op in plan.ops:
        if op.index in refused:
            whom, needs = "none: refused", refused[op.index]
        else:
            whom, needs = op.fault.whom.format(rank=op.target_rank), _needs(plan, op.fault)
        table.add_row(str(op.fault), str(op.at), whom, Text(needs))
    return table


def _needs(plan: Plan, fault: Fault) -> str:
    if plan.shape.address is None:
        return "nothing"
    costs_a_node = fault.on_shared_cluster.rule == "costs a node"
    return "--allow-faults-on" + (" and --allow-node-loss" if costs_a_node else "")


def _nodes(nodes: Sequence[NodeFacts]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("node", "address", "CPUs", "", "why"):
        table.add_column(title)
    for node in sorted(nodes, key=lambda n: (n.standing, n.address, n.node_id)):
        standing = Text(node.standing, style=_STYLES[node.standing])
        why = node.protection or ""
        table.add_row(node.node_id[:8], node.address, f"{node.cpus:g}", standing, why)
    return table
