"""`chaos run`: execute scenarios, judge them, and write the results."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from itertools import count
from pathlib import Path
from typing import Annotated, Protocol

import typer
from rich.console import Console

from chaos import __version__
from chaos.app.field_rules import Excludes, forbid_parallel_jobs
from chaos.app.run import find_open_backend
from chaos.audit.lanes import run_side_by_side
from chaos.cli import signals
from chaos.cli.cluster import (
    Address,
    AllowFaultsOn,
    AllowNodeLoss,
    DryRun,
    ReclaimBy,
    Storage,
)
from chaos.cli.commands import EXIT_FAIL, EXIT_INCONCLUSIVE, EXIT_PASS, EXIT_USAGE
from chaos.cli.documents import Document, Form, Format, Output
from chaos.cli.options import (
    REPORTS,
    AnyBackend,
    Jobs,
    Quiet,
    Reports,
    Seed,
    parse_seconds,
)
from chaos.errors import UsageError
from chaos.extension_modules import load_extension_module
from chaos.harness import Harness, write_suite
from chaos.launch.backends import open_backend
from chaos.model.launcher import DEFAULT_LAUNCHER
from chaos.model.plan import Plan, PlanBackend
from chaos.model.summary import SUITE
from chaos.plan.permissions import ClusterOverrides, Permissions
from chaos.report.ci import AnnotatedLine, build_annotations
from chaos.report.outcome import (
    FinishedRun,
    SuiteRow,
    build_suite_row,
    build_unrun_row,
    group_scenarios,
)
from chaos.report.screen import ConsoleAnnouncer, build_console, render_plain
from chaos.report.terminal import build_closing_line, build_row_line, print_suite
from chaos.run.ci import add_to_step_summary, is_github_actions, locate_scenario
from chaos.run.clock import SystemClock
from chaos.run.display_path import format_path, format_portable_path
from chaos.run.suites import find_latest_standings
from chaos.scenario_file.load import find_scenarios, load_scenario, load_scenarios
from chaos.wording import plural

FORMS: tuple[Form, ...] = ("text", "json", "junit", "md", "html", "github")

KeepStorage = Annotated[
    bool, typer.Option("--keep-storage", help="Keep the checkpoints of passing runs as well.")
]
RandomPlans = Annotated[
    int | None,
    typer.Option(
        "--random",
        min=1,
        metavar="N",
        help="Replace each file's faults by random ones, N times, from the seed on.",
    ),
]
EMPTY_MAX = 1_000  # plans of a soak in a row for which nothing was drawn

Repeat = Annotated[
    int,
    typer.Option(
        "--repeat",
        min=1,
        metavar="N",
        help="Run each scenario N times; `chaos compare` needs 5 or more.",
    ),
    Excludes(
        "plans", "--random draws other faults for each run, and --repeat is for the same ones"
    ),
]
SoakFor = Annotated[
    float | None,
    typer.Option(
        "--soak",
        parser=parse_seconds,
        metavar="TIME",
        help="Run each scenario with one seed after another until the time (2h, 30m) is up.",
    ),
    *(
        Excludes(other, f"--soak runs one seed after another, and {option} means other runs")
        for other, option in (("plans", "--random"), ("repeat", "--repeat"), ("jobs", "--jobs"))
    ),
]
Stop = Annotated[
    bool, typer.Option("--exitfirst", "-x", help="Stop after the first run that does not pass.")
]
Matching = Annotated[
    str | None,
    typer.Option("-k", metavar="TEXT", help="Run only scenarios whose path or title has TEXT."),
]
LastFailed = Annotated[
    bool,
    typer.Option(
        "--last-failed",
        "--lf",
        help="Run only scenarios that were not as expected in their last suite; all, if there are "
        "none.",
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="PATTERN", help="Skip files that match. Repeatable."),
]


def run(  # noqa: PLR0913, PLR0917 - one parameter per option
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH", help="Scenario files (*.chaos.yaml), or folders of them."),
    ],
    backend: AnyBackend = "ray",
    seed: Seed = 0,
    matching: Matching = None,
    exclude: Exclude = None,
    last_failed: LastFailed = False,  # noqa: FBT002 - a flag on the command line
    repeat: Repeat = 1,
    plans: RandomPlans = None,
    soak_for: SoakFor = None,
    stop: Stop = False,  # noqa: FBT002 - a flag on the command line
    jobs: Annotated[Jobs, forbid_parallel_jobs("ray", "torchrun", "python")] = None,
    form: Format = None,
    output: Output = None,
    quiet: Quiet = False,  # noqa: FBT002 - likewise
    reports: Reports = REPORTS,
    keep_storage: KeepStorage = False,  # noqa: FBT002 - likewise
    address: Address = None,
    storage: Storage = None,
    reclaim_by: ReclaimBy = None,
    allow_faults_on: AllowFaultsOn = None,
    allow_node_loss: AllowNodeLoss = False,  # noqa: FBT002
    dry_run: DryRun = False,  # noqa: FBT002
) -> None:
    """Run scenarios on a local or an existing Ray cluster, or on forked workers.

    Example: chaos run scenarios/smoke --seed 7
    """
    document = Document.parse(form, output, *FORMS)
    console = build_console(quiet=quiet, stderr=document.takes_stdout)
    permissions = Permissions(allow_faults_on, allow_node_loss)
    overrides = ClusterOverrides(address, storage, permissions, reclaim_by)
    lanes = jobs or 1
    files = _select_files(paths, matching, exclude or ())
    files = _select_failed(files, reports) if last_failed else files
    soak = None if soak_for is None else _open_soak(soak_for)
    request = SuiteRequest(files, range(seed, seed + (plans or 0)), seed, backend, repeat, soak)
    console.print(request.description)
    if dry_run:
        module = load_extension_module("cluster.dry_run", "--dry-run")
        module.print_dry_run(files, overrides, console, seed=seed)
        return
    rows, finished_runs = list[SuiteRow](), deque[FinishedRun](maxlen=lanes)
    write_results = partial(_write_results, console, rows, reports, document, soak, quiet=quiet)
    lane_console = console if lanes == 1 else build_console(quiet=True)
    with _conclude_suite(rows, finished_runs, files, write_results), ExitStack() as exit_stack:
        harnesses = [
            Harness(
                reports,
                lane_console,
                Path.cwd(),
                exit_stack.enter_context(
                    open_backend(
                        find_open_backend(files, backend),
                        ConsoleAnnouncer(console),
                        permissions,
                    )
                ),
                SystemClock(),
                keep_storage,
                overrides,
                partial(_record_run, finished_runs, soak),
            )
            for _ in range(lanes)
        ]
        for row in run_request(harnesses, request):
            rows.append(row if soak is None else soak.shrink_row(row))
            if lanes > 1:
                console.print(build_row_line(row), soft_wrap=True)
            if stop and row.standing not in ("expected", "skipped"):
                break
    raise typer.Exit(find_exit_code(rows))


def find_exit_code(rows: list[SuiteRow]) -> int:
    """Return one code for a suite: that of the gravest row; a skipped row counts only alone."""
    standings = {row.standing for row in rows}
    if "unexpected" in standings:
        return EXIT_FAIL
    if "not_run" in standings:
        return EXIT_USAGE
    return EXIT_INCONCLUSIVE if "undecided" in standings or standings == {"skipped"} else EXIT_PASS


@contextmanager
def _conclude_suite(
    rows: list[SuiteRow],
    finished_runs: Sequence[FinishedRun],
    files: Sequence[Path],
    write_results: Callable[[], None],
) -> Iterator[None]:
    """Write the suite, however it ends, with scenarios that were cut short or not reached."""
    try:
        yield
    except BaseException as error:
        rows += _build_missing_rows(rows, finished_runs, files, error)
        raise
    finally:
        if rows:
            with signals.delay_signals():
                write_results()


def _build_missing_rows(
    rows: Sequence[SuiteRow],
    finished_runs: Sequence[FinishedRun],
    files: Sequence[Path],
    error: BaseException,
) -> list[SuiteRow]:
    """Return the rows of the scenario under way, and of those that were not reached."""
    if not rows and not finished_runs:
        return []
    known_directories = {row.directory for row in rows}
    interrupted_rows = [
        build_suite_row(run)
        for run in finished_runs
        if run.plan.ops and run.directory not in known_directories
    ]
    reached_files = {row.file for row in [*rows, *interrupted_rows]}
    end_reason = (
        f"ended by {signals.describe_signal()}"
        if isinstance(error, KeyboardInterrupt)
        else "broken off"
    )
    remaining_files = [file.resolve() for file in files if str(file.resolve()) not in reached_files]
    reason = f"the suite was {end_reason} before"
    return interrupted_rows + [
        build_unrun_row(load_scenario(file).scenario, str(file), reason) for file in remaining_files
    ]


class SuiteSoak(Protocol):
    """A suite that goes on with one seed after another until its time is up: `lab.soak.Soak`."""

    @property
    def limit_s(self) -> float:
        """The time that is asked for."""

    @property
    def is_finished(self) -> bool:
        """Whether no further run is begun."""

    def record_run(self, run: FinishedRun) -> None:
        """Keep the figures of a run."""

    def shrink_row(self, row: SuiteRow) -> SuiteRow:
        """Return a row without what would fill the memory in hours."""

    def finish(self, folder: Path) -> tuple[str, ...]:
        """Write the figures into the suite's folder; return them in words."""


