"""`chaos compare`: the comparison of two runs or suites, beyond noise."""

from pathlib import Path
from typing import Annotated

import typer

from chaos import report_store
from chaos.cli.documents import Document, Format, Output
from chaos.extensions.lab.compare.comparison import compare_runs as compared
from chaos.extensions.lab.compare.render import list_parts, render_json

HELP_PANEL = "Results"
HELP_LINE = "Compare two runs or suites."


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
    document = Document.parse(form, output, "text", "json", "md")
    comparison = compared(
        report_store.load_summaries(before),
        report_store.load_summaries(after),
        allow_failing=allow_failing,
    )
    sides = {"before_path": str(before), "after_path": str(after)}
    document.report(
        list_parts(comparison, **sides), {"json": lambda: render_json(comparison, **sides)}
    )
    raise typer.Exit(comparison.exit_code)
