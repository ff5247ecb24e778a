"""`chaos doctor`: the check of this machine for the needs of runs."""

import typer
from rich.text import Text

from chaos.cli.options import REPORTS, Reports
from chaos.extensions.doctor.facts import collect_machine_facts
from chaos.extensions.doctor.signs import build_doctor_table, judge_machine
from chaos.extensions.known_defects import find_installed_defects
from chaos.installation import build_install_command
from chaos.processes.view import find_view_obstacle
from chaos.report.screen import build_console
from chaos.run.clock import SystemClock

HELP_PANEL = "Tools"
HELP_LINE = "Check this machine."
EXIT_GOOD, EXIT_LACKING = 0, 3


def doctor(
    reports: Reports = REPORTS,
) -> None:
    """Check Python, Ray, ports, permissions, disk and clock, with the effect of each problem.

    Defects of the installed versions that were seen here, and that matter under loss, are listed.

    Exit codes: 0 ready, 3 not ready.

    Example: chaos doctor
    """
    machine_signs = judge_machine(
        collect_machine_facts(reports, SystemClock(), find_view_obstacle())
    )
    console = build_console()
    console.print(build_doctor_table(machine_signs))
    if any(sign.name.startswith("[") and sign.standing == "absent" for sign in machine_signs):
        console.print(
            Text(f"An extra is installed by {build_install_command('EXTRA')}"), soft_wrap=True
        )
    known_defects = list(find_installed_defects())
    if known_defects:
        console.print("\nKnown defects of these versions, where nodes or processes are lost:")
    for defect in known_defects:
        console.print(Text(f"  {defect}"), soft_wrap=True)
    missing_names = [sign.name for sign in machine_signs if sign.standing == "bad"]
    console.print(f"Not ready: {', '.join(missing_names)}" if missing_names else "Ready.")
    raise typer.Exit(EXIT_LACKING if missing_names else EXIT_GOOD)
