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
from typing import Annotated, get_args

import typer
from rich.console import Console

from chaos import __version__
from chaos.audit.lanes import side_by_side
from chaos.cli import signals
from chaos.cli.cluster import (
    Address,
    AllowFaultsOn,
    AllowNodeLoss,
    DryRun,
    PrestartWorkers,
    ReclaimBy,
    Storage,
    refuse_misspelt,
    show_dry_run,
)
from chaos.cli.commands import EXIT_FAIL, EXIT_INCONCLUSIVE, EXIT_PASS, EXIT_USAGE
from chaos.cli.documents import Document, Form, Format, Output
from chaos.cli.options import REPORTS, AnyBackend, Jobs, Reports, Seed, not_side_by_side, seconds
from chaos.cli.rules import NotWith
from chaos.cli.soak import Soak
from chaos.errors import UsageError
from chaos.harness import Harness, write_suite
from chaos.launch.open import open_backend
from chaos.model.launcher import USUAL
from chaos.model.plan import BackendName, Plan, PlanBackend
from chaos.model.summary import SUITE
from chaos.plan.permitted import ClusterOverrides, Permissions
from chaos.report.ci import AnnotatedPlace, annotations
from chaos.report.outcome import FinishedRun, SuiteRow, by_scenario, not_run, row_of
from chaos.report.screen import plain, screen
from chaos.report.terminal import closing_line, print_suite, row_line
from chaos.run.ci import add_to_step_summary, on_github, place_of_scenario
from chaos.run.clock import SystemClock
from chaos.run.shown import for_others, shown
from chaos.run.suites import last_standings
from chaos.scenario_file.load import find_scenarios, load_scenario, refuse_wrong
from chaos.words import plural

FORMS: tuple[Form, ...] = ("text", "json", "junit", "md", "html", "github")

