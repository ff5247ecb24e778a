"""The commands as functions: `chaos.audit` and `chaos.run`, for programs and notebooks.

What a command prints as its result is returned, and what it refuses is raised, with the same words:
`chaos.errors` has the classes, all of them `ChaosError`. Neither function ends the process, handles
a signal or needs a terminal. Ctrl-C, in a notebook "interrupt", ends both in good order.
"""

import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import typer
from rich.console import Console

from chaos import settings
from chaos.audit.result import AuditResult
from chaos.audit.site_category import Question
from chaos.cli.commands import app
from chaos.cli.options import REPORTS
from chaos.cli.python_call import PythonCall
from chaos.cli.run import find_open_backend
from chaos.errors import UsageError
from chaos.extensions import refuse_unusable
from chaos.harness import Harness
from chaos.launch.backends import open_backend
from chaos.model.arguments import build_command_line
from chaos.model.expect import Acceptable, Sampling
from chaos.model.launcher import Launcher, Restart
from chaos.model.plan import PlanBackend
from chaos.model.scenario import Tier
from chaos.report.result import Result
from chaos.report.screen import ConsoleAnnouncer, build_console
from chaos.run.clock import SystemClock
from chaos.scenario_file.load import find_scenarios

PathLike: TypeAlias = str | os.PathLike[str]
Args: TypeAlias = Mapping[str, Any] | Sequence[str | int | float]


def audit(  # noqa: PLR0913 - one for each option of the command
    script: PathLike,
    args: Args = (),
    *,
    module: bool | None = None,
    question: Question | None = None,
    time_limit: float | str | None = None,
    max_runs: int | None = None,
    exitfirst: bool | None = None,
    exhaustive: bool | None = None,
    continues: bool | None = None,
    one_by_one: bool | None = None,
    places: Sequence[str] | None = None,
    accept: Sequence[Acceptable] | None = None,
    sampling: Sampling | None = None,
    tolerance: float | None = None,
    confirm: bool | None = None,
    explain: bool | None = None,
    launcher: Launcher | None = None,
    workers: int | None = None,
    retries: int | None = None,
    restart: Restart | None = None,
    restart_args: Args | None = None,
    nodes: int | str | None = None,
    grace: float | str | None = None,
    epoch_steps: int | None = None,
    fit: int | None = None,
    storage: str | None = None,
    tier: Mapping[PathLike, Tier] | None = None,
    allow_writes: Sequence[PathLike] | None = None,
    seed: int | None = None,
    jobs: int | None = None,
    backend: PlanBackend | None = None,
    address: str | None = None,
    reports: PathLike | None = None,
    quiet: bool = False,
) -> AuditResult:
    """Inject faults into a training script, without a cluster, and return what came of it.

        found = chaos.audit("train.py", {"epochs": 4}, time_limit="60s")
        assert found.passed, found.sentence

    `args` are the script's own arguments, by name, word by word or as on a command line:
    `{"epochs": 4}`, `["--epochs", 4]` and `"--epochs 4"` are the same; so are `restart_args`.
    `tier` is such as `{"/local/ckpt": "node"}`.
    The keywords are the options of `chaos audit`, where each is explained; `question` is
    `--for`, `continues` is `--continue`. One that is left out is as the command has it, and as
    `[tool.chaos]` says. `quiet`
    prints no progress, which otherwise goes to stderr.

    Raises `UsageError` for what the command refuses, with exit code 3, and for a job that fails
    without a fault; `HarnessError` where chaos itself failed. Relative paths are of the working
    folder. The result shows itself in a notebook.
    """
    options = {name: value for name, value in locals().items() if value is not None}
    for name in ("script", "args", "quiet"):
        del options[name]
    if restart_args is not None:
        options["restart_args"] = shlex.join(_split_script_args(restart_args))
    if tier is not None:
        options["tier"] = [f"{os.fspath(path)}={tier_kind}" for path, tier_kind in tier.items()]
    words = [*_build_command_words("audit", options), os.fspath(script)]
    if script_words := _split_script_args(args):
        words += ["--", *script_words]
    call = PythonCall[AuditResult](["audit", *words], _build_console(quiet=quiet))
    _invoke_command(call)
    assert call.result is not None  # set before the command ends without an error
    return call.result


