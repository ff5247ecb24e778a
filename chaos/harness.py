"""Load → plan → execute → judge → report, of one run and of a suite.

`Harness` owns the order of things and the files. Decisions come from the pure stages; a backend
acts on processes.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

from rich.console import Console
from rich.text import Text

from chaos import runner
from chaos.check.prediction_band import RUNS_MIN
from chaos.check.rank_epochs import refuse_lone_steps, refuse_uneven_epochs
from chaos.check.time_limits import add_idle_limit
from chaos.errors import (
    ClusterError,
    HarnessError,
    JobError,
    ScenarioError,
    UnmetNeedError,
    UsageError,
)
from chaos.job_failure import (
    build_job_error,
    check_needs,
    check_rank_epochs,
    check_stated_steps,
    refuse_empty_draw,
    refuse_separate_jobs,
)
from chaos.launch.cluster_extension import load_cluster_extension, require_cluster_extension
from chaos.model.history import HISTORY, Baseline, History
from chaos.model.plan import Plan, PlanBackend
from chaos.model.scenario import Scenario
from chaos.model.summary import SUITE, SUMMARY, SuiteSummary
from chaos.other_packages import list_check_names, list_finding_kinds, load_external_checks
from chaos.plan.digest import baseline_digest
from chaos.plan.draw import draw_plan
from chaos.plan.extent import count_epoch_steps, find_run_limit_s, measure_extent
from chaos.plan.make import make_plan
from chaos.plan.permissions import (
    ClusterOverrides,
    Permissions,
    find_missing_permission,
    find_refusals,
)
from chaos.report.ci import build_summary
from chaos.report.ci import render as render_junit
from chaos.report.html import render_run, render_suite
from chaos.report.live import Display
from chaos.report.markdown import render_suite_markdown
from chaos.report.outcome import FinishedRun, SuiteRow, build_error_row, build_suite_row
from chaos.report.sections import describe_verdict
from chaos.run.clock import Clock, elapsed_seconds, format_iso, format_stamp
from chaos.run.directory import (
    DRAWN,
    RunDirectory,
    create_folder,
    create_run,
    ensure_reports_folder,
    explain_full_disk,
)
from chaos.run.display_path import find_repository, format_path, format_portable_path
from chaos.run.environment import (
    collect_environment,
    find_commit_and_branch,
    find_decisive_versions,
)
from chaos.run.job_code import digest_job_code
from chaos.run.journal import read_history
from chaos.run.ports import Backend
from chaos.run.record_file import describe_write_error, translate_disk_errors
from chaos.run.suites import SUITES, find_previous_suite
from chaos.scenario_file.load import load_scenario
from chaos.scenario_file.text import render_drawn_scenario
from chaos.wording import suggest_name

BASELINES = ".baselines"
_baseline_locks: dict[str, Lock] = {}


@dataclass
class Harness:
    """The execution and judgement of plans, whose baselines and results are kept in `reports`."""

    reports: Path
    console: Console
    cwd: Path
    backend: Backend
    clock: Clock
    keep_storage: bool = False
    overrides: ClusterOverrides = field(default_factory=ClusterOverrides)
    #: called with every run as soon as it is judged and written down: with baselines as well, and
    #: with one that was interrupted, which `run_plan` does not return
    run_listener: Callable[[FinishedRun], None] | None = None

    def load_plans(
        self, files: Sequence[Path], *, seed: int, backend: PlanBackend = "ray"
    ) -> list[Plan]:
        """Return the plans of scenario files, those whose clusters have one shape together.

        A bad file is found before anything starts.
        """
        plans = [self._load_plan(file, seed=seed, backend=backend) for file in files]
        for plan in plans:
            check_permissions(plan, self.overrides.permissions)
        return sorted(plans, key=lambda plan: (plan.shape.nodes, plan.shape.cpus_per_node))

    def draw_plans(
        self, file: Path, *, seeds: range, backend: PlanBackend = "ray"
    ) -> Iterator[Plan]:
        """Yield a plan per seed, with faults drawn from it in place of the scenario's own."""
        plan = self._load_plan(file, seed=0, backend=backend)
        check_permissions(plan, self.overrides.permissions)
        # The length of the job is known from its baseline alone, which needs a plan. So one is
        # drawn over a single step, and only its job and shape are used.
        sample_plan = draw_plan(plan, seed=seeds.start, steps=[0])  # in shape and job, as all are
        steps = count_epoch_steps(self.obtain_baseline(sample_plan))
        for seed in seeds:
            yield draw_plan(plan, seed=seed, steps=steps)

    def run_suite_plan(self, plan: Plan, *, repeat: int | None = None) -> SuiteRow:
        """Run a plan; return its row in a suite, also where it was skipped or could not run."""
        start = self.clock.now_ns()
        try:
            row = build_suite_row(self.run_plan(plan))
        except (JobError, ClusterError) as error:
            is_skipped = isinstance(error, UnmetNeedError)
            prefix = ("skipped: ", "blue") if is_skipped else ("not run: ", "bold red")
            self.console.print(Text.assemble(prefix, str(error)), soft_wrap=True)
            for line in error.log_lines if isinstance(error, JobError) else ():
                self.console.print(Text(f"  | {line}", style="dim"), soft_wrap=True)
            row = build_error_row(plan, error, duration_s=elapsed_seconds(start, self.clock))
        return replace(row, repeat=repeat)

    def run_plan(self, plan: Plan) -> FinishedRun:
        """Execute one plan and judge it against its baseline."""
        check_permissions(plan, self.overrides.permissions, includes_faults=True)
        refuse_empty_draw(plan)
        baseline = self.obtain_baseline(plan)
        check_stated_steps(plan, baseline)
        refuse_lone_steps(plan, baseline.runs)
        refuse_uneven_epochs(plan, baseline.runs)
        check_rank_epochs(plan, baseline)
        run_s = find_run_limit_s(plan, baseline)
        limits = plan.limits.replace(run_s=run_s)
        plan = plan.replace(limits=limits)
        name = f"{plan.seed}-{format_stamp(self.clock.wall_ns())}"
        limited_plan = add_idle_limit(plan, baseline)
        directory = create_run(
            ensure_reports_folder(self.reports, plan.slug),
            name,
            limited_plan,
            collect_environment(self.cwd),
        )
        with explain_full_disk(directory):
            directory.save_baseline(baseline)
            self._write_drawn_scenario(plan, directory)
        try:
            return self._execute(directory.load_plan(), directory, baseline)
        except UnsavedRunError as error:  # the verdict stands, and the exit code is its own
            self.console.print(Text(str(error), style="bold red"), soft_wrap=True)
            return error.run

    def obtain_baseline(self, plan: Plan) -> Baseline:
        """Return as many runs without faults as the plan needs, from the cache if possible."""
        # Before anything starts: a job whose extra is missing is skipped, and no failure of it.
        check_needs(plan, os.environ)
        baseline_plan = plan.build_baseline_plan()
        code = digest_job_code(plan)
        digest = baseline_digest(baseline_plan, code=code, versions=find_decisive_versions())
        run_count = 1 if plan.expect.band is None else RUNS_MIN
        with _baseline_locks.setdefault(digest, Lock()):  # runs side by side make it once
            cached_paths = sorted((self.reports / BASELINES).glob(f"{digest}*"))
            # A folder without the mark is of a run that failed or was broken off. The mark is
            # written last.
            complete_paths = [path for path in cached_paths if (path / "complete").exists()]
            runs = [RunDirectory(path).load_history() for path in complete_paths]
            while len(runs) < run_count:
                runs.append(self._run_baseline(plan, baseline_plan, digest))
        return Baseline(runs[:run_count])

    # -- inside --------------------------------------------------------------------------------

    def _load_plan(self, file: Path, *, seed: int, backend: PlanBackend) -> Plan:
        return self.overrides.apply(
            load_scenario_plan(file, cwd=self.cwd, seed=seed, backend=backend)
        )

    def _write_drawn_scenario(self, plan: Plan, directory: RunDirectory) -> None:
        """Write what the seed decided as a scenario, before anything of it happens, and show it."""
        if not plan.is_drawn:
            return
        file = directory.write(DRAWN, render_drawn_scenario(plan, folder=directory.path))
        directory.keep_secrets(plan)
        self.console.print(f"drawn from seed {plan.seed}: {format_path(file)}", soft_wrap=True)
        for op in plan.ops:
            self.console.print(f"  {op}", soft_wrap=True, markup=False)

    def _run_baseline(self, plan: Plan, baseline_plan: Plan, digest: str) -> History:
        directory = create_run(
            ensure_reports_folder(self.reports, BASELINES),
            digest,
            baseline_plan,
            collect_environment(self.cwd),
        )
        run = self._execute(directory.load_plan(), directory, None)
        refuse_separate_jobs(run)
        if run.verdict.status != "pass":
            raise build_job_error(plan, run, log=directory.logs / "driver.log")
        directory.remove_storage()
        with explain_full_disk(directory):
            directory.write("complete", "")
        return run.history

    def _execute(
        self, plan: Plan, directory: RunDirectory, baseline: History | None
    ) -> FinishedRun:
        """Execute and judge; the records of a run that breaks off are written down as well."""
        start = self.clock.now_ns()
        epochs, steps = measure_extent(baseline)
        display = Display(
            self.console,
            self.clock,
            title=plan.scenario,
            total_epochs=epochs,
            steps_per_epoch=steps,
        )
        try:
            with display:
                runner.execute(self.backend, plan, directory, baseline, display.show_events)
        finally:
            try:
                run = self._conclude(plan, directory, baseline, start)
            except Exception:
                raise
            except BaseException:  # broken off while it was judged: written all the same
                self._conclude(plan, directory, baseline, start)
                raise
        if run.verdict.status == "pass" and not self.keep_storage:
            directory.remove_storage()
        return run

    def _conclude(
        self, plan: Plan, directory: RunDirectory, baseline: History | None, start_ns: int
    ) -> FinishedRun:
        # In this order: judged, and then written down. A disk that is full costs the files and not
        # the verdict, which the error carries.
        history = read_history(directory.journals)
        duration_s = elapsed_seconds(start_ns, self.clock)
        run = runner.judge_run(directory, plan, history, baseline, duration_s=duration_s)
        try:
            with _convert_write_errors(run):
                directory.save_history(history)
            run = save_outcome(directory, run)
        except UnsavedRunError:
            self._notify_listener(run)
            raise
        self._notify_listener(run)
        return run

    def _notify_listener(self, run: FinishedRun) -> None:
        if self.run_listener is not None:
            self.run_listener(run)


