"""`chaos search`: draw plans of several faults, and show the smallest that fail."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from chaos.audit.run_row import RunRow
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
from chaos.extensions.lab.search import FAULTS_MAX
from chaos.extensions.lab.search.request import SearchDisplay, SearchRequest, run_search
from chaos.model.masking import mask_words
from chaos.report.outcome import Tone
from chaos.report.parts import (
    Commands,
    FindingPart,
    Headline,
    LabelledLines,
    ReportLine,
    ReportPart,
    Section,
)
from chaos.report.screen import ConsoleAnnouncer, build_console
from chaos.run.clock import SystemClock
from chaos.run.display_path import format_path
from chaos.screens.audit import AuditDisplay
from chaos.wording import plural

HELP_PANEL = "Start"
HELP_LINE = "Draw plans of several faults; show the smallest that fail."

if TYPE_CHECKING:
    from chaos.extensions.lab.search.search import FoundCause, SearchResult

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
    document = Document.parse(form, output, "text", "json")
    console = build_console(stderr=document.takes_stdout)
    request = SearchRequest.parse(script, arguments or (), options)
    command = shlex.join(["chaos", *map(str, mask_words(sys.argv[1:]))])
    result = run_search(request, SearchScreen(console), command=command)
    document.report(
        [*list_parts(result)],
        {"json": lambda: result.model_dump_json(indent=2)},
        console=console,
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
                from chaos.extensions.lab.search.search import RESULT  # noqa: PLC0415 - Hypothesis is in an extra

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


def list_parts(result: "SearchResult") -> Iterator[ReportPart]:
    """Yield the answer, the smallest plan of each cause, and the ways on."""
    causes = result.found
    tone: Tone = "good" if result.resumed else "open"
    counts = (
        f"{plural(result.plans, 'plan')} of 1 to {result.most} faults, seed {result.seed}: "
        f"{plural(result.faults, 'fault')} injected, "
        f"{plural(result.resumed, 'restart')} resumed rightly, {result.from_scratch} began anew, "
        f"{result.inconclusive} inconclusive, {result.met} combinations met"
    )
    answer = plural(len(causes), "cause") if causes else "nothing found"
    yield Headline("bad" if causes else tone, answer, subject=result.script, notes=[counts])
    for cause in causes:
        faults = [ReportLine("calm", "fault", f"{op.fault} at {op.at}") for op in cause.row.ops]
        size = ReportLine("calm", "plan", _describe_size(cause))
        files = Commands([("scenario", cause.file), ("report", cause.report)])
        title = f"{cause.cause.check}, {cause.cause.severity}"
        yield FindingPart(title, cause.row.headline, [LabelledLines([size, *faults]), files])
    tries = [ReportLine("good", "right now", file) for file in result.right_now]
    tries += (ReportLine("open", "undecided", file) for file in result.undecided_now)
    if result.limit is not None:
        tries.append(ReportLine("calm", "ended by", result.limit))
    ways = Commands([("again", result.command), ("folder", result.folder)])
    yield Section([LabelledLines(tries), ways])


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
