"""The commands as functions: `chaos.audit` and `chaos.run`, for programs and notebooks.

What a command prints as its result is returned, and what it refuses is raised, with the same words:
`chaos.errors` has the classes, all of them `ChaosError`. Neither function ends the process, handles
a signal or needs a terminal. Ctrl-C, in a notebook "interrupt", ends both in good order.
"""

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Unpack

from rich.console import Console

from chaos.app.audit import run_audit
from chaos.app.audit_options import Args, AuditOptions, PathLike
from chaos.app.audit_request import AuditRequest
from chaos.app.keywords import show_keywords
from chaos.app.project_defaults import merge_project_defaults
from chaos.audit.result import AuditResult
from chaos.cli.audit_screen import AuditScreen
from chaos.cli.audit_words import write_command
from chaos.cli.documents import Document
from chaos.cli.options import REPORTS
from chaos.cli.run import find_open_backend
from chaos.errors import UsageError
from chaos.extensions import refuse_unusable
from chaos.harness import Harness
from chaos.launch.backends import open_backend
from chaos.model.plan import PlanBackend
from chaos.report.result import Result
from chaos.report.screen import ConsoleAnnouncer, build_console
from chaos.run.clock import SystemClock
from chaos.scenario_file.load import find_scenarios


@show_keywords(AuditOptions)
def audit(
    script: PathLike, args: Args = (), *, quiet: bool = False, **options: Unpack[AuditOptions]
) -> AuditResult:
    """Inject faults into a training script, without a cluster, and return what came of it.

        found = chaos.audit("train.py", {"epochs": 4}, time_limit="60s")
        assert found.passed, found.sentence

    `args` are the script's own arguments, by name, word by word or as on a command line:
    `{"epochs": 4}`, `["--epochs", 4]` and `"--epochs 4"` are the same; so are `restart_args`.
    `tier` is such as `{"/local/ckpt": "node"}`.
    The keywords are the options of `chaos audit`, where each is explained; `question` is
    `--for`, `continues` is `--continue`. One that is left out is as the command has it, and as
    `[tool.chaos]` says. `quiet` prints no progress, which otherwise goes to stderr.

    Raises `UsageError` for what the command refuses, with exit code 3, and for a job that fails
    without a fault; `HarnessError` where chaos itself failed. Relative paths are of the working
    folder. The result shows itself in a notebook.
    """
    refuse_unusable()
    command = write_command(AuditRequest.from_options(script, args, options))
    merged_options = merge_project_defaults(AuditOptions.__annotations__, options)
    request = AuditRequest.from_options(script, args, merged_options)
    screen = AuditScreen(_build_console(quiet=quiet), Document(None, None))
    return run_audit(request, screen, command=command)


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
    merged_options: dict[str, Any] = {
        "backend": "ray",
        "seed": 0,
        "reports": REPORTS,
        "keep_storage": False,
    }
    merged_options |= merge_project_defaults(given_options, given_options)
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


def _build_console(*, quiet: bool) -> Console:
    # A notebook's stderr says that it is a terminal, and obeys no cursor; and as HTML each line
    # would be a block of its own. There, lines stay.
    is_original_stderr = sys.stderr is sys.__stderr__
    force_terminal = None if is_original_stderr else False
    return build_console(
        stderr=True, quiet=quiet, force_jupyter=False, force_terminal=force_terminal
    )
