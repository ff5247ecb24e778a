"""Options for clusters that chaos did not start, and their refusals."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from chaos.backends.open import nodes_at
from chaos.errors import UsageError
from chaos.harness import plan_of
from chaos.model.plan import PlanBackend
from chaos.plan.permitted import ClusterOverrides
from chaos.report.tables import dry_run

Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="Use the Ray cluster at this address, not one of chaos's own.",
    ),
]
Storage = Annotated[
    str | None,
    typer.Option(
        "--storage",
        metavar="PATH",
        help="With --address: folder or URI for checkpoints that all nodes reach.",
    ),
]
AllowFaultsOn = Annotated[
    str | None,
    typer.Option(
        "--allow-faults-on",
        metavar="HOST:PORT",
        help="Allow faults on this cluster; it must repeat --address.",
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


def refuse_contradictions(
    address: str | None, storage: str | None, *, backend: PlanBackend
) -> None:
    """Raise `UsageError` if options exclude each other, or if an address is invalid."""
    if address is not None and backend == "fork":
        raise UsageError("--address goes with `--backend ray`; the embedded one has no cluster")
    if storage is not None and address is None:
        raise UsageError("--storage goes with --address")
    if address is not None:
        refuse_no_address(address)


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
    known = {address: nodes_at(address) for address in {p.shape.address for p in plans} if address}
    for plan in plans:
        nodes = known.get(plan.shape.address or "", [])
        console.print(dry_run(plan, nodes, overrides.permissions))
        console.print()