class UnsavedRunError(HarnessError):
    """The outcome of a run could not be written down, as on a full disk; the verdict stands."""

    def __init__(self, run: FinishedRun, error: OSError) -> None:
        self.run = run
        verdict_words = f"The verdict is {describe_verdict(run.verdict)}: {run.verdict.headline}"
        super().__init__(describe_write_error(run.directory, error, verdict_words))


def save_outcome(directory: RunDirectory, run: FinishedRun) -> FinishedRun:
    """Write down the outcome of a run; return the run with the digest of the judged history."""
    with _convert_write_errors(run):
        run = replace(run, verdict=directory.save_verdict(run.verdict))
        row = build_suite_row(run)
        directory.write(SUMMARY, build_summary(row, folder=run.directory).model_dump_json(indent=2))
        directory.write("junit.xml", render_junit([row]))
        directory.write("report.html", render_run(run))
    return run


@contextmanager
def _convert_write_errors(run: FinishedRun) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UnsavedRunError(run, error) from error


def rejudge_run(path: Path) -> FinishedRun:
    """Judge an old run with today's checks and write it down anew; nothing is executed.

    Raises `UnsavedRunError` where the folder cannot be written.
    """
    directory = RunDirectory(path.resolve())
    plan, history = directory.load_plan(), load_recorded_history(directory)
    baseline = directory.load_baseline()
    seconds = (history[-1].time_ns - history[0].time_ns) / 1e9 if len(history) else 0.0
    external_checks = load_external_checks().add_missing(directory.load_verdict())
    run = runner.judge_run(
        directory, plan, history, baseline, duration_s=seconds, external_checks=external_checks
    )
    return save_outcome(directory, run)


