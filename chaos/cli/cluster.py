"""Options for clusters that chaos did not start, and their refusals."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from chaos.cli.rules import Needs, NotWith
from chaos.errors import UsageError
from chaos.faults.world import RefusedError
from chaos.harness import plan_of
from chaos.launch.open import nodes_at
from chaos.model.plan import Plan
from chaos.model.scenario import platform_in
from chaos.plan.permitted import ClusterOverrides, NodeFacts
from chaos.reclaim.connect import connect, machine_of
from chaos.report.tables import dry_run

Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="Use the Ray cluster, or the Slurm, at this address, not one of chaos's own.",
    ),
    NotWith(
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
PrestartWorkers = Annotated[
    bool,
    typer.Option(
        "--prestart-workers",
        help="Pre-start workers for the next attempt. Recovery times are not representative.",
    ),
]


def refuse_misspelt(there: ClusterOverrides) -> None:
    """Raise `UsageError` if an address or a platform is none."""
    if there.address is not None:
        refuse_no_address(there.address)
    if there.reclaim_by is not None:
        try:
            platform_in(there.reclaim_by)
        except ValueError as error:
            raise UsageError(str(error), place="--reclaim-by") from error


def refuse_no_address(address: str) -> None:
    """Raise `UsageError` for an address that is none."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise UsageError(
            f"--address {address} is no address",
            "Give host:port, as `ray start --head` prints it; never `auto`.",
        )


def show_dry_run(
    files: Sequence[Path], overrides: ClusterOverrides, console: Console, *, seed: int
) -> None:
    """Print the faults of each plan and their targets, without a change of any cluster."""
    made = [plan_of(file, cwd=Path.cwd(), seed=seed, backend="ray") for file in files]
    plans = [overrides.over(plan) for plan in made]
    named = {(plan.job.launcher, plan.shape.address) for plan in plans}
    known = {(who, address): nodes_at(address, who) for who, address in named if address}
    for plan in plans:
        nodes = known.get((plan.job.launcher, plan.shape.address or ""), [])
        console.print(dry_run(plan, nodes, overrides.permissions, machines_under(plan, nodes)))
        console.print()


def machines_under(plan: Plan, nodes: Sequence[NodeFacts]) -> dict[str, str]:
    """Return by node the machine that the plan's platform would take; nothing without a platform.

    In its place there is the reason where it would refuse. Looks, and changes nothing.
    """
    if plan.shape.reclaim_by is None:
        return {}
    reclaimer, found = connect(plan.shape.reclaim_by), dict.fromkeys((n.node_id for n in nodes), "")
    for node in nodes:
        if node.standing == "may have faults":
            try:
                found[node.node_id] = machine_of(reclaimer, node, nodes)
            except RefusedError as error:
                found[node.node_id] = f"none: {error}"
    return found
