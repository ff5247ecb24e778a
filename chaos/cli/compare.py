"""`chaos compare`: the comparison of two runs or suites, beyond noise."""

from pathlib import Path
from typing import Annotated

import typer

from chaos import shelf
from chaos.cli.documents import Document, Format, Output
from chaos.compare.comparison import compare as compared
from chaos.compare.render import in_json, in_markdown, in_terminal
from chaos.report.screen import plain, screen


def compare(
    before: Annotated[
        Path, typer.Argument(metavar="BEFORE", help="A run, a suite, or a folder of runs.")
    ],
    after: Annotated[
        Path, typer.Argument(metavar="AFTER", help="The same, later or with other settings.")
    ],
    *,
    allow_failing: Annotated[
        bool,
        typer.Option(
            "--allow-failing",
            help="Exit with 0 as well where scenarios fail on both sides, and none is worse.",
        ),
    ] = False,
    form: Format = None,
    output: Output = None,
) -> None:
    """Compare two runs or suites: verdicts, recovery, lost steps, goodput.

    Repeats of a scenario (`chaos run --repeat N`, or a folder of its runs) separate a change from
    noise. Exit codes: 0 no regression, 1 regression beyond noise, 2 inconclusive: something is
    missing or inconclusive, new and failing, or failing on both sides.

    Example: chaos compare reports/suites/20261120T020000 reports/suites/20261121T020000
    """
    document = Document.asked(form, output, "text", "json", "md")
    found = compared(shelf.runs_at(before), shelf.runs_at(after), allow_failing=allow_failing)
    sides = {"before": str(before), "after": str(after)}
    shown = in_terminal(found, **sides)
    if not document.takes_stdout:
        screen().print(shown)
    document.write(
        {
            "text": lambda: plain(lambda on: on.print(shown)),
            "json": lambda: in_json(found, **sides),
            "md": lambda: in_markdown(found, **sides),
        }
    )
    raise typer.Exit(found.exit_code)