def load_recorded_history(directory: RunDirectory) -> History:
    """Return the merged history, or the journals where chaos died before it merged them."""
    if os.path.lexists(directory.path / HISTORY) or not directory.journals.is_dir():
        return directory.load_history()
    return read_history(directory.journals)


def check_expected_names(file: Path, scenario: Scenario, *, line: int | None = None) -> None:
    """Raise `ScenarioError` where a scenario expects a check or a finding that does not exist.

    Without `line`, the error is at the line of the file that names it.
    """
    expect = scenario.expect
    accepted_kinds = (entry.finding for entry in expect.accept_findings)
    for noun, expected_names, names in (
        ("check", [expect.check, *expect.besides], list_check_names()),
        ("finding", [expect.finding, *accepted_kinds], list_finding_kinds()),
    ):
        for name in expected_names:
            if name is not None and name not in names:
                all_names = f"They are {', '.join(names)}: `chaos list {noun}s`."
                hint = suggest_name(name, names, all_names)
                line = line or _find_name_line(file, name)
                raise ScenarioError(file, line, f"there is no {noun} '{name}'", hint)


def _find_name_line(file: Path, name: str) -> int:
    lines = file.read_text(encoding="utf-8").splitlines()
    pattern = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
    return next((number for number, text in enumerate(lines, 1) if pattern.search(text)), 1)


