"""The commands as functions: `chaos.audit` and `chaos.run`, for programs and notebooks.

Both make the request that the command makes. What a command prints as its result is returned, and
what it refuses is raised, with keywords where the command names options: `chaos.errors` has the
classes, all of them `ChaosError`. Neither function ends the process, handles a signal or needs a
terminal. Ctrl-C, in a notebook "interrupt", ends both in good order.
"""

from typing import Unpack

from chaos.app.audit import run_audit
from chaos.app.audit_command import write_command
from chaos.app.audit_options import Args, AuditOptions
from chaos.app.audit_request import AuditRequest
from chaos.app.project_defaults import PathLike, merge_project_defaults
from chaos.app.run import RunOptions, RunRequest, run_scenario
from chaos.audit.result import AuditResult
from chaos.keywords import show_keywords
from chaos.other_packages import require_usable_extensions
from chaos.report.result import Result
from chaos.report.screen import build_program_console
from chaos.screens.audit import AuditScreen
from chaos.screens.run import RunScreen


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
    require_usable_extensions()
    merged_options = merge_project_defaults(AuditOptions.__annotations__, options)
    request = AuditRequest.parse(script, args, merged_options)
    screen = AuditScreen(build_program_console(quiet=quiet))
    return run_audit(request, screen, command=write_command(request, options))


@show_keywords(RunOptions)
def run(scenario: PathLike, *, quiet: bool = False, **options: Unpack[RunOptions]) -> Result:
    """Run one scenario file, and return its judged run.

        result = chaos.run("scenarios/killed.chaos.yaml", backend="fork")
        result.passed, result.lost_steps, result.headline

    The keywords are options of `chaos run`; one that is left out is as the command has it, and as
    `[tool.chaos]` says. A verdict that is not as the scenario expects is a result like any other:
    `result.as_expected`. `quiet` prints no progress, which otherwise goes to stderr.

    Raises `UsageError` for a mistake in the scenario, and for a job that fails without a fault;
    `HarnessError` where chaos itself failed. The result shows itself in a notebook.
    """
    require_usable_extensions()
    merged_options = merge_project_defaults(RunOptions.__annotations__, options)
    request = RunRequest.parse(scenario, merged_options)
    return run_scenario(request, RunScreen(build_program_console(quiet=quiet)))
