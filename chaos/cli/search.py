"""`chaos search`: draw plans of several faults, and show the smallest that fail."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from chaos.app.search import SearchDisplay, SearchRequest, run_search
from chaos.audit.run_row import RunRow
from chaos.audit.terminal import AuditDisplay
from chaos.cli import signals
from chaos.cli.audit_options import AllowWrites, Fit, Script, Workers
from chaos.cli.documents import Document, Format, Output
from chaos.cli.options import (
    REPORTS,
    IsModule,
    Reports,
    ScriptArguments,
    Seed,
    StartedBy,
    parse_seconds,
)
from chaos.model.masking import mask_words
from chaos.report.screen import ConsoleAnnouncer, build_console, render_plain
from chaos.run.clock import SystemClock
from chaos.run.display_path import format_path
from chaos.search import FAULTS_MAX
from chaos.wording import plural

if TYPE_CHECKING:
    from chaos.search.search import FoundCause, SearchResult

_FIELDS = {item.name for item in fields(SearchRequest)} - {"script", "arguments"}

Limit = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        parser=parse_seconds,
        metavar="TIME",
        help="Time limit, such as 90s or 5m. Default: 300s; none with --max-runs.",
    ),
]
MaxRuns = Annotated[
    int | None, typer.Option("--max-runs", min=1, metavar="N", help="Stop after N plans.")
]
MostFaults = Annotated[
    int, typer.Option("--most-faults", min=1, max=FAULTS_MAX, help="Faults of a plan at most.")
]
Faults = Annotated[
    list[str] | None,
    typer.Option("--fault", metavar="KIND", help="Draw only this kind of fault. Repeatable."),
]


def search(  # noqa: PLR0913 - one parameter per option
    script: Script,
    arguments: ScriptArguments = None,
    *,
    module: IsModule = False,
    time_limit: Limit = None,
    max_runs: MaxRuns = None,
    max_faults: MostFaults = FAULTS_MAX,
    kinds: Faults = None,
    launcher: StartedBy = None,
    workers: Workers = None,
    fit: Fit = 1,
    allow_writes: AllowWrites = None,
    seed: Seed = 0,
    form: Format = None,
    output: Output = None,
    reports: Reports = REPORTS,
) -> None:
    """Draw plans of one to six faults for a script; make those that fail as small as they get.

    Exit codes: 0 nothing found, 1 a finding, 2 no restart resumed.

    Example: chaos search train.py --time-limit 300s -- --epochs 4
    """
    options = {name: value for name, value in locals().items() if name in _FIELDS}
    document = Document.from_options(form, output, "text", "json")
    console = build_console(stderr=document.takes_stdout)
    request = SearchRequest.parse(script, arguments or (), options)
    command = shlex.join(["chaos", *map(str, mask_words(sys.argv[1:]))])
    result = run_search(request, SearchScreen(console), command=command)
    print_on_console = partial(print_result, result)
    if not document.takes_stdout:
        print_on_console(console)
    document.write(
        {
            "text": lambda: render_plain(print_on_console),
            "json": lambda: result.model_dump_json(indent=2),
        }
    )
    raise typer.Exit(result.exit_code)


class SearchScreen(ConsoleAnnouncer):
    """The listener of a search, on a console."""

    @contextmanager
    def follow(self, folder: Path) -> Iterator[SearchDisplay]:
        """Show the progress; if the search is broken off, say where the findings so far are."""
        with _ConsoleDisplay(self._console, SystemClock(), is_ending=signals.has_signal) as display:
            try:
                yield display
            except KeyboardInterrupt:
                from chaos.search.search import RESULT  # noqa: PLC0415 - Hypothesis is in an extra

                display.write_line(Text(f"found so far: {format_path(folder)}/{RESULT}"))
                raise


class _ConsoleDisplay(AuditDisplay):
    """The progress of a search, with the plans that fail."""

    def show_plan(self, number: int, row: RunRow) -> None:
        """Show the plan that was run last; where lines stay, only one that failed."""
        text = Text.assemble(("plans", "bold"), f"  {number}  {row.status}: {row.name}")
        text.no_wrap, text.overflow = True, "ellipsis"
        if self.can_replace:
            self.replace_content(text)
        elif row.is_wrong:
            self.write_line(text)


def print_result(result: "SearchResult", console: Console) -> None:
    """Print what a search has found; paths and commands are never broken."""
    for line in _describe_result(result):
        console.print(line, soft_wrap=True)


def _describe_result(result: "SearchResult") -> Iterator[Text]:
    causes = result.found
    mark, style = _select_mark(result)
    summary = plural(len(causes), "cause") if causes else "nothing found"
    yield Text.assemble((f"{mark} {result.script}: {summary}", style))
    yield Text(
        f"{plural(result.plans, 'plan')} of 1 to {result.most} faults, seed {result.seed}: "
        f"{plural(result.faults, 'fault')} injected, "
        f"{plural(result.resumed, 'restart')} resumed rightly, "
        f"{result.from_scratch} began anew, {result.inconclusive} inconclusive, "
        f"{result.met} combinations met"
    )
    for cause in causes:
        yield Text("")
        yield Text.assemble((f"{cause.cause.check}, {cause.cause.severity}", "bold"))
        yield Text(f"  {cause.row.headline}")
        yield Text(f"  {_describe_size(cause)}")
        for op in cause.row.ops:
            yield Text(f"    {op.fault} at {op.at}")
        yield Text(f"  scenario  {cause.file}")
        yield Text(f"  report    {cause.report}")
    for file in result.right_now:
        yield Text.assemble(("comes out right now: ", "green"), file)
    for file in result.undecided_now:
        yield Text.assemble(("inconclusive now: ", "yellow"), file)
    yield Text("")
    if result.limit is not None:
        yield Text(f"ended by {result.limit}", style="dim")
    yield Text(f"again   {result.command}")
    yield Text(f"folder  {result.folder}")


def _select_mark(result: "SearchResult") -> tuple[str, str]:
    """Return the sign of a search's outcome, and its style."""
    if result.found:
        return "✗", "bold red"
    return ("✓", "green") if result.resumed else ("?", "yellow")


def _describe_size(cause: "FoundCause") -> str:
    parts = [plural(len(cause.row.ops), "fault")]
    if cause.was_known:
        parts.append("found by an earlier search")
    elif cause.first_faults > len(cause.row.ops):
        parts.append(f"the first plan that failed had {cause.first_faults}")
    if cause.plans:
        parts.append(f"the smallest after {plural(cause.plans, 'plan')}")
    if not cause.is_smallest:
        parts.append("time was up before every smaller plan was tried")
    if not cause.is_repeated:
        parts.append("it came out another way when it was repeated")
    return "; ".join(parts)