def load_scenario_plan(file: Path, *, cwd: Path, seed: int, backend: PlanBackend) -> Plan:
    """Return the plan of a scenario file, or raise `ScenarioError`."""
    scenario = load_scenario(file)
    check_expected_names(file, scenario)
    return make_plan(scenario, file=file.resolve(), seed=seed, cwd=cwd, backend=backend)


def check_permissions(
    plan: Plan, permissions: Permissions, *, includes_faults: bool = False
) -> None:
    """Raise `UsageError` where a plan's cluster is not ours and faults are not allowed on it.

    Also where its extension, or its platform's client, is not installed. `includes_faults`: raise
    `ClusterError` where one of the plan's own faults is not allowed.
    """
    require_cluster_extension(plan)
    permission_problem = find_missing_permission(plan, permissions)
    if permission_problem is not None:
        raise UsageError(
            permission_problem,
            f"`--allow-faults-on {plan.shape.address}` allows them; `--dry-run` shows what would "
            "be done",
            location=plan.file,
        )
    if plan.shape.reclaim_by is not None:
        load_cluster_extension("cluster.reclaim_by").check_platform(plan.shape.reclaim_by)
    refused_faults = find_refusals(plan, permissions) if includes_faults else ()
    if refused_faults:
        raise ClusterError(
            "; ".join(map(str, refused_faults)), "Nothing was done.", location=plan.file
        )


def write_suite(reports: Path, rows: Sequence[SuiteRow], clock: Clock) -> Path:
    """Write a suite's page, JUnit file, Markdown and figures; return the page's path."""
    start_stamp, root = format_stamp(clock.wall_ns()), find_repository(Path.cwd())
    with translate_disk_errors(format_path(reports), "What each run came to is in its own folder."):
        directory = RunDirectory(create_folder(ensure_reports_folder(reports, SUITES), start_stamp))
        commit, branch = find_commit_and_branch(Path.cwd())
        suite = SuiteSummary(
            started=format_iso(start_stamp),
            runs=tuple(build_summary(row, folder=format_path(reports.resolve())) for row in rows),
            reports=format_portable_path(reports.resolve()),
            project=(root or Path.cwd()).name,
            commit=commit,
            branch=branch,
        )
        previous_suite = find_previous_suite(directory.path, suite)
        text = render_suite(
            rows, suite, folder=format_path(directory.path), previous_suite=previous_suite
        )
        directory.write("junit.xml", render_junit(rows, start_time=suite.started))
        directory.write("summary.md", render_suite_markdown(rows))
        page = directory.write("report.html", text)
        # Last: a suite that is read back is whole.
        directory.write(SUITE, suite.model_dump_json(indent=2))
    return page
