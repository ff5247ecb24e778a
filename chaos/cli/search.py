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

from chaos.audit.budget import Budget
from chaos.audit.folder import AuditFolder
from chaos.audit.plans import base_plan, under_launcher
from chaos.audit.run_row import RunRow
from chaos.audit.terminal import AuditDisplay
from chaos.cli import signals
from chaos.cli.audit import (
    AllowWrites,
    Fit,
    Script,
    Workers,
    confined,
    embedded_or_real,
    folder_for,
    refuse_without_extra,
)
from chaos.cli.documents import Document, Format, Output
from chaos.cli.options import (
    AGAIN,
    REPORTS,
    IsModule,
    Reports,
    Seed,
    StartedBy,
    Words,
    chosen_launcher,
    located,
    seconds,
    under_the_right_launcher,
)
from chaos.errors import MissingExtraError, UsageError
from chaos.launch.open import open_launcher
from chaos.model.launcher import FACTS
from chaos.model.masked import masked_words
from chaos.model.plan import Plan
from chaos.plan.draw import DRAWN
from chaos.report.screen import plain, screen
from chaos.run.clock import SystemClock
from chaos.run.ports import ScriptBackend
from chaos.search import FAULTS_MAX
from chaos.words import plural

if TYPE_CHECKING:
    from chaos.search.search import FoundCause, SearchResult

# Where neither a time nor a number of runs is asked for; a search has no end of its own.
SEARCH_S = 300.0

Limit = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        parser=seconds,
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


@under_the_right_launcher
def search(  # noqa: PLR0913 - one parameter per option
    context: typer.Context,
    script: Script,
    arguments: Words = None,
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
    document = Document.asked(form, output, "text", "json")
    console = screen(stderr=document.takes_stdout)
    if find_spec("hypothesis") is None:
        raise MissingExtraError.of("chaos search", "Hypothesis", "search")
    _refuse_unknown(kinds or ())
    run = located(script, is_module=module)
    launcher = chosen_launcher(launcher, run, console, context.meta.get(AGAIN))
    refuse_without_extra(run.file, FACTS[launcher])
    facts, words = FACTS[launcher], arguments or ()
    count = workers or facts.usual_workers
    plan = base_plan(run, words, cwd=Path.cwd(), seed=seed, workers=count, fit=fit)
    backend = embedded_or_real("fork", launcher, console)
    plan = under_launcher(plan, launcher, arguments or (), backend=backend)
    folder = folder_for(plan, reports, kind="searches")
    with ExitStack() as opened:
        result = _searched(
            plan.model_copy(update={"confined": confined(folder, allow_writes)}),
            opened.enter_context(open_launcher(launcher, console)),
            folder,
            opened.enter_context(AuditDisplay(console, SystemClock(), is_ending=signals.has_come)),
            kept=reports / "searches" / f"{plan.slug}-found",
            budget=Budget(time_limit if time_limit or max_runs else SEARCH_S, max_runs),
            follows_script=workers is None and facts.sizes_itself,
            seed=seed,
            most=most,
            kinds=kinds,
        )
    show = partial(print_result, result)
    if not document.takes_stdout:
        show(console)
    document.write({"text": lambda: plain(show), "json": lambda: result.model_dump_json(indent=2)})
    raise typer.Exit(result.exit_code)


def _refuse_unknown(kinds: Sequence[str]) -> None:
    """Raise `UsageError` for a kind of fault that is never drawn, before anything is made."""
    drawn = list(dict.fromkeys(name for name, _ in DRAWN))
    for kind in kinds:
        if kind not in drawn:
            near = get_close_matches(kind, drawn, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"Those drawn are {', '.join(drawn)}."
            raise UsageError(f"no fault is drawn that is called '{kind}'", hint, place="--fault")


def _searched(
    plan: Plan,
    backend: ScriptBackend,
    folder: AuditFolder,
    display: AuditDisplay,
    **how: Any,  # noqa: ANN401 - the fields of a search
) -> "SearchResult":
    """Search, and return the result; if it is broken off, say where the findings so far are."""
    # Imported here: Hypothesis is in an extra, and what is refused before costs no second.
    from chaos.search.search import RESULT, Search  # noqa: PLC0415

    found = Search(
        plan,
        backend,
        folder,
        clock=SystemClock(),
        show=display.show,
        tell=partial(_show, display),
        command=shlex.join(["chaos", *map(str, masked_words(sys.argv[1:]))]),
        **how,
    )
    try:
        return found.run()
    except KeyboardInterrupt:
        display.write(Text(f"found so far: {folder.shown}/{RESULT}"))
        raise


def print_result(result: "SearchResult", console: Console) -> None:
    """Print what a search has found; paths and commands are never broken."""
    for line in _lines(result):
        console.print(line, soft_wrap=True)


def _lines(result: "SearchResult") -> Iterator[Text]:
    found = result.found
    mark, style = (
        ("✗", "bold red") if found else ("✓", "green") if result.resumed else ("?", "yellow")
    )
    what = plural(len(found), "cause") if found else "nothing found"
    yield Text.assemble((f"{mark} {result.script}: {what}", style))
    yield Text(
        f"{plural(result.plans, 'plan')} of 1 to {result.most} faults, seed {result.seed}: "
        f"{plural(result.faults, 'fault')} injected, "
        f"{plural(result.resumed, 'restart')} resumed rightly, "
        f"{result.from_scratch} began anew, {result.inconclusive} inconclusive, "
        f"{result.met} combinations met"
    )
    for one in found:
        yield Text("")
        yield Text.assemble((f"{one.cause.check}, {one.cause.severity}", "bold"))
        yield Text(f"  {one.row.headline}")
        yield Text(f"  {_size(one)}")
        for op in one.row.ops:
            yield Text(f"    {op.fault} at {op.at}")
        yield Text(f"  scenario  {one.file}")
        yield Text(f"  report    {one.report}")
    for file in result.right_now:
        yield Text.assemble(("comes out right now: ", "green"), file)
    for file in result.undecided_now:
        yield Text.assemble(("inconclusive now: ", "yellow"), file)
    yield Text("")
    if result.limit is not None:
        yield Text(f"ended by {result.limit}", style="dim")
    yield Text(f"again   {result.command}")
    yield Text(f"folder  {result.folder}")


def _size(one: "FoundCause") -> str:
    parts = [plural(len(one.row.ops), "fault")]
    if one.was_known:
        parts.append("found by an earlier search")
    elif one.first_faults > len(one.row.ops):
        parts.append(f"the first plan that failed had {one.first_faults}")
    if one.plans:
        parts.append(f"the smallest after {plural(one.plans, 'plan')}")
    if not one.is_smallest:
        parts.append("time was up before every smaller plan was tried")
    if not one.is_repeated:
        parts.append("it came out another way when it was repeated")
    return "; ".join(parts)


def _show(display: AuditDisplay, number: int, row: RunRow) -> None:
    """Show the plan that was run last; where lines stay, only one that failed."""
    text = Text.assemble(("plans", "bold"), f"  {number}  {row.status}: {row.name}")
    text.no_wrap, text.overflow = True, "ellipsis"
    if display.moves:
        display.move(text)
    elif row.is_wrong:
        display.write(text)
