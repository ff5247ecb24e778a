"""`chaos search`: draw plans of several faults, and show the smallest that fail."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from difflib import get_close_matches
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from chaos.app.script import (
    build_confinement,
    choose_backend,
    choose_launcher,
    create_audit_folder,
    locate_script,
    refuse_without_extra,
)
from chaos.audit.budget import Budget
from chaos.audit.folder import AuditFolder
from chaos.audit.plans import build_base_plan, set_launcher
from chaos.audit.run_row import RunRow
from chaos.audit.terminal import AuditDisplay
from chaos.cli import signals
from chaos.cli.audit_options import AllowWrites, Fit, Script, Workers
from chaos.cli.documents import Document, Format, Output
from chaos.cli.options import (
    AGAIN,
    REPORTS,
    IsModule,
    Reports,
    ScriptArguments,
    Seed,
    StartedBy,
    parse_seconds,
    retry_launcher,
)
from chaos.errors import MissingExtraError, UsageError
from chaos.launch.backends import open_launcher
from chaos.model.launcher import LAUNCHER_FACTS
from chaos.model.masking import mask_words
from chaos.model.plan import Plan
from chaos.plan.draw import DRAWN
from chaos.report.screen import ConsoleAnnouncer, build_console, render_plain
from chaos.run.clock import SystemClock
from chaos.run.ports import ScriptBackend
from chaos.search import FAULTS_MAX
from chaos.wording import plural

if TYPE_CHECKING:
    from chaos.search.search import FoundCause, SearchResult

# Where neither a time nor a number of runs is asked for; a search has no end of its own.
SEARCH_S = 300.0

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


@retry_launcher
def search(  # noqa: PLR0913 - one parameter per option
    context: typer.Context,
    script: Script,
    arguments: ScriptArguments = None,
    *,
    module: IsModule = False,
    time_limit: Limit = None,
    max_runs: MaxRuns = None,
    most: MostFaults = FAULTS_MAX,
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
    document = Document.from_options(form, output, "text", "json")
    console = build_console(stderr=document.takes_stdout)
    announcer = ConsoleAnnouncer(console)
    if find_spec("hypothesis") is None:
        raise MissingExtraError.from_package("chaos search", "Hypothesis", "search")
    _refuse_unknown(kinds or ())
    run = locate_script(script, is_module=module)
    launcher = choose_launcher(launcher, run, announcer, context.meta.get(AGAIN))
    refuse_without_extra(run.file, LAUNCHER_FACTS[launcher])
    facts, words = LAUNCHER_FACTS[launcher], arguments or ()
    count = workers or facts.default_workers
    plan = build_base_plan(run, words, cwd=Path.cwd(), seed=seed, workers=count, fit=fit)
    backend = choose_backend("fork", launcher, announcer)
    plan = set_launcher(plan, launcher, arguments or (), backend=backend)
    folder = create_audit_folder(plan, reports, kind="searches")
    with ExitStack() as exit_stack:
        result = _run_search(
            plan.replace(confined=build_confinement(folder, allow_writes)),
            exit_stack.enter_context(open_launcher(launcher, announcer)),
            folder,
            exit_stack.enter_context(
                AuditDisplay(console, SystemClock(), is_ending=signals.has_signal)
            ),
            scenarios_folder=reports / "searches" / f"{plan.slug}-found",
            budget=Budget(time_limit if time_limit or max_runs else SEARCH_S, max_runs),
            follows_script=workers is None and facts.sets_worker_count,
            seed=seed,
            max_faults=most,
            kinds=kinds,
        )
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


def _refuse_unknown(kinds: Sequence[str]) -> None:
    """Raise `UsageError` for a kind of fault that is never drawn, before anything is made."""
    drawn_kinds = list(dict.fromkeys(name for name, _ in DRAWN))
    for kind in kinds:
        if kind not in drawn_kinds:
            close_kinds = get_close_matches(kind, drawn_kinds, n=1)
            hint = (
                f"Did you mean {close_kinds[0]}?"
                if close_kinds
                else f"Those drawn are {', '.join(drawn_kinds)}."
            )
            raise UsageError(f"no fault is drawn that is called '{kind}'", hint, location="--fault")


def _run_search(
    plan: Plan,
    backend: ScriptBackend,
    folder: AuditFolder,
    display: AuditDisplay,
    **search_fields: Any,  # noqa: ANN401 - the fields of a search
) -> "SearchResult":
    """Search, and return the result; if it is broken off, say where the findings so far are."""
    # Imported here: Hypothesis is in an extra, and what is refused before costs no second.
    from chaos.search.search import RESULT, Search  # noqa: PLC0415

    fault_search = Search(
        plan,
        backend,
        folder,
        clock=SystemClock(),
        show_progress=display.show,
        report_row=partial(_show_plan, display),
        command=shlex.join(["chaos", *map(str, mask_words(sys.argv[1:]))]),
        **search_fields,
    )
    try:
        return fault_search.run()
    except KeyboardInterrupt:
        display.write_line(Text(f"found so far: {folder.display_path}/{RESULT}"))
        raise


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


def _show_plan(display: AuditDisplay, number: int, row: RunRow) -> None:
    """Show the plan that was run last; where lines stay, only one that failed."""
    text = Text.assemble(("plans", "bold"), f"  {number}  {row.status}: {row.name}")
    text.no_wrap, text.overflow = True, "ellipsis"
    if display.can_replace:
        display.replace_content(text)
    elif row.is_wrong:
        display.write_line(text)
