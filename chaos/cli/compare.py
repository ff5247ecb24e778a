"""`chaos compare`: is the second side worse than the first, beyond noise?"""

from pathlib import Path
from typing import Annotated, Literal

import typer

from chaos import shelf
from chaos.cli.streams import write_document
from chaos.compare.comparison import compare as compared
from chaos.compare.render import in_json, in_markdown, in_terminal
from chaos.report.screen import screen


def compare(
    before: Annotated[Path, typer.Argument(help="A run, a suite, or a folder of runs.")],
    after: Annotated[Path, typer.Argument(help="The same, later or with other settings.")],
    *,
    form: Annotated[
        Literal["md", "json"] | None, typer.Option("--format", help="In place of the table.")
    ] = None,
) -> None:
    """Compare two runs or suites: verdicts, recovery, lost steps, goodput.

    Repeats of a scenario on a side (`chaos run --repeat`, or a folder of its runs) let noise be
    told from a change. Exit codes: 0 no regression, 1 a regression beyond noise, 2 something is
    missing, unknown, or new and fails.

    Example: chaos compare reports/suites/20261120T020000 reports/suites/20261121T020000
    """
    found = compared(shelf.runs_at(before), shelf.runs_at(after))
    sides = {"before": str(before), "after": str(after)}
    if form == "md":
        write_document(in_markdown(found, **sides))
    elif form == "json":
        write_document(in_json(found, **sides))
    else:
        screen().print(in_terminal(found, **sides))
    raise typer.Exit(found.exit_code)
