"""Options that several commands share: one name, one meaning."""

import re
from pathlib import Path
from typing import Annotated

import typer

from chaos.model.plan import BackendName

REPORTS = Path("reports")
_UNITS_S = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_TIME = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(s|m|min|h|d)?")


def seconds(text: str | float) -> float:
    """Return a time such as 90s, 5m or 1h in seconds; a number alone is in seconds."""
    found = _TIME.fullmatch(str(text).strip())
    if found is None:
        raise typer.BadParameter(f"'{text}' is not a time such as 90s, 5m or 1h")
    return float(found[1]) * _UNITS_S[found[2] or ""]


def hours(text: str | float) -> float:
    """Return a time such as 72h or 3d in hours; a number alone is in hours."""
    is_bare = re.fullmatch(r"[\d.]+", str(text).strip())
    return seconds(f"{text}h" if is_bare else text) / 3600


Reports = Annotated[
    Path,
    typer.Option(
        "--reports",
        envvar="CHAOS_REPORTS_DIR",
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
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", min=1, metavar="N", help="Runs side by side (fork only)."),
]
Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="ARGS", help="The script's own arguments, after --."),
]
Scale = Annotated[
    float | None,
    typer.Option(
        "--scale", min=1, metavar="X", help="Speed-up of time. Default: a few losses per run."
    ),
]
