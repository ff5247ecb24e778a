"""The dry run of a plan: its faults with their needs, and the nodes of the cluster."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console, Group
from rich.table import Column, Table
from rich.text import Text

from chaos.faults.base import Fault
from chaos.harness import load_scenario_plan
from chaos.launch.cluster_extension import load_cluster_extension
from chaos.model.launcher import LAUNCHER_FACTS
from chaos.model.plan import Plan
from chaos.plan.permissions import (
    ClusterOverrides,
    NodeFacts,
    Permissions,
    find_missing_permission,
    find_platform,
    find_refusals,
)
from chaos.report.screen import build_bare_table

_STYLES = {"may have faults": "yellow", "spared": "green", "holds no worker": "dim"}


def print_dry_run(
    files: Sequence[Path], overrides: ClusterOverrides, console: Console, *, seed: int
) -> None:
    """Print the faults of each plan and their targets, without a change of any cluster."""
    scenario_plans = [
        load_scenario_plan(file, cwd=Path.cwd(), seed=seed, backend="ray") for file in files
    ]
    plans = [overrides.apply(plan) for plan in scenario_plans]
    clusters = {(plan.job.launcher, plan.shape.address) for plan in plans}
    nodes_by_cluster = {
        (launcher, address): LAUNCHER_FACTS[launcher].find_cluster_nodes(address)
        for launcher, address in clusters
        if address
    }
    for plan in plans:
        nodes = nodes_by_cluster.get((plan.job.launcher, plan.shape.address or ""), [])
        console.print(
            build_dry_run(plan, nodes, overrides.permissions, _find_machines(plan, nodes))
        )
        console.print()


def _find_machines(plan: Plan, nodes: Sequence[NodeFacts]) -> dict[str, str]:
    """Return by node the machine that the plan's platform would take; nothing without one."""
    reclaim_by = plan.shape.reclaim_by
    if reclaim_by is None:
        return {}
    return load_cluster_extension("--reclaim-by").find_machines(reclaim_by, nodes)


def build_dry_run(
    plan: Plan,
    nodes: Sequence[NodeFacts],
    permissions: Permissions,
    machines: Mapping[str, str],
) -> Group:
    """Return the faults of a plan with their needs, and the cluster's nodes.

    The node of a rank is unknown until the job runs: it may be any permitted node. `machines` are
    the platform's names of the nodes, where it takes them in place of chaos.
    """
    parts: list[Text | Table] = [
        Text(plan.scenario, style="bold"),
        _build_fault_table(plan, permissions),
    ]
    permission_problem = find_missing_permission(plan, permissions)
    if permission_problem is not None:
        line = f"not allowed: {permission_problem}; it needs --allow-faults-on {plan.shape.address}"
        parts.append(Text(line, style="red"))
    if plan.shape.address is None:
        shape = plan.shape
        line = f"on a local cluster of {shape.nodes} nodes that chaos starts and ends"
        parts.append(Text(line, style="dim"))
    elif plan.has_shared_queue:
        launcher = plan.job.launcher_facts.words.name
        line = f"on {launcher} at {plan.shape.address}: to the run's own job, no node"
        parts.append(Text(line))
    else:
        parts += [
            Text(f"nodes of the cluster at {plan.shape.address}"),
            _build_node_table(nodes, machines),
        ]
    return Group(*parts, Text("nothing was done", style="dim"))


def _build_fault_table(plan: Plan, permissions: Permissions) -> Table | Text:
    if not plan.ops:
        return Text("no fault is planned")
    refusal_reasons = {
        refusal.op.index: refusal.reason for refusal in find_refusals(plan, permissions)
    }
    headings = ("fault", "place", "target", "needs")
    table = build_bare_table(*(Column(heading, overflow="fold") for heading in headings))
    for op in plan.ops:
        if op.index in refusal_reasons:
            target_text, needs = "none: refused", refusal_reasons[op.index]
        else:
            platform = find_platform(plan, op)
            platform_text = "" if platform is None else f"; {platform} takes it"
            target_text, needs = (
                op.fault.target_text.format(rank=op.target_rank) + platform_text,
                _describe_needs(plan, op.fault),
            )
        table.add_row(str(op.fault), str(op.at), target_text, Text(needs))
    return table


def _describe_needs(plan: Plan, fault: Fault) -> str:
    if plan.shape.address is None:
        return "nothing"
    costs_a_node = fault.on_shared_cluster.rule != "safe"
    return "--allow-faults-on" + (" and --allow-node-loss" if costs_a_node else "")


def _build_node_table(nodes: Sequence[NodeFacts], machines: Mapping[str, str]) -> Table:
    table = build_bare_table(
        "node", "address", "CPUs", "", "why", *(["machine"] if machines else [])
    )
    for node in sorted(nodes, key=lambda facts: (facts.standing, facts.address, facts.node_id)):
        standing = Text(node.standing, style=_STYLES[node.standing])
        cells = (
            node.node_id[:8],
            node.address,
            f"{node.cpus:g}",
            standing,
            node.protection_reason or "",
        )
        table.add_row(*cells, *([machines[node.node_id]] if machines else []))
    return table
