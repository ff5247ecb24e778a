"""Load → plan → execute → judge → report, of one run and of a suite.

`Harness` owns the order of things and the files. Decisions come from the pure stages; a backend
acts on processes.
"""

import difflib
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
from chaos.check.time_limits import with_idle_limit
from chaos.errors import (
    ClusterError,
    HarnessError,
    JobError,
    ScenarioError,
    UnmetNeedError,
    UsageError,
)
from chaos.extensions import check_names, other_checks
from chaos.job_failure import (
    refuse_empty_draw,
    refuse_jobs_apart,
    refuse_other_steps,
    refuse_trials_elsewhere,
    refuse_unmet_needs,
    why_the_job_failed,
)
from chaos.model.history import HISTORY, Baseline, History
from chaos.model.plan import Plan, PlanBackend
from chaos.model.scenario import Scenario
from chaos.model.summary import SUITE, SUMMARY, SuiteSummary
from chaos.plan.digest import baseline_digest
from chaos.plan.draw import random_plan
from chaos.plan.extent import extent, limit_of_run_s, steps_by_epoch
from chaos.plan.make import make_plan
from chaos.plan.permitted import ClusterOverrides, Permissions, needs_permission, refusals
from chaos.reclaim.connect import connect
from chaos.report.ci import render as render_junit
from chaos.report.ci import summary_of
from chaos.report.html import render_run, render_suite
from chaos.report.live import Display
from chaos.report.markdown import suite_in_markdown
from chaos.report.outcome import FinishedRun, SuiteRow, row_of, without_verdict
from chaos.report.sections import in_words
from chaos.run.clock import Clock, in_iso, seconds_since, stamp
from chaos.run.directory import DRAWN, RunDirectory, create, fresh, in_reports, room_in
from chaos.run.environment import commit_and_branch, decisive_versions, environment
from chaos.run.job_code import digest_job_code
from chaos.run.journal import read_history
from chaos.run.ports import Backend
from chaos.run.record_file import full_disk_told, unwritten
from chaos.run.shown import for_others, repository_around, shown
from chaos.run.suites import SUITES, suite_before
from chaos.scenario_file.load import load_scenario
from chaos.scenario_file.text import drawn_text

