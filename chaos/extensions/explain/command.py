"""`chaos explain`: the cause of a run that came out otherwise, proven by giving it back."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from chaos import __version__
from chaos.audit.cause_search import CauseSearch
from chaos.audit.folder import AuditFolder
from chaos.check.analysis import RunAnalysis
from chaos.check.code_lines import find_value_lines
from chaos.check.diagnosis import EFFECTS
from chaos.check.judge import judge_analysis
from chaos.check.state import STATE
from chaos.check.trajectory import TRAJECTORY
from chaos.cli.commands import EXIT_INCONCLUSIVE, EXIT_PASS
from chaos.cli.options import REPORTS, Reports
from chaos.errors import UsageError
from chaos.extensions.explain.replay import Yes, confirm_execution
from chaos.harness import load_recorded_history
from chaos.launch.backends import open_backend
from chaos.report.screen import ConsoleAnnouncer, build_console
from chaos.report.sections import list_code_lines
from chaos.run.clock import SystemClock, format_stamp
from chaos.run.directory import RunDirectory, create_folder, ensure_reports_folder
from chaos.run.display_path import format_path
from chaos.run.environment import collect_environment

HELP_PANEL = "Results"
HELP_LINE = "Find which value of the job did not come back."


def explain(
    directory: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    reports: Reports = REPORTS,
    yes: Yes = False,  # noqa: FBT002 - a flag on the command line
) -> None:
    """Find which value of the job did not come back, by setting it to the baseline's.

    The plan of the run is executed again, several times. chaos shows what will run, and asks.

    Exit codes: 0 the cause is shown, 2 it is not.

    Example: chaos explain reports/audits/train-20261121T014500/runs/2
    """
    console, folder = build_console(), RunDirectory(directory.resolve())
    plan, baseline = folder.load_plan(), folder.load_baseline()
    if baseline is None:
        raise UsageError(
            "there is no baseline beside the run",
            "Give the run of a finding.",
            location=str(directory),
        )
    analysis = RunAnalysis(plan, load_recorded_history(folder), baseline)
    verdict = judge_analysis(analysis)
    broken_check = next((result.check for result in verdict.broken), "")
    if broken_check not in (*EFFECTS, STATE):
        raise UsageError(
            f"`{broken_check}` is broken, whose cause is no value that the job holds"
            if broken_check
            else "nothing is known to be wrong with this run",
            "Give a run of which losses, metrics, epochs, data or files come out otherwise.",
            location=str(directory),
        )
    console.print(f"chaos {__version__}, seed {plan.seed}, {directory}", soft_wrap=True)
    confirm_execution(console, plan, directory.resolve(), is_answered=yes)
    clock = SystemClock()
    output_folder = create_folder(
        ensure_reports_folder(reports, "explained"), f"{plan.slug}-{format_stamp(clock.wall_ns())}"
    )
    with open_backend("fork", ConsoleAnnouncer(console)) as backend:
        restoration = CauseSearch(
            backend,
            clock,
            AuditFolder(output_folder, collect_environment(Path(plan.cwd))),
            plan,
            baseline,
            TRAJECTORY if broken_check == STATE else broken_check,
            report=lambda line: console.print(Text(line, style="dim"), soft_wrap=True),
        )
        explanation = restoration.find_cause(analysis)
    console.print(Text(explanation.sentence), soft_wrap=True)
    for line in list_code_lines(find_value_lines(analysis, explanation.cause or (), verdict.lines)):
        console.print(Text(f"{line.label:<6} {line.text}"), soft_wrap=True)
    console.print(f"runs: {format_path(output_folder)}", soft_wrap=True)
    raise typer.Exit(EXIT_PASS if explanation.cause else EXIT_INCONCLUSIVE)