KeepStorage = Annotated[
    bool, typer.Option("--keep-storage", help="Keep the checkpoints of passing runs as well.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print one line.")]
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
        help="Run each scenario N times. `chaos compare` needs 5 repeats of one scenario, or 8 of "
        "fifty, to tell a change from noise.",
    ),
    NotWith("plans", "--random draws other faults for each run, and --repeat is for the same ones"),
]
SoakFor = Annotated[
    float | None,
    typer.Option(
        "--soak",
        parser=seconds,
        metavar="TIME",
        help="Run each scenario with one seed after another until the time (2h, 30m) is up, and "
        "show what moves or grows over the resumes.",
    ),
    *(
        NotWith(other, f"--soak runs one seed after another, and {option} means other runs")
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
    jobs: Annotated[Jobs, not_side_by_side("ray", "torchrun", "python")] = None,
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
    prestart_workers: PrestartWorkers = False,  # noqa: FBT002
) -> None:
    """Run scenarios on a local or an existing Ray cluster, or on forked workers.

    Example: chaos run scenarios/smoke --seed 7
    """
    document = Document.asked(form, output, *FORMS)
    console = screen(quiet=quiet, stderr=document.takes_stdout)
    permissions = Permissions(allow_faults_on, allow_node_loss)
    there = ClusterOverrides(address, storage, permissions, reclaim_by)
    refuse_misspelt(there)
    lanes = jobs or 1
    files = _chosen(paths, matching, exclude or ())
    files = _failed_last(files, reports) if last_failed else files
    soak = None if soak_for is None else Soak(soak_for, SystemClock())
    asked = Asked(files, range(seed, seed + (plans or 0)), seed, backend, repeat, soak)
    console.print(asked.in_words)
    if dry_run:
        show_dry_run(files, there, console, seed=seed)
        return
    rows, finished = list[SuiteRow](), deque[FinishedRun](maxlen=lanes)
    write = partial(_write, console, rows, reports, document, soak, quiet=quiet)
    lane_console = console if lanes == 1 else screen(quiet=True)
    with _concluded(rows, finished, files, write), ExitStack() as opened:
        harnesses = [
            Harness(
                reports,
                lane_console,
                Path.cwd(),
                opened.enter_context(
                    open_backend(
                        backend_to_open(files, backend),
                        console,
                        permissions,
                        prestart=prestart_workers,
                    )
                ),
                SystemClock(),
                keep_storage,
                there,
                partial(_tell, finished, soak),
            )
            for _ in range(lanes)
        ]
        for row in rows_of(harnesses, asked):
            rows.append(row if soak is None else soak.kept(row))
            if lanes > 1:
                console.print(row_line(row), soft_wrap=True)
            if stop and row.standing not in ("expected", "skipped"):
                break
    raise typer.Exit(exit_code(rows))


def backend_to_open(files: Sequence[Path], backend: PlanBackend) -> PlanBackend:
    """Return the backend to open: without any job of Ray Train's, Ray is not needed."""
    rays = [file for file in files if load_scenario(file).job.facts.extra == "ray"]
    if rays and backend not in get_args(BackendName):
        raise UsageError(
            f"{shown(rays[0])} has a job of Ray Train's, and {backend} starts jobs without Ray",
            f"Leave --backend out: jobs without Ray are started by real {backend} all the same.",
            place="--backend",
        )
    return backend if rays else load_scenario(files[0]).job.launcher


def exit_code(rows: list[SuiteRow]) -> int:
    """Return one code for a suite: that of the gravest row; a skipped row counts only alone."""
    found = {row.standing for row in rows}
    if "unexpected" in found:
        return EXIT_FAIL
    if "not_run" in found:
        return EXIT_USAGE
    return EXIT_INCONCLUSIVE if "undecided" in found or found == {"skipped"} else EXIT_PASS


@contextmanager
def _concluded(
    rows: list[SuiteRow],
    finished: Sequence[FinishedRun],
    files: Sequence[Path],
    write: Callable[[], None],
) -> Iterator[None]:
    """Write the suite, however it ends, with scenarios that were cut short or not reached."""
    try:
        yield
    except BaseException as error:
        rows += _cut_short(rows, finished, files, error)
        raise
    finally:
        if rows:
            with signals.held():
                write()


def _cut_short(
    rows: Sequence[SuiteRow],
    finished: Sequence[FinishedRun],
    files: Sequence[Path],
    why: BaseException,
) -> list[SuiteRow]:
    """Return the rows of the scenario under way, and of those that were not reached."""
    if not rows and not finished:
        return []
    kept = {row.directory for row in rows}
    cut = [row_of(run) for run in finished if run.plan.ops and run.directory not in kept]
    reached = {row.file for row in [*rows, *cut]}
    ended = f"ended by {signals.name()}" if isinstance(why, KeyboardInterrupt) else "broken off"
    left = [file.resolve() for file in files if str(file.resolve()) not in reached]
    why_not = f"the suite was {ended} before"
    return cut + [not_run(load_scenario(file).scenario, str(file), why_not) for file in left]


@dataclass(frozen=True)
class Asked:
    """The scenarios to run: files with their own faults, or with faults drawn from seeds."""

    files: Sequence[Path]
    drawn: range
    seed: int
    backend: PlanBackend
    repeat: int
    soak: Soak | None = None

    @property
    def in_words(self) -> str:
        """The first line of a suite."""
        often = f", {self.repeat} times each" if self.repeat > 1 else ""
        if self.soak is not None:
            often = f", and the seeds after it for {self.soak.limit_s:.0f} s"
        count = plural(len(self.files), "scenario")
        return f"chaos {__version__}, seed {self.seed}, {count}{often}, {self._launchers()}"

    def _launchers(self) -> str:
        """Return what starts the jobs, and whether their files name it."""
        jobs = [load_scenario(file).job for file in self.files]
        named = sorted({job.launcher for job in jobs if "launcher" in job.model_fields_set})
        known = [f"{launcher} (job.launcher)" for launcher in named]
        if any("launcher" not in job.model_fields_set for job in jobs):
            known.append(f"{USUAL} (no job.launcher)")
        return f"{'launcher' if len(known) == 1 else 'launchers'} {' and '.join(known)}"

    def plans(self, harness: Harness) -> Iterator[tuple[Plan, int | None]]:
        """Yield each plan once for each repeat, with the number of the repeat."""
        if self.drawn:
            for file in self.files:
                drawn = harness.random_plans(file, seeds=self.drawn, backend=self.backend)
                yield from ((plan, None) for plan in drawn)
            return
        if self.soak is not None:
            yield from self._soaked(harness, self.soak)
            return
        numbers = range(1, self.repeat + 1) if self.repeat > 1 else (None,)
        plans = harness.plans(self.files, seed=self.seed, backend=self.backend)
        yield from ((plan, number) for plan in plans for number in numbers)

    def _soaked(self, harness: Harness, soak: Soak) -> Iterator[tuple[Plan, int]]:
        """Yield each scenario with one seed after another, at least once.

        Later seeds that draw no fault are passed over, until none of many has drawn one.
        """
        empty = 0
        for number in count(1):
            seed = self.seed + number - 1
            for plan in harness.plans(self.files, seed=seed, backend=self.backend):
                if number > 1 and (soak.is_over or empty >= EMPTY_MAX):
                    return
                empty = empty + 1 if plan.draws_nothing else 0
                if number == 1 or not plan.draws_nothing:
                    yield plan, number


def rows_of(harnesses: Sequence[Harness], asked: Asked) -> Iterator[SuiteRow]:
    """Run the requested scenarios, and yield their rows; one that cannot run is not repeated."""
    plans = asked.plans(harnesses[0])
    if len(harnesses) > 1:
        by_backend = {id(each.backend): each for each in harnesses}
        yield from side_by_side(
            lambda backend, item: by_backend[id(backend)].row(item[0], repeat=item[1]),
            list(plans),
            [each.backend for each in harnesses],
        )
        return
    given_up: Plan | None = None
    for plan, number in plans:
        if plan is given_up:
            continue
        row = harnesses[0].row(plan, repeat=number)
        given_up = plan if row.verdict is None else given_up
        yield row
        if asked.soak is not None and row.standing == "not_run":
            return


def _chosen(paths: Sequence[Path], text: str | None, exclude: Sequence[str]) -> tuple[Path, ...]:
    """Return the scenario files to run; raise if there are none."""
    files = tuple(
        file
        for file in find_scenarios(paths)
        if not any(fnmatch(shown(file.resolve()), f"*{pattern}") for pattern in exclude)
    )
    refuse_wrong(files)
    if text is not None:
        titled = ((file, f"{file}\n{load_scenario(file).scenario}".lower()) for file in files)
        files = tuple(file for file, words in titled if text.lower() in words)
    if not files:
        raise UsageError("no scenario is left to run", "Check -k and --exclude.")
    return files


def _failed_last(files: tuple[Path, ...], reports: Path) -> tuple[Path, ...]:
    """Return the files whose last run was not as expected; all, if there are none."""
    stood = last_standings(reports)
    failed = (file for file in files if stood.get(for_others(file), "expected") != "expected")
    return tuple(failed) or files


def _tell(finished: deque[FinishedRun], soak: Soak | None, run: FinishedRun) -> None:
    finished.append(run)
    if soak is not None:
        soak.note(run)


def _write(
    console: Console,
    rows: list[SuiteRow],
    reports: Path,
    document: Document,
    soak: Soak | None,
    *,
    quiet: bool,
) -> None:
    page = write_suite(reports, rows, SystemClock())
    worst = [runs.worst for runs in by_scenario(rows)]
    places = [AnnotatedPlace(*place_of_scenario(Path(row.file), os.environ)) for row in worst]
    commands = [*annotations(worst, places)]
    # Shown in CI's summary and annotations: no verdict depends on that.
    add_to_step_summary(os.environ, page.with_name("summary.md").read_text(encoding="utf-8"))
    if on_github(os.environ):
        console.file.writelines(f"{command}\n" for command in commands)
    print_suite(rows, console)
    for line in () if soak is None else soak.finish(page.parent):
        console.print(line, soft_wrap=True, markup=False)
    console.print(f"report: {shown(page)}", soft_wrap=True)
    if quiet:
        screen(stderr=document.takes_stdout).print(closing_line(rows), soft_wrap=True)
    kept: dict[Form, str] = {
        "json": SUITE,
        "junit": "junit.xml",
        "md": "summary.md",
        "html": "report.html",
    }
    document.write(
        {
            "text": lambda: plain(lambda on: print_suite(rows, on)),
            "github": lambda: "\n".join(commands),
            **{form: partial(page.with_name(n).read_text, "utf-8") for form, n in kept.items()},
        }
    )