@dataclass(frozen=True)
class SuiteRequest:
    """The scenarios to run: files with their own faults, or with faults drawn from seeds."""

    files: Sequence[Path]
    random_seeds: range
    seed: int
    backend: PlanBackend
    repeat: int
    soak: SuiteSoak | None = None

    @property
    def description(self) -> str:
        """The first line of a suite."""
        repeat_text = f", {self.repeat} times each" if self.repeat > 1 else ""
        if self.soak is not None:
            repeat_text = f", and the seeds after it for {self.soak.limit_s:.0f} s"
        count = plural(len(self.files), "scenario")
        return (
            f"chaos {__version__}, seed {self.seed}, {count}{repeat_text}, "
            f"{self._describe_launchers()}"
        )

    def _describe_launchers(self) -> str:
        """Return what starts the jobs, and whether their files name it."""
        jobs = [load_scenario(file).job for file in self.files]
        launcher_names = sorted(
            {job.launcher for job in jobs if "launcher" in job.model_fields_set}
        )
        descriptions = [f"{launcher} (job.launcher)" for launcher in launcher_names]
        if any("launcher" not in job.model_fields_set for job in jobs):
            descriptions.append(f"{DEFAULT_LAUNCHER} (no job.launcher)")
        return (
            f"{'launcher' if len(descriptions) == 1 else 'launchers'} {' and '.join(descriptions)}"
        )

    def iterate_plans(self, harness: Harness) -> Iterator[tuple[Plan, int | None]]:
        """Yield each plan once for each repeat, with the number of the repeat."""
        if self.random_seeds:
            for file in self.files:
                random_plans = harness.draw_plans(
                    file, seeds=self.random_seeds, backend=self.backend
                )
                yield from ((plan, None) for plan in random_plans)
            return
        if self.soak is not None:
            yield from self._iterate_soak(harness, self.soak)
            return
        numbers = range(1, self.repeat + 1) if self.repeat > 1 else (None,)
        plans = harness.load_plans(self.files, seed=self.seed, backend=self.backend)
        yield from ((plan, number) for plan in plans for number in numbers)

    def _iterate_soak(self, harness: Harness, soak: SuiteSoak) -> Iterator[tuple[Plan, int]]:
        """Yield each scenario with one seed after another, at least once.

        Later seeds that draw no fault are passed over, until none of many has drawn one.
        """
        empty_count = 0
        for number in count(1):
            seed = self.seed + number - 1
            for plan in harness.load_plans(self.files, seed=seed, backend=self.backend):
                if number > 1 and (soak.is_finished or empty_count >= EMPTY_MAX):
                    return
                empty_count = empty_count + 1 if plan.has_empty_draw else 0
                if number == 1 or not plan.has_empty_draw:
                    yield plan, number