def run(
    scenario: PathLike,
    *,
    backend: PlanBackend | None = None,
    seed: int | None = None,
    reports: PathLike | None = None,
    keep_storage: bool | None = None,
    quiet: bool = False,
) -> Result:
    """Run one scenario file, and return its judged run.

        result = chaos.run("scenarios/killed.chaos.yaml", backend="fork")
        result.passed, result.lost_steps, result.headline

    The keywords are options of `chaos run`; one that is left out is as the command has it, and as
    `[tool.chaos]` says. A verdict that is not as the scenario expects is a result like any other:
    `result.as_expected`. `quiet` prints no progress, which otherwise goes to stderr.

    Raises `UsageError` for a mistake in the scenario, and for a job that fails without a fault;
    `HarnessError` where chaos itself failed. The result shows itself in a notebook.
    """
    refuse_unusable()
    given_options = {
        "backend": backend,
        "seed": seed,
        "reports": reports,
        "keep_storage": keep_storage,
    }
    merged_options = _merge_run_options(
        {name: value for name, value in given_options.items() if value is not None}
    )
    files = find_scenarios([Path(scenario)])
    if len(files) != 1:
        raise UsageError(
            f"chaos.run runs one scenario, and {len(files)} are there",
            "Give the path of one file; `chaos run` runs a folder.",
            location=os.fspath(scenario),
        )
    console = _build_console(quiet=quiet)
    with ExitStack() as exit_stack:
        executor = exit_stack.enter_context(
            open_backend(
                find_open_backend(files, merged_options["backend"]), ConsoleAnnouncer(console)
            )
        )
        harness = Harness(
            Path(merged_options["reports"]),
            console,
            Path.cwd(),
            executor,
            SystemClock(),
            keep_storage=merged_options["keep_storage"],
        )
        (plan,) = harness.load_plans(
            files, seed=merged_options["seed"], backend=merged_options["backend"]
        )
        return Result(harness.run_plan(plan))


def _merge_run_options(given_options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run: those that are stated, the project's, and the command's own."""
    options = {"backend": "ray", "seed": 0, "reports": REPORTS, "keep_storage": False}
    options |= settings.load_defaults(["run"])["run"]
    if folder := os.environ.get(settings.REPORTS_ENV):
        options["reports"] = folder
    return {**options, **given_options}


def _split_script_args(args: Args) -> list[str]:
    """Return the words of a script's own arguments."""
    if isinstance(args, str):
        return shlex.split(args)
    return build_command_line(dict(args) if isinstance(args, Mapping) else tuple(args))


def _build_console(*, quiet: bool) -> Console:
    # A notebook's stderr says that it is a terminal, and obeys no cursor; and as HTML each line
    # would be a block of its own. There, lines stay.
    is_original_stderr = sys.stderr is sys.__stderr__
    force_terminal = None if is_original_stderr else False
    return build_console(
        stderr=True, quiet=quiet, force_jupyter=False, force_terminal=force_terminal
    )


def _build_command_words(command: str, options: Mapping[str, Any]) -> Iterable[str]:
    """Yield options as a command line has them; each by the command's own parameter."""
    params = {item.name: item for item in _load_commands().commands[command].loaded.params}
    for name, value in options.items():
        param = params[name]
        if isinstance(value, bool):
            option_names = param.opts if value else param.secondary_opts
            yield from option_names[:1]
        elif param.multiple:
            for item in value:
                yield from (param.opts[0], os.fspath(item))
        else:
            yield from (param.opts[0], str(value))


def _invoke_command(call: PythonCall[Any]) -> None:
    """Carry out a command as the command line does, with its defaults and its refusals."""
    commands = _load_commands()
    try:
        with commands.make_context("chaos", list(call.words), obj=call) as context:
            commands.invoke(context)
    except typer.Exit:
        return
    except Exception as error:
        if not hasattr(error, "format_message"):  # of the click in typer: a mistake in an option
            raise
        raise UsageError(error.format_message()) from None


def _load_commands() -> Any:  # noqa: ANN401 - typer's own, which it does not publish
    return typer.main.get_command(app)
