"""The request of an audit, in values; a wrong one is refused as it is made."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from chaos.app.audit_options import Args, parse_options, split_arguments
from chaos.app.field_rules import (
    NOT_NEGATIVE,
    Excludes,
    ExcludesScriptRestart,
    HostAndPort,
    NamesLauncher,
    NeedsLauncher,
    Request,
    Values,
    forbid_parallel_jobs,
    minimum,
)
from chaos.app.project_defaults import PathLike
from chaos.audit.plans import NodeRange
from chaos.audit.site_category import Question
from chaos.model.expect import Acceptable, AcceptedFinding, Sampling
from chaos.model.launcher import Launcher
from chaos.model.launcher_facts import Restart
from chaos.model.plan import PlanBackend
from chaos.model.scenario import Tier


@dataclass(frozen=True, kw_only=True)
class AuditRequest(Request):
    """An audit of one script: a field for each option of `chaos audit`, where each is explained."""

    script: Path
    arguments: tuple[str, ...] = ()
    module: bool = False
    question: Question = "spot"
    time_limit: Annotated[float | None, NOT_NEGATIVE] = None
    max_runs: Annotated[int | None, minimum(1)] = None
    exitfirst: bool = False
    exhaustive: bool = False
    one_by_one: bool = False
    places: tuple[str, ...] = ()
    continues: bool = False
    accept: tuple[Acceptable | AcceptedFinding, ...] = ()
    sampling: Sampling = "exactly_once"
    tolerance: Annotated[float | None, NOT_NEGATIVE] = None
    confirm: bool = False
    explain: bool = True
    controls: bool = False
    launcher: Launcher | None = None
    workers: Annotated[int | None, minimum(1)] = None
    retries: Annotated[int | None, minimum(1), ExcludesScriptRestart()] = None
    restart: Annotated[Restart | None, ExcludesScriptRestart()] = None
    restart_args: Annotated[
        tuple[str, ...] | None,
        Excludes(
            "restart",
            "{restart_args} are for {restart:command}",
            "Leave out {restart:launcher}.",
            values=("launcher",),
        ),
        ExcludesScriptRestart(),
    ] = None
    nodes: Annotated[
        NodeRange | None,
        NeedsLauncher(
            "Ray Train's ranks have a node each, and a script for sbatch says how many it has"
        ),
    ] = None
    grace: Annotated[
        float | None,
        NOT_NEGATIVE,
        NeedsLauncher("no other launcher's jobs are preempted with it"),
    ] = None
    epoch_steps: Annotated[
        int | None, minimum(1), NeedsLauncher("with Ray Train a report ends an epoch")
    ] = None
    fit: Annotated[int, minimum(1), NeedsLauncher()] = 1
    storage: Annotated[
        Literal["own"] | None,
        Values(
            "own",
            ("own",).__contains__,
            "storage is own or the run's; got '{value}'",
            "Write {storage:own} to keep the script's bucket, or leave it out.",
        ),
        NeedsLauncher(),
    ] = None
    tier: Mapping[str, Tier] = field(default_factory=dict)
    allow_writes: tuple[Path, ...] = ()
    seed: Annotated[int, minimum(0)] = 0
    jobs: Annotated[int | None, minimum(1), forbid_parallel_jobs("ray")] = None
    backend: Annotated[PlanBackend, NamesLauncher()] = "fork"
    address: Annotated[
        str | None,
        HostAndPort(),
        Excludes(
            "backend",
            "an audit injects faults into a Ray cluster of its own, and {address} names another",
            "Leave out {backend:ray}, and runs without a cluster are spread over that one.",
            values=("ray",),
        ),
        NeedsLauncher(),
    ] = None
    reports: Path = Path("reports")

    @classmethod
    def parse(cls, script: PathLike, args: Args, options: Mapping[str, Any]) -> Self:
        """Return the request of options as they are written: see `AuditOptions`."""
        return cls(script=Path(script), arguments=split_arguments(args), **parse_options(options))
