"""`chaos doctor`: can runs be made here, and what does each lack cost?"""

from pathlib import Path
from typing import Annotated

import typer

from chaos.report.doctor import doctor_table, signs
from chaos.report.screen import screen
from chaos.run.clock import SystemClock
from chaos.run.machine import look

EXIT_GOOD, EXIT_LACKING = 0, 3


def doctor(
    reports: Annotated[
        Path, typer.Option("--reports", help="The folder that runs would be kept in.")
    ] = Path("reports"),
) -> None:
    """Check Python, Ray, ports, permissions, room and clock, and say what each lack costs.

    Exit codes: 0 runs can be made, 3 they cannot.

    Example: chaos doctor
    """
    found = signs(look(reports, SystemClock()))
    console = screen()
    console.print(doctor_table(found))
    lacking = [sign.name for sign in found if sign.standing == "bad"]
    console.print(
        f"no run can be made: {', '.join(lacking)}" if lacking else "runs can be made here"
    )
    raise typer.Exit(EXIT_LACKING if lacking else EXIT_GOOD)
