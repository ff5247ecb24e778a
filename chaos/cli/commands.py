"""The command line. The only place, with the pytest plugin, that catches `ChaosError`."""

import json
import os
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text
from rich.traceback import Traceback

from chaos import __version__
from chaos.backends.open import open_backend
from chaos.cli import signals
from chaos.cli.audit import audit
from chaos.cli.cluster import (
    Address,
    AllowFaultsOn,
    AllowNodeLoss,
    DryRun,
    PrestartWorkers,
    Storage,
    refuse_contradictions,
    show_dry_run,
)
from chaos.cli.compare import compare
from chaos.cli.consent import Yes, ask
from chaos.cli.doctor import doctor
from chaos.cli.init import init
from chaos.cli.listing import explain, list_
from chaos.cli.preflight import preflight
from chaos.cli.replay import replay_trace
from chaos.cli.report import report, trend
from chaos.cli.selftest import selftest
from chaos.cli.streams import write_document
from chaos.errors import ChaosError, HistoryError, UsageError
from chaos.extensions import refuse_unusable
from chaos.harness import Harness, check_again, write_suite
from chaos.model.plan import BackendName
from chaos.model.summary import SUITE
from chaos.plan.permitted import Elsewhere, Permissions
from chaos.report.ci import Place, annotations
from chaos.report.outcome import FinishedRun, SuiteRow, by_scenario, not_run, row_of
from chaos.report.screen import screen
from chaos.report.terminal import closing_line, findings, verdict_table
from chaos.report.terminal import explain as explained
from chaos.run.ci import add_to_step_summary, on_github, place_of_scenario
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory
from chaos.run.index import SuiteIndex
from chaos.run.shown import shown
from chaos.scenario_file.load import find_scenarios, load_scenario
from chaos.scenario_file.messages import json_schema

EXIT_VALID, EXIT_INVALID, EXIT_UNKNOWN, EXIT_USAGE, EXIT_HARNESS = range(5)
EXIT_INTERRUPTED = 130

app = typer.Typer(
    name="chaos",
    help="Strikes a Ray Train job at exact places in training and proves whether it came out "
    "the same.\n\nExit codes: 0 as expected, 1 invalid, 2 unknown, 3 usage, 4 chaos itself failed; "
    "ended from outside: 130 by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Reports = Annotated[
    Path, typer.Option("--reports", help="Where runs, baselines and reports are kept.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Draws what scenarios leave open.")]
KeepStorage = Annotated[
    bool, typer.Option("--keep-storage", help="Keep the checkpoints of valid runs as well.")
]

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing; the exit code tells.")]
AsJson = Annotated[bool, typer.Option("--json", help="Write the suite as JSON to stdout.")]

RandomPlans = Annotated[
    int | None,
    typer.Option(
        "--random",
        min=1,
        help="In place of each file's own faults: as many random plans, from the seed on.",
    ),
]
Junit = Annotated[
    Path | None, typer.Option("--junit", help="Write the suite's JUnit file here as well.")
]
Repeat = Annotated[
    int,
    typer.Option(
        "--repeat",
        min=1,
        help="Run each scenario so often: `chaos compare` tells a change from noise by repeats, 5 "
        "of one scenario, 8 of fifty.",
    ),
]


@app.command()
def run(  # noqa: PLR0913, PLR0917 - one parameter per option
    paths: Annotated[
        list[Path], typer.Argument(help="Scenario files *.chaos.yaml, or folders of them.")
    ],
    seed: Seed = 0,
    reports: Reports = Path("reports"),
    backend: Annotated[
        BackendName,
        typer.Option("--backend", help="A local Ray cluster, or forked workers without one."),
    ] = "ray",
    junit: Junit = None,
    plans: RandomPlans = None,
    repeat: Repeat = 1,
    keep_storage: KeepStorage = False,  # noqa: FBT002 - a flag on the command line
    quiet: Quiet = False,  # noqa: FBT002 - likewise
    as_json: AsJson = False,  # noqa: FBT002 - likewise
    address: Address = None,
    storage: Storage = None,
    allow_faults_on: AllowFaultsOn = None,
    allow_node_loss: AllowNodeLoss = False,  # noqa: FBT002
    dry_run: DryRun = False,  # noqa: FBT002
    prestart_workers: PrestartWorkers = False,  # noqa: FBT002
) -> None:
    """Run scenarios on a local Ray cluster, or on one that runs already, and judge them.

    Example: chaos run scenarios/smoke --seed 7
    """
    console = screen(quiet=quiet, stderr=as_json)
    refuse_contradictions(address, storage, backend=backend)
    _refuse_repeated_draws(plans, repeat)
    permissions = Permissions(allow_faults_on, allow_node_loss)
    files = find_scenarios(paths)
    often = f", {repeat} times each" if repeat > 1 else ""
    console.print(f"chaos {__version__}, seed {seed}, {len(files)} scenario(s){often}")
    _make_room(junit)
    rows, told = list[SuiteRow](), deque[FinishedRun](maxlen=1)
    there = Elsewhere(address, storage, permissions)
    if dry_run:
        show_dry_run(files, there, console, seed=seed)
        return
    write = partial(_write, console, rows, reports, junit, as_json=as_json)
    opened = open_backend(backend, console, permissions, prestart=prestart_workers)
    with _concluded(rows, told, files, write), opened as executor:
        cwd, clock = Path.cwd(), SystemClock()
        harness = Harness(reports, console, cwd, executor, clock, keep_storage, there, told.append)
        drawn = range(seed, seed + (plans or 0))
        for row in _rows(harness, files, drawn, backend=backend, repeat=repeat):
            rows.append(row)
    raise typer.Exit(exit_code(rows))


