"""`chaos audit`: inject faults at a script's places, and judge the results."""

import shlex
import sys

import typer

from chaos.app.audit import run_audit
from chaos.app.audit_options import AuditOptions
from chaos.app.audit_request import AuditRequest
from chaos.cli.audit_options import (
    Accept,
    AllowWrites,
    Confirm,
    Continue,
    EpochSteps,
    Exhaustive,
    ExitFirst,
    Explain,
    Fit,
    For,
    Grace,
    Lanes,
    Limit,
    MaxRuns,
    Nodes,
    OneByOne,
    Places,
    PlantLosses,
    RestartArgs,
    RestartBy,
    Retries,
    Sampled,
    Script,
    StorageOn,
    TierOf,
    Verbose,
    Within,
    Workers,
)
from chaos.cli.audit_screen import FILES, AuditCommandScreen
from chaos.cli.documents import Document, Format, Output
from chaos.cli.options import (
    REPORTS,
    AnyBackend,
    IsModule,
    Jobs,
    Quiet,
    Reports,
    ScriptArguments,
    Seed,
    StartedBy,
)
from chaos.model.masking import mask_words
from chaos.report.screen import build_console


def audit(  # noqa: PLR0913 - one parameter per option
    script: Script,
    arguments: ScriptArguments = None,
    *,
    module: IsModule = False,
    question: For = "spot",
    time_limit: Limit = None,
    max_runs: MaxRuns = None,
    exitfirst: ExitFirst = False,
    exhaustive: Exhaustive = False,
    one_by_one: OneByOne = False,
    places: Places = None,
    continues: Continue = False,
    accept: Accept = None,
    sampling: Sampled = "exactly_once",
    tolerance: Within = None,
    confirm: Confirm = False,
    explain: Explain = True,
    controls: PlantLosses = False,
    launcher: StartedBy = None,
    workers: Workers = None,
    retries: Retries = None,
    restart: RestartBy = None,
    restart_args: RestartArgs = None,
    nodes: Nodes = None,
    grace: Grace = None,
    epoch_steps: EpochSteps = None,
    fit: Fit = 1,
    storage: StorageOn = None,
    tier: TierOf = None,
    allow_writes: AllowWrites = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    backend: AnyBackend = "fork",
    address: Lanes = None,
    form: Format = None,
    output: Output = None,
    reports: Reports = REPORTS,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Inject faults into a training script, without a cluster, and check the results.

    Exit codes: 0 pass, 1 fail, 2 inconclusive.

    Example: chaos audit train.py --time-limit 60s -- --epochs 4
    """
    options = {
        name: value for name, value in locals().items() if name in AuditOptions.__annotations__
    }
    document = Document.parse(form, output, "text", "md", "github", *FILES)
    console = build_console(stderr=document.takes_stdout, quiet=quiet)
    screen = AuditCommandScreen(console, document, is_verbose=verbose)
    request = AuditRequest.parse(script, arguments or (), options)
    command = shlex.join(["chaos", *map(str, mask_words(sys.argv[1:]))])
    result = run_audit(request, screen, command=command)
    screen.publish_card(result.card, result.directory)
    raise typer.Exit(result.card.exit_code)
