"""Options that several commands share: one name, one meaning."""

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from chaos import settings
from chaos.audit.launcher import find_launcher_evidence
from chaos.cli.rules import ExcludesOption
from chaos.errors import OtherLauncherError, UsageError
from chaos.model.launcher import DEFAULT_LAUNCHER, Launcher
from chaos.model.plan import BackendName, PlanBackend
from chaos.run.modules import ModuleFile, Modules
from chaos.run.sbatch_header import is_sbatch_script

REPORTS = Path("reports")


def parse_seconds(text: str | float) -> float:
    """Return a time such as 90s, 5m or 1h in seconds; a number alone is in seconds."""
    try:
        return settings.parse_seconds(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def parse_node_range(text: str | None) -> tuple[int, int]:
    """Return the fewest and the most nodes, as torchrun's --nnodes has them; None is one node.

    Raises `UsageError` for anything else.
    """
    match = re.fullmatch(r"([1-9]\d{0,2})(?::([1-9]\d{0,2}))?", text or "1")
    min_nodes, max_nodes = (0, 0) if match is None else (int(match[1]), int(match[2] or match[1]))
    if not 0 < min_nodes <= max_nodes:
        raise UsageError(
            f"nodes are a number, or MIN:MAX as in torchrun's --nnodes; got '{text}'",
            "Write --nodes 2, or --nodes 1:2 for a job that goes on with one.",
            location="--nodes",
        )
    return min_nodes, max_nodes


def parse_hours(text: str | float) -> float:
    """Return a time such as 72h or 3d in hours; a number alone is in hours."""
    is_bare = re.fullmatch(r"[\d.]+", str(text).strip())
    return parse_seconds(f"{text}h" if is_bare else text) / 3600


def forbid_parallel_jobs(*backends: PlanBackend) -> ExcludesOption:
    """Return the rule of `--jobs` for a command whose runs do not go side by side on these."""
    problem = "only forked workers run side by side"
    return ExcludesOption("backend", problem, "Add --backend fork.", values=backends, unless=1)


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
        help="What starts the script's workers. Default: ray if the script, or a module that it "
        "imports, needs Ray; torchrun if it joins a group of processes; python, its own command, "
        "if it starts its workers itself, or trains alone.",
    ),
]
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


def locate_script(script: Path, *, is_module: bool) -> ModuleFile:
    """Return the file that is run; raises `UsageError` for a module that is nowhere."""
    if not is_module:
        return ModuleFile(script)
    module_file = Modules([Path.cwd()]).find_runnable(str(script))
    if module_file is None:
        hint = "It is a dotted name, as python -m has it, found from here or on PYTHONPATH."
        raise UsageError("there is no such module", hint, location=f"-m {script}")
    return module_file


AGAIN = "chaos.cli.options.again"  # in a context: why its command is carried out once more


def retry_launcher(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that begins again under another launcher, where the guessed one was wrong.

    A launcher that was given stands.
    """

    @functools.wraps(command)
    def run_command(context: typer.Context, **params: Any) -> None:  # noqa: ANN401 - the options
        try:
            command(context, **params)
        except OtherLauncherError as error:
            if params["launcher"] is not None:
                raise
            context.meta[AGAIN] = error
            command(context, **params)

    return run_command


def choose_launcher(
    launcher_option: Launcher | None,
    script: ModuleFile,
    console: Console,
    launcher_error: OtherLauncherError | None = None,
    *,
    takes_sbatch: bool = False,
) -> Launcher:
    """Return the launcher that is given, or that the script shows; print how it is known.

    `launcher_error`: what a start of the script under the guessed launcher has shown. Raises
    `UsageError` for a script for sbatch, unless the command takes those.
    """
    is_for_slurm = script.file.is_file() and is_sbatch_script(script.file)
    if (is_for_slurm or launcher_option == "slurm") and not takes_sbatch:
        raise UsageError(
            f"{script.file} is for sbatch, and this command takes Python scripts",
            "`chaos audit` takes it, and `chaos run` a scenario with `job: {launcher: slurm, "
            "script: …, workers: …}`; `chaos preflight` reads it as it is.",
        )
    if is_for_slurm and launcher_option not in (None, "slurm"):
        raise UsageError(
            f"{script.file} is for sbatch, and --launcher is {launcher_option}",
            "Leave --launcher out; or name the Python script that it starts.",
            location="--launcher",
        )
    launcher, grounds = launcher_option or DEFAULT_LAUNCHER, "--launcher"
    if launcher_error is not None:
        launcher, grounds = (
            launcher_error.launcher,
            f"{launcher_error.evidence}: the script is started again",
        )
    elif is_for_slurm:
        launcher, grounds = "slurm", "it has options for sbatch"
    elif launcher_option is None:
        try:
            evidence = find_launcher_evidence(script)
        except OSError:  # reported where the plan is made
            return DEFAULT_LAUNCHER
        launcher, grounds = evidence.launcher, str(evidence)
    console.print(Text(f"launcher: {launcher} ({grounds})"), soft_wrap=True)
    return launcher
