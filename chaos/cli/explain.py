"""`chaos explain`: the cause of a run that came out otherwise, proven by giving it back."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from chaos import __version__
from chaos.audit.folder import AuditFolder
from chaos.audit.giving_back import GivingBack
from chaos.check.analysis import RunAnalysis
from chaos.check.code_lines import lines_of_values
from chaos.check.diagnosis import EFFECTS
from chaos.check.judge import judge_analysis
from chaos.check.state import STATE
from chaos.check.trajectory import TRAJECTORY
from chaos.cli.commands import EXIT_INCONCLUSIVE, EXIT_PASS
from chaos.cli.options import REPORTS, Reports
from chaos.cli.replay import Yes, ask
from chaos.errors import UsageError
from chaos.harness import recorded
from chaos.launch.open import open_backend
from chaos.report.screen import screen
from chaos.report.sections import code_of
from chaos.run.clock import SystemClock, stamp
from chaos.run.directory import RunDirectory, fresh, in_reports
from chaos.run.environment import environment
from chaos.run.shown import shown


def explain(
    directory: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    reports: Reports = REPORTS,
    yes: Yes = False,  # noqa: FBT002 - a flag on the command line
) -> None:
    """Find which value of the job did not come back, by setting it to the baseline's.

    The plan of the run is executed again, several times, with values of the job's code set to what
    they are in a clean run: the two likeliest alone, then all that differ at the resume, then
    fewer, until none can be left out. chaos shows what will run, and asks.

    Exit codes: 0 the cause is shown, 2 it is not.

    Example: chaos explain reports/audits/train-20261121T014500/runs/2
    """
    console, folder = screen(), RunDirectory(directory.resolve())
    plan, baseline = folder.load_plan(), folder.load_baseline()
    if baseline is None:
        raise UsageError(
            "there is no baseline beside the run",
            "Give the run of a finding.",
            place=str(directory),
        )
    analysis = RunAnalysis(plan, recorded(folder), baseline)
    verdict = judge_analysis(analysis)
    broken = next((result.check for result in verdict.broken), "")
    if broken not in (*EFFECTS, STATE):
        raise UsageError(
            f"`{broken}` is broken, whose cause is no value that the job holds"
            if broken
            else "nothing is known to be wrong with this run",
            "Give a run of which losses, metrics, epochs, data or files come out otherwise.",
            place=str(directory),
        )
    console.print(f"chaos {__version__}, seed {plan.seed}, {directory}", soft_wrap=True)
    ask(console, plan, directory.resolve(), is_answered=yes)
    clock = SystemClock()
    into = fresh(in_reports(reports, "explained"), f"{plan.slug}-{stamp(clock.wall_ns())}")
    with open_backend("fork", console) as backend:
        giving = GivingBack(
            backend,
            clock,
            AuditFolder(into, environment(Path(plan.cwd))),
            plan,
            baseline,
            TRAJECTORY if broken == STATE else broken,
            tell=lambda line: console.print(Text(line, style="dim"), soft_wrap=True),
        )
        found = giving.explained(analysis)
    console.print(Text(found.sentence), soft_wrap=True)
    for line in code_of(lines_of_values(analysis, found.cause or (), verdict.lines)):
        console.print(Text(f"{line.label:<6} {line.text}"), soft_wrap=True)
    console.print(f"runs: {shown(into)}", soft_wrap=True)
    raise typer.Exit(EXIT_PASS if found.cause else EXIT_INCONCLUSIVE)