def run_request(harnesses: Sequence[Harness], request: SuiteRequest) -> Iterator[SuiteRow]:
    """Run the requested scenarios, and yield their rows; one that cannot run is not repeated."""
    plans = request.iterate_plans(harnesses[0])
    if len(harnesses) > 1:
        harness_by_backend = {id(harness.backend): harness for harness in harnesses}
        yield from run_side_by_side(
            lambda backend, item: harness_by_backend[id(backend)].run_suite_plan(
                item[0], repeat=item[1]
            ),
            list(plans),
            [harness.backend for harness in harnesses],
        )
        return
    failed_plan: Plan | None = None
    for plan, number in plans:
        if plan is failed_plan:
            continue
        row = harnesses[0].run_suite_plan(plan, repeat=number)
        failed_plan = plan if row.verdict is None else failed_plan
        yield row
        if request.soak is not None and row.standing == "not_run":
            return


def _select_files(
    paths: Sequence[Path], text: str | None, exclude: Sequence[str]
) -> tuple[Path, ...]:
    """Return the scenario files to run; raise if there are none."""
    files = tuple(
        file
        for file in find_scenarios(paths)
        if not any(fnmatch(format_path(file.resolve()), f"*{pattern}") for pattern in exclude)
    )
    titles = {file: scenario.scenario for file, scenario in load_scenarios(files).items()}
    if text is not None:
        word = text.lower()
        files = tuple(file for file in files if word in f"{file}\n{titles[file]}".lower())
    if not files:
        raise UsageError("no scenario is left to run", "Check -k and --exclude.")
    return files


