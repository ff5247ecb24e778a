"""Options for clusters that chaos did not start."""

from typing import Annotated

import typer

from chaos.app.field_rules import Excludes, HostAndPort, Needs, ReadBy
from chaos.model.scenario import parse_platform

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