BASELINES = ".baselines"
_being_made: dict[str, Lock] = {}


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
    tell: Callable[[FinishedRun], None] | None = None

    def plans(
        self, files: Sequence[Path], *, seed: int, backend: PlanBackend = "ray"
    ) -> list[Plan]:
        """Return the plans of scenario files, those whose clusters have one shape together.

        A bad file is found before anything starts.
        """
        plans = [self._plan(file, seed=seed, backend=backend) for file in files]
        for plan in plans:
            refuse_unnamed_cluster(plan, self.overrides.permissions)
        return sorted(plans, key=lambda plan: (plan.shape.nodes, plan.shape.cpus_per_node))

    def random_plans(
        self, file: Path, *, seeds: range, backend: PlanBackend = "ray"
    ) -> Iterator[Plan]:
        """Yield a plan per seed, with faults drawn from it in place of the scenario's own."""
        plan = self._plan(file, seed=0, backend=backend)
        refuse_unnamed_cluster(plan, self.overrides.permissions)
        # The length of the job is known from its baseline alone, which needs a plan. So one is
        # drawn over a single step, and only its job and shape are used.
        alike = random_plan(plan, seed=seeds.start, steps=[0])  # in shape and job, as all are
        steps = steps_by_epoch(self.baseline(alike))
        for seed in seeds:
            yield random_plan(plan, seed=seed, steps=steps)

    def row(self, plan: Plan, *, repeat: int | None = None) -> SuiteRow:
        """Run a plan; return its row in a suite, also where it was skipped or could not run."""
        start = self.clock.now_ns()
        try:
            row = row_of(self.run_plan(plan))
        except (JobError, ClusterError) as error:
            is_skip = isinstance(error, UnmetNeedError)
            word = ("skipped: ", "blue") if is_skip else ("not run: ", "bold red")
            self.console.print(Text.assemble(word, str(error)), soft_wrap=True)
            for line in error.said if isinstance(error, JobError) else ():
                self.console.print(Text(f"  | {line}", style="dim"), soft_wrap=True)
            row = without_verdict(plan, error, duration_s=seconds_since(start, self.clock))
        return replace(row, repeat=repeat)

    def run_plan(self, plan: Plan) -> FinishedRun:
        """Execute one plan and judge it against its baseline."""
        refuse_unpermitted(plan, self.overrides.permissions)
        refuse_empty_draw(plan)
        baseline = self.baseline(plan)
        refuse_other_steps(plan, baseline)
        run_s = limit_of_run_s(plan, baseline)
        limits = plan.limits.model_copy(update={"run_s": run_s})
        plan = plan.model_copy(update={"limits": limits})
        name = f"{plan.seed}-{stamp(self.clock.wall_ns())}"
        limited = with_idle_limit(plan, baseline)
        directory = create(
            in_reports(self.reports, plan.slug), name, limited, environment(self.cwd)
        )
        with room_in(directory):
            directory.save_baseline(baseline)
            self._write_drawn(plan, directory)
        try:
            return self._execute(directory.load_plan(), directory, baseline)
        except UnkeptError as error:  # the verdict stands, and the exit code is its own
            self.console.print(Text(str(error), style="bold red"), soft_wrap=True)
            return error.run

    def baseline(self, plan: Plan) -> Baseline:
        """Return as many runs without faults as the plan needs, from the cache if possible."""
        # Before anything starts: a job whose extra is missing is skipped, and no failure of it.
        refuse_unmet_needs(plan, os.environ)
        refuse_trials_elsewhere(plan)
        alone = plan.baseline()
        code = digest_job_code(plan)
        digest = baseline_digest(alone, code=code, versions=decisive_versions())
        wanted = 1 if plan.expect.band is None else RUNS_MIN
        with _being_made.setdefault(digest, Lock()):  # runs side by side make it once
            known = sorted((self.reports / BASELINES).glob(f"{digest}*"))
            # A folder without the mark is of a run that failed or was broken off. The mark is
            # written last.
            there = [path for path in known if (path / "complete").exists()]
            runs = [RunDirectory(path).load_history() for path in there]
            while len(runs) < wanted:
                runs.append(self._left_alone(plan, alone, digest))
        return Baseline(runs[:wanted])

    # -- inside --------------------------------------------------------------------------------

    def _plan(self, file: Path, *, seed: int, backend: PlanBackend) -> Plan:
        return self.overrides.over(plan_of(file, cwd=self.cwd, seed=seed, backend=backend))

    def _write_drawn(self, plan: Plan, directory: RunDirectory) -> None:
        """Write what the seed decided as a scenario, before anything of it happens, and show it."""
        if not plan.is_drawn:
            return
        file = directory.write(DRAWN, drawn_text(plan, folder=directory.path))
        directory.keep_secrets(plan)
        self.console.print(f"drawn from seed {plan.seed}: {shown(file)}", soft_wrap=True)
        for op in plan.ops:
            self.console.print(f"  {op}", soft_wrap=True, markup=False)

    def _left_alone(self, plan: Plan, alone: Plan, digest: str) -> History:
        directory = create(
            in_reports(self.reports, BASELINES), digest, alone, environment(self.cwd)
        )
        run = self._execute(directory.load_plan(), directory, None)
        refuse_jobs_apart(run)
        if run.verdict.status != "pass":
            raise why_the_job_failed(plan, run, log=directory.logs / "driver.log")
        directory.remove_storage()
        with room_in(directory):
            directory.write("complete", "")
        return run.history

    def _execute(
        self, plan: Plan, directory: RunDirectory, baseline: History | None
    ) -> FinishedRun:
        """Execute and judge; the records of a run that breaks off are written down as well."""
        start = self.clock.now_ns()
        epochs, steps = extent(baseline)
        display = Display(
            self.console,
            self.clock,
            title=plan.scenario,
            total_epochs=epochs,
            steps_per_epoch=steps,
        )
        try:
            with display:
                runner.execute(self.backend, plan, directory, baseline, display.show)
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
        duration_s = seconds_since(start_ns, self.clock)
        run = runner.judged(directory, plan, history, baseline, duration_s=duration_s)
        try:
            with _keeping(run):
                directory.save_history(history)
            run = kept(directory, run)
        except UnkeptError:
            self._tell(run)
            raise
        self._tell(run)
        return run

    def _tell(self, run: FinishedRun) -> None:
        if self.tell is not None:
            self.tell(run)


class UnkeptError(HarnessError):
    """The outcome of a run could not be written down, as on a full disk; the verdict stands."""

    def __init__(self, run: FinishedRun, error: OSError) -> None:
        self.run = run
        verdict_words = f"The verdict is {in_words(run.verdict)}: {run.verdict.headline}"
        super().__init__(unwritten(run.directory, error, verdict_words))