app.command(name="list")(list_)
app.command()(explain)
app.command()(doctor)
app.command()(init)
app.command()(audit)
app.command()(preflight)
app.command(name="replay-trace")(replay_trace)
app.command()(selftest)
app.command()(report)
app.command()(trend)
app.command()(compare)


@app.command()
def check(
    directories: Annotated[list[Path], typer.Argument(help="Directories of runs.")],
) -> None:
    """Judge old runs again, from their histories alone.

    Example: chaos check reports/worker_killed_mid_epoch/0-20261121T014500
    """
    console = screen()
    runs = [check_again(path) for path in directories]
    _show(console, runs)
    raise typer.Exit(exit_code([row_of(one) for one in runs]))


@app.command()
def replay(  # noqa: PLR0913, PLR0917 - one parameter per option
    directory: Annotated[Path, typer.Argument(help="Directory of a run.")],
    reports: Reports = Path("reports"),
    keep_storage: KeepStorage = False,  # noqa: FBT002 - a flag on the command line
    yes: Yes = False,  # noqa: FBT002 - likewise
    allow_faults_on: AllowFaultsOn = None,
    allow_node_loss: AllowNodeLoss = False,  # noqa: FBT002
    prestart_workers: PrestartWorkers = False,  # noqa: FBT002
) -> None:
    """Execute the plan of an old run again, exactly as it was: its script is code that runs here.

    It says what it will run and from where, and asks.

    Example: chaos replay reports/worker_killed_mid_epoch/0-20261121T014500
    """
    console = screen()
    plan = RunDirectory(directory.resolve()).load_plan()
    console.print(f"chaos {__version__}, seed {plan.seed}, replay of {directory}", soft_wrap=True)
    ask(console, plan, directory.resolve(), is_answered=yes)
    there = Elsewhere(permissions=(may := Permissions(allow_faults_on, allow_node_loss)))
    with open_backend(plan.backend, console, may, prestart=prestart_workers) as executor:
        cwd, clock = Path(plan.cwd), SystemClock()
        harness = Harness(reports, console, cwd, executor, clock, keep_storage, there)
        again = harness.run_plan(plan)
    _show(console, [again])
    raise typer.Exit(exit_code([row_of(again)]))


@app.command()
def schema() -> None:
    """Print the JSON Schema of scenario files, for editors.

    Example: chaos schema > scenarios/chaos.schema.json
    """
    write_document(json.dumps(json_schema(), indent=2) + "\n")


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,  # noqa: FBT002
) -> None:
    """Strike a Ray Train job at exact places in training and judge what became of it."""
    if show:
        write_document(f"chaos {__version__}\n")
        raise typer.Exit
    refuse_unusable()


def exit_code(rows: list[SuiteRow]) -> int:
    """Give one code for a suite: the gravest row decides, and what was skipped only alone."""
    found = {row.standing for row in rows}
    if "unexpected" in found:
        return EXIT_INVALID
    if "not_run" in found:
        return EXIT_USAGE
    return EXIT_UNKNOWN if "undecided" in found or found == {"skipped"} else EXIT_VALID


def main() -> None:
    """Run the command line and turn what chaos raises into a message and a code."""
    code: int
    try:
        code = app(prog_name="chaos", standalone_mode=False) or EXIT_VALID
    except (KeyboardInterrupt, typer.Abort):
        code = EXIT_INTERRUPTED
    except BaseException as error:  # noqa: BLE001 - whatever it is, it must not look like a verdict
        code = _failed(error)
    if code == EXIT_INTERRUPTED:  # typer turns KeyboardInterrupt into it, without a word
        _complain(f"ended by {signals.name()}; what was done until then is in the runs' folders")
        code = signals.exit_code()
    sys.exit(code)


