"""`chaos rejudge`: recorded runs, judged again with today's checks."""

from pathlib import Path
from typing import Annotated

import typer

from chaos.cli.run import find_exit_code
from chaos.extensions.explain.replay import print_runs
from chaos.harness import rejudge_run
from chaos.report.outcome import build_suite_row
from chaos.report.screen import build_console

HELP_PANEL = "Results"
HELP_LINE = "Judge recorded runs again."


def rejudge(
    directories: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of runs.")],
) -> None:
    """Judge recorded runs again, with today's checks; nothing is executed.

    Example: chaos rejudge reports/worker_killed_mid_epoch/0-20261121T014500
    """
    runs = [rejudge_run(path) for path in directories]
    print_runs(build_console(), runs)
    raise typer.Exit(find_exit_code([build_suite_row(judged_run) for judged_run in runs]))
