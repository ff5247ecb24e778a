"""The folder of an audit: `reports/audits/<script>-<start>/`.

audit.json   the card for machines     card.html     the card
summary.md   a paragraph for a pull request
plan.json    the job                   baseline.jsonl  the clean run
clean/<n>/   the clean runs            repro/        a scenario per finding
settings/<n>/ the run of n faults under the job's own retries
lanes/<n>/   the clean run of each lane on a cluster, which is compared with those
runs/<n>/    plan.json, history.jsonl, verdict.json of each run with a fault;
             report.html and logs only if the run represents a finding
"""

import math
import shutil
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from chaos import runner
from chaos.job_failure import find_harm_error
from chaos.model.history import Baseline, History
from chaos.model.plan import Plan
from chaos.probe.write_ledger import WriteLimits
from chaos.report.html import render_run
from chaos.report.outcome import FinishedRun
from chaos.run.clock import Clock, elapsed_seconds
from chaos.run.directory import RunDirectory, create_run, ensure_reports_folder, explain_full_disk
from chaos.run.display_path import format_path
from chaos.run.journal import read_history
from chaos.run.ports import Backend, ShowEntries
from chaos.run.record_file import translate_disk_errors


@dataclass(frozen=True)
class AuditFolder:
    """The paths of one audit, and the files below them."""

    path: Path
    env: dict[str, Any]

    @classmethod
    def create(
        cls, reports: Path, name: str, plan: Plan, env: dict[str, Any], *, kind: str = "audits"
    ) -> "AuditFolder":
        """Make the folder of an audit or a search; raises `UsageError` if it cannot be written."""
        directory = create_run(ensure_reports_folder(reports, kind), name, plan, env)
        for folder in (directory.journals, directory.logs, directory.save_records):
            folder.rmdir()
        _delete_file(directory, "scenario.yaml")
        (directory.path / "repro").mkdir()
        return cls(directory.path, env)

    @property
    def display_path(self) -> str:
        """The folder's path for display."""
        return format_path(self.path)

    def new_run(self, kind: str, number: int, plan: Plan) -> RunDirectory:
        """Make the folder of one run: `kind` is "runs" or "clean"."""
        return create_run(self.path / kind, str(number), plan, self.env)

    def execute(
        self,
        backend: Backend,
        plan: Plan,
        directory: RunDirectory,
        baseline: History | None,
        clock: Clock,
        show: ShowEntries = lambda _: None,
    ) -> FinishedRun:
        """Execute a plan in its folder, and judge it; if broken off, its history is kept."""
        start = clock.now_ns()
        try:
            runner.execute(backend, plan, directory, baseline, show)
        except BaseException:
            with suppress(OSError):  # a full disk: the journals have the history anyway
                directory.save_history(read_history(directory.journals))
            raise
        with explain_full_disk(directory):
            run = self.judge_journals(
                directory, plan, baseline, seconds=elapsed_seconds(start, clock)
            )
        if (harm := find_harm_error(run)) is not None:
            raise harm
        return run

    def judge_journals(
        self, directory: RunDirectory, plan: Plan, baseline: History | None, *, seconds: float
    ) -> FinishedRun:
        """Read a run's journals, judge the history, and write history and verdict."""
        history = read_history(directory.journals)
        directory.save_history(history)
        return self.judge(directory, plan, history, baseline, seconds=seconds)

    def judge(
        self,
        directory: RunDirectory,
        plan: Plan,
        history: History,
        baseline: History | None,
        *,
        seconds: float,
    ) -> FinishedRun:
        """Judge a history that is written, and write the verdict."""
        run = runner.judge_run(directory, plan, history, baseline, duration_s=seconds)
        return replace(run, verdict=directory.save_verdict(run.verdict))

    def prune(self, directory: RunDirectory, *, keep_logs: bool = False) -> None:
        """Delete the files that a judged run no longer needs; its logs are optional."""
        for folder in (directory.journals, directory.storage, directory.save_records):
            shutil.rmtree(folder, ignore_errors=True)
        for name in ("env.json", "scenario.yaml"):
            _delete_file(directory, name)
        if not keep_logs:
            shutil.rmtree(directory.logs, ignore_errors=True)

    def run_directory(self, number: int) -> RunDirectory:
        """Return the folder of a run with a fault."""
        return RunDirectory(self.path / "runs" / str(number))

    def save_report(self, number: int, baseline: History, *, seconds: float, scenario: str) -> None:
        """Complete the folder of a finding's run, so that it can be read by itself."""
        directory, run = (
            self.run_directory(number),
            self.load_finished_run(number, baseline, seconds=seconds),
        )
        directory.save_baseline(baseline)
        directory.write("scenario.yaml", scenario)
        directory.write("report.html", render_run(run))

    def save_baseline(self, baseline: History) -> None:
        """Keep the clean runs that all others are compared with."""
        RunDirectory(self.path).save_baseline(baseline)

    def load_finished_run(self, number: int, baseline: History, *, seconds: float) -> FinishedRun:
        """Return a run with a fault, from its files."""
        directory = self.run_directory(number)
        plan, history = directory.load_plan(), directory.load_history()
        verdict, run_path = directory.load_verdict(), format_path(directory.path)
        assert verdict is not None
        return FinishedRun(plan, self.env, history, baseline, verdict, run_path, seconds)

    def write(self, name: str, text: str) -> Path:
        """Write a file below the audit's folder, whole or not at all."""
        path = self.path / name
        with translate_disk_errors(
            format_path(self.path), "Make room; what each run came to is in its folder."
        ):
            return RunDirectory(path.parent).write(path.name, text)


@dataclass
class TrialRuns:
    """Runs that repeat one plan, in folders below `folder`.

    They are on the embedded backend, whatever that of the recorded run, since a plan comes out the
    same each time there. After `end_ns` (monotonic) only the first `minimum_runs` still begin.
    """

    backend: Backend
    clock: Clock
    folder: AuditFolder
    plan: Plan
    baseline: Baseline
    end_ns: float = field(default=math.inf, kw_only=True)
    minimum_runs: int = field(default=0, kw_only=True)
    run_count: int = field(default=0, init=False)

    def create_directory(self, name: str, plan: Plan) -> RunDirectory:
        """Make the folder of the next run; raises `TimeoutError` once time is over."""
        if self.run_count >= self.minimum_runs and self.clock.now_ns() > self.end_ns:
            raise TimeoutError
        self.run_count += 1
        return create_run(self.folder.path, name, self._confine_plan(plan), self.folder.env)

    def _confine_plan(self, plan: Plan) -> Plan:
        """Return an embedded plan that writes to `folder`, and to what its audit made elsewhere."""
        plan = plan.replace(backend="fork")
        confinement, folder = plan.confined, self.folder.path
        if confinement is None or folder.is_relative_to(confinement.folder):
            return plan
        created_file = WriteLimits(Path(confinement.folder)).created_list
        if created_file.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(created_file, WriteLimits(folder).created_list)
        confinement = confinement.replace(folder=str(folder))
        return plan.replace(confined=confinement)

    def execute(self, directory: RunDirectory, baseline: Baseline | None) -> FinishedRun:
        """Execute the plan in a folder, and judge the run."""
        plan = directory.load_plan()
        run = self.folder.execute(self.backend, plan, directory, baseline, self.clock)
        directory.remove_storage()
        return run


def _delete_file(directory: RunDirectory, name: str) -> None:
    (directory.path / name).unlink(missing_ok=True)
