"""Options that several commands share: one name, one meaning."""

import re
from pathlib import Path
from typing import Annotated

import typer

from chaos import settings
from chaos.model.launcher import Launcher
from chaos.model.plan import BackendName, PlanBackend

REPORTS = Path("reports")


def parse_seconds(text: str | float) -> float:
    """Return a time such as 90s, 5m or 1h in seconds; a number alone is in seconds."""
    try:
        return settings.parse_seconds(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def parse_hours(text: str | float) -> float:
    """Return a time such as 72h or 3d in hours; a number alone is in hours."""
    is_bare = re.fullmatch(r"[\d.]+", str(text).strip())
    return parse_seconds(f"{text}h" if is_bare else text) / 3600


Reports = Annotated[
    Path,
    typer.Option(
        "--reports",
        envvar=settings.REPORTS_ENV,
        metavar="FOLDER",
        help="Folder for runs, baselines and reports.",
    ),
]
Seed = Annotated[
    int, typer.Option("--seed", min=0, metavar="N", help="Seed of every random choice.")
]
Backend = Annotated[
    BackendName,
    typer.Option("--backend", help="ray: a local Ray cluster. fork: forked workers, no cluster."),
]
AnyBackend = Annotated[
    PlanBackend,
    typer.Option(
        "--backend",
        help="ray: a local Ray cluster. fork: forked workers, no cluster. torchrun, python: real "
        "processes, for scripts without Ray.",
    ),
]
StartedBy = Annotated[
    Launcher | None,
    typer.Option(
        "--launcher",
        help="What starts the workers. Default: ray if the script needs Ray, "
        "torchrun if it joins a group of processes, else python, its own "
        "command.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print one line.")]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", min=1, metavar="N", help="Runs side by side (fork only)."),
]
IsModule = Annotated[
    bool,
    typer.Option(
        "--module", "-m", help="SCRIPT is a module, run as `python -m` does: package.module."
    ),
]
ScriptArguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARGS", help="The script's own arguments, after --."),
]
Scale = Annotated[
    float | None,
    typer.Option(
        "--scale", min=1, metavar="X", help="Speed-up of time. Default: a few losses per run."
    ),
]
