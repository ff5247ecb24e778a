"""`chaos doctor`: the check of this machine for the needs of runs."""

import typer
from rich.text import Text

from chaos.cli.options import REPORTS, Reports
from chaos.installed import install_line
from chaos.preflight.known_defects import here
from chaos.processes.view import why_none
from chaos.report.screen import screen
from chaos.report.tables import doctor_table, signs
from chaos.run.clock import SystemClock
from chaos.run.machine import machine_facts

EXIT_GOOD, EXIT_LACKING = 0, 3


def doctor(
    reports: Reports = REPORTS,
) -> None:
    """Check Python, Ray, ports, permissions, disk and clock, with the effect of each problem.

    Defects of the installed versions that were seen here, and that matter under loss, are listed.

    Exit codes: 0 ready, 3 not ready.

    Example: chaos doctor
    """
    found = signs(machine_facts(reports, SystemClock(), why_none()))
    console = screen()
    console.print(doctor_table(found))
    if any(sign.name.startswith("[") and sign.standing == "absent" for sign in found):
        console.print(Text(f"An extra is installed by {install_line('EXTRA')}"), soft_wrap=True)
    known = list(here())
    if known:
        console.print("\nKnown defects of these versions, where nodes or processes are lost:")
    for defect in known:
        console.print(Text(f"  {defect}"), soft_wrap=True)
    lacking = [sign.name for sign in found if sign.standing == "bad"]
    console.print(f"Not ready: {', '.join(lacking)}" if lacking else "Ready.")
    raise typer.Exit(EXIT_LACKING if lacking else EXIT_GOOD)