def _select_failed(files: tuple[Path, ...], reports: Path) -> tuple[Path, ...]:
    """Return the files whose last run was not as expected; all, if there are none."""
    standings = find_latest_standings(reports)
    failed_files = (
        file
        for file in files
        if standings.get(format_portable_path(file), "expected") != "expected"
    )
    return tuple(failed_files) or files


def _open_soak(limit_s: float) -> SuiteSoak:
    soak: SuiteSoak = load_extension_module("lab.soak", "--soak").Soak(limit_s, SystemClock())
    return soak


def _record_run(
    finished_runs: deque[FinishedRun], soak: SuiteSoak | None, run: FinishedRun
) -> None:
    finished_runs.append(run)
    if soak is not None:
        soak.record_run(run)


def _write_results(
    console: Console,
    rows: list[SuiteRow],
    reports: Path,
    document: Document,
    soak: SuiteSoak | None,
    *,
    quiet: bool,
) -> None:
    page = write_suite(reports, rows, SystemClock())
    worst_rows = [runs.worst_row for runs in group_scenarios(rows)]
    source_locations = [
        AnnotatedLine(*locate_scenario(Path(row.file), os.environ)) for row in worst_rows
    ]
    commands = [*build_annotations(worst_rows, source_locations)]
    # Shown in CI's summary and annotations: no verdict depends on that.
    add_to_step_summary(os.environ, page.with_name("summary.md").read_text(encoding="utf-8"))
    if is_github_actions(os.environ):
        console.file.writelines(f"{command}\n" for command in commands)
    print_suite(rows, console)
    for line in () if soak is None else soak.finish(page.parent):
        console.print(line, soft_wrap=True, markup=False)
    console.print(f"report: {format_path(page)}", soft_wrap=True)
    if quiet:
        build_console(stderr=document.takes_stdout).print(build_closing_line(rows), soft_wrap=True)
    file_names: dict[Form, str] = {
        "json": SUITE,
        "junit": "junit.xml",
        "md": "summary.md",
        "html": "report.html",
    }
    document.write(
        {
            "text": lambda: render_plain(lambda text_console: print_suite(rows, text_console)),
            "github": lambda: "\n".join(commands),
            **{
                form: partial(page.with_name(file_name).read_text, "utf-8")
                for form, file_name in file_names.items()
            },
        }
    )
