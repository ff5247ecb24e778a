"""Options for clusters that chaos did not start."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from chaos.app.field_rules import Excludes, HostAndPort, Needs, ReadBy
from chaos.harness import load_scenario_plan
from chaos.launch.cluster_extension import load_cluster_extension
from chaos.model.launcher import LAUNCHER_FACTS
from chaos.model.plan import Plan
from chaos.model.scenario import parse_platform
from chaos.plan.permissions import ClusterOverrides, NodeFacts
from chaos.report.tables import build_dry_run

Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="Use the Ray cluster, or the Slurm, at this address, not one of chaos's own.",
    ),
    HostAndPort(),
    Excludes(
        "backend",
        "--address goes with `--backend ray`; the embedded one has no cluster",
        "Leave --backend fork out.",
        values=("fork",),
    ),
]
Storage = Annotated[
    str | None,
    typer.Option(
        "--storage",
        metavar="PATH",
        help="With --address: folder or URI for checkpoints that all nodes reach.",
    ),
    Needs("address"),
]
ReclaimBy = Annotated[
    str | None,
    typer.Option(
        "--reclaim-by",
        metavar="PLATFORM",
        help="With --address: the platform that takes its nodes, such as kubernetes:NAMESPACE.",
    ),
    Needs("address"),
    ReadBy(parse_platform),
]
AllowFaultsOn = Annotated[
    str | None,
    typer.Option(
        "--allow-faults-on",
        metavar="HOST:PORT",
        help="Allow faults on the running cluster at this address, which is the job's.",
    ),
]
AllowNodeLoss = Annotated[
    bool,
    typer.Option(
        "--allow-node-loss",
        help="Allow faults that may cost a node there; chaos cannot start another.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")]


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