def _failed(error: BaseException) -> int:
    """Say what went wrong and give its code: the caller's to put right, or ours."""
    if signals.has_come():  # what breaks on the way out is not what the command came to
        _complain(str(error) or type(error).__name__)
        return signals.exit_code()
    if isinstance(error, ChaosError):
        _complain(str(error))
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_HARNESS
    if isinstance(error, SystemExit) and _is_of_completion(error):
        raise error
    if hasattr(error, "show"):  # a mistake on the command line, from the click in typer
        error.show()
        return EXIT_USAGE
    # typer ends with 1 for a broken pipe, whichever it was; ours would be one within chaos.
    cause = error.__context__ if isinstance(error, SystemExit) else None
    shown = cause or error
    screen(stderr=True).print(Traceback.from_exception(type(shown), shown, shown.__traceback__))
    _complain("chaos itself failed; what was seen is in the run's directory")
    return EXIT_HARNESS


def _is_of_completion(error: SystemExit) -> bool:
    """Return whether typer has ended the process by itself: it does where a shell completes."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    raised_in = str(frames[-1].f_globals.get("__name__")) if frames else ""
    return raised_in.startswith("typer.") and not isinstance(error.__context__, OSError)


@contextmanager
def _concluded(
    rows: list[SuiteRow],
    told: Sequence[FinishedRun],
    files: Sequence[Path],
    write: Callable[[], None],
) -> Iterator[None]:
    """Have a suite written however it ends; what was cut short or never reached is in it."""
    try:
        yield
    except BaseException as error:
        rows += _cut_short(rows, told, files, error)
        raise
    finally:
        if rows:
            with signals.held():
                write()


def _cut_short(
    rows: Sequence[SuiteRow], told: Sequence[FinishedRun], files: Sequence[Path], why: BaseException
) -> list[SuiteRow]:
    """Give the rows of what was under way and of what was never reached; none if nothing began."""
    begun = [row_of(run) for run in told if run.plan.ops]
    kept = {row.directory for row in rows}
    cut = [row for row in begun if row.directory not in kept]
    if not rows and not told:
        return []
    reached = {row.file for row in [*rows, *cut]}
    ended = f"ended by {signals.name()}" if isinstance(why, KeyboardInterrupt) else "broken off"
    left = [file for file in files if str(file.resolve()) not in reached]
    return cut + [
        not_run(load_scenario(file).scenario, str(file.resolve()), f"the suite was {ended} before")
        for file in left
    ]


def _rows(
    harness: Harness, files: Sequence[Path], drawn: range, *, backend: BackendName, repeat: int
) -> Iterator[SuiteRow]:
    """Run each file's own faults, or those drawn from seeds where there are any."""
    if not drawn:
        return harness.run_suite(files, seed=drawn.start, backend=backend, repeat=repeat)
    return chain.from_iterable(
        harness.run_random(file, seeds=drawn, backend=backend) for file in files
    )


def _refuse_repeated_draws(plans: int | None, repeat: int) -> None:
    if plans is not None and repeat > 1:
        raise UsageError(
            "--random draws other faults for each run, and --repeat is for the same ones",
            "Give one of them.",
        )


def _make_room(junit: Path | None) -> None:
    """Find out before anything runs whether there will be a folder to write to."""
    if junit is not None:
        junit.parent.mkdir(parents=True, exist_ok=True)


def _write(
    console: Console, rows: list[SuiteRow], reports: Path, junit: Path | None, *, as_json: bool
) -> None:
    page = write_suite(reports, rows, SystemClock())
    _tell_ci(console, rows, page)
    if junit is not None:
        junit.write_bytes(page.with_name("junit.xml").read_bytes())
    for each in ("", *findings(rows), verdict_table(rows), closing_line(rows)):
        console.print(each)
    console.print(f"report: {shown(page)}", soft_wrap=True)
    if as_json:
        write_document(page.with_name(SUITE).read_text(encoding="utf-8") + "\n")


def _tell_ci(console: Console, rows: list[SuiteRow], page: Path) -> None:
    """Keep the suite in the history, and show it where CI looks; no verdict depends on that."""
    try:
        SuiteIndex(page.parents[2]).refresh()
    except HistoryError as error:
        console.print(f"not in the history of suites: {error}", style="yellow", soft_wrap=True)
    add_to_step_summary(os.environ, page.with_name("summary.md").read_text(encoding="utf-8"))
    if on_github(os.environ):
        worst = [runs.worst for runs in by_scenario(rows)]
        places = [Place(*place_of_scenario(Path(row.file), os.environ)) for row in worst]
        for command in annotations(worst, places):
            console.file.write(f"{command}\n")


def _show(console: Console, runs: list[FinishedRun]) -> None:
    for one in runs:
        if one.verdict.validity != "valid":
            console.print(explained(one.verdict, one.plan.scenario, directory=one.directory))
    console.print(verdict_table([row_of(one) for one in runs]))
    for one in runs:
        console.print(f"report: {one.directory}{os.sep}report.html", soft_wrap=True)


def _complain(message: str) -> None:
    words = Text.assemble(("chaos: ", "bold red"), message)  # a message may hold square brackets
    screen(stderr=True).print(words, soft_wrap=True)