def kept(directory: RunDirectory, run: FinishedRun) -> FinishedRun:
    """Write down the outcome of a run; return the run with the digest of the judged history."""
    with _keeping(run):
        run = replace(run, verdict=directory.save_verdict(run.verdict))
        row = row_of(run)
        directory.write(SUMMARY, summary_of(row, folder=run.directory).model_dump_json(indent=2))
        directory.write("junit.xml", render_junit([row]))
        directory.write("report.html", render_run(run))
    return run


@contextmanager
def _keeping(run: FinishedRun) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UnkeptError(run, error) from error


def check_again(path: Path) -> FinishedRun:
    """Judge an old run with today's checks and write it down anew; nothing is executed.

    Raises `UnkeptError` where the folder cannot be written.
    """
    directory = RunDirectory(path.resolve())
    plan, history = directory.load_plan(), recorded(directory)
    baseline = directory.load_baseline()
    seconds = (history[-1].time_ns - history[0].time_ns) / 1e9 if len(history) else 0.0
    others = other_checks().after(directory.load_verdict())
    run = runner.judged(directory, plan, history, baseline, duration_s=seconds, others=others)
    return kept(directory, run)


def recorded(directory: RunDirectory) -> History:
    """Return the merged history, or the journals where chaos died before it merged them."""
    if os.path.lexists(directory.path / HISTORY) or not directory.journals.is_dir():
        return directory.load_history()
    return read_history(directory.journals)


def refuse_unknown_check(file: Path, scenario: Scenario, *, line: int | None = None) -> None:
    """Raise `ScenarioError` where a scenario expects a check that does not exist.

    Without `line`, the error is at the line of the file that names the check.
    """
    names = check_names()
    expected_checks = (scenario.expect.check, *scenario.expect.besides)
    expected = next((name for name in expected_checks if name not in {None, *names}), None)
    if expected is None:
        return
    if line is None:
        lines = file.read_text(encoding="utf-8").splitlines()
        named = re.compile(rf"(?<![\w-]){re.escape(expected)}(?![\w-])")
        line = next((n for n, text in enumerate(lines, 1) if named.search(text)), 1)
    near = difflib.get_close_matches(expected, names, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"The checks are {', '.join(names)}."
    raise ScenarioError(file, line, f"there is no check '{expected}'", hint)


def plan_of(file: Path, *, cwd: Path, seed: int, backend: PlanBackend) -> Plan:
    """Return the plan of a scenario file, or raise `ScenarioError`."""
    scenario = load_scenario(file)
    refuse_unknown_check(file, scenario)
    return make_plan(scenario, file=file.resolve(), seed=seed, cwd=cwd, backend=backend)


def refuse_unnamed_cluster(plan: Plan, permissions: Permissions) -> None:
    """Raise `UsageError` where a plan's cluster is not ours and faults are not allowed on it.

    Also where the platform that is to take its nodes has no client here.
    """
    missing = needs_permission(plan, permissions)
    if missing is not None:
        raise UsageError(
            missing,
            f"`--allow-faults-on {plan.shape.address}` allows them; `--dry-run` shows what would "
            "be done",
            place=plan.file,
        )
    if plan.shape.reclaim_by is not None:
        connect(plan.shape.reclaim_by)


def refuse_unpermitted(plan: Plan, permissions: Permissions) -> None:
    """Raise as above, and `ClusterError` where one of the plan's own faults is not allowed."""
    refuse_unnamed_cluster(plan, permissions)
    refused = refusals(plan, permissions)
    if refused:
        raise ClusterError("; ".join(map(str, refused)), "Nothing was done.", place=plan.file)


def write_suite(reports: Path, rows: Sequence[SuiteRow], clock: Clock) -> Path:
    """Write a suite's page, JUnit file, Markdown and figures; return the page's path."""
    started, root = stamp(clock.wall_ns()), repository_around(Path.cwd())
    with full_disk_told(shown(reports), "What each run came to is in its own folder."):
        directory = RunDirectory(fresh(in_reports(reports, SUITES), started))
        commit, branch = commit_and_branch(Path.cwd())
        suite = SuiteSummary(
            started=in_iso(started),
            runs=tuple(summary_of(row, folder=shown(reports.resolve())) for row in rows),
            reports=for_others(reports.resolve()),
            project=(root or Path.cwd()).name,
            commit=commit,
            branch=branch,
        )
        before = suite_before(directory.path, suite)
        text = render_suite(rows, suite, folder=shown(directory.path), before=before)
        directory.write("junit.xml", render_junit(rows, started=suite.started))
        directory.write("summary.md", suite_in_markdown(rows))
        page = directory.write("report.html", text)
        # Last: a suite that is read back is whole.
        directory.write(SUITE, suite.model_dump_json(indent=2))
    return page
