"""Runs the cases: each in a lane of its own, its clean run first, then its strikes."""

import itertools
import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from chaos.audit.folder import AuditFolder
from chaos.audit.job_profile import job_profile
from chaos.audit.lanes import side_by_side
from chaos.errors import HarnessError
from chaos.job_failure import why_the_job_failed
from chaos.model.history import History
from chaos.model.plan import BackendName, Plan
from chaos.report.outcome import FinishedRun
from chaos.run.clock import Clock
from chaos.run.directory import RunDirectory
from chaos.run.ports import Backend
from chaos.selftest.draw import Case, Ops
from chaos.selftest.plans import plan_of
from chaos.selftest.trial import Judged, judged

Show: TypeAlias = Callable[[int, Judged], None]


def _show_nothing(done: int, row: Judged) -> None:
    del done, row


@dataclass
class Trials:
    """Every run of a self-test, below one folder; runs worth a look stay there.

    `show` is told how many runs are done, and the last of them; it is called
    by one lane at a time.
    """

    folder: AuditFolder
    cwd: Path
    clock: Clock
    backend: BackendName
    show: Show = _show_nothing
    rows: list[Judged] = field(default_factory=list)
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def run(self, cases: Sequence[Case], lanes: Sequence[Backend]) -> tuple[Judged, ...]:
        """Run all cases and give their rows."""
        starts = itertools.accumulate((len(case.strikes) for case in cases), initial=0)
        numbered = list(zip(starts, cases, strict=False))
        for _ in side_by_side(self._case, numbered, lanes):
            pass
        return self.in_order

    @property
    def in_order(self) -> tuple[Judged, ...]:
        """The rows there are, in the order in which their cases were drawn."""
        return tuple(sorted(self.rows, key=lambda row: row.number))

    # -- inside ----------------------------------------------------------------------------

    def _case(self, backend: Backend, item: tuple[int, Case]) -> None:
        first, case = item
        clean = self._clean(backend, case, first)
        for number, ops in enumerate(case.strikes, first):
            row = self._strike(backend, case, (number, ops), clean)
            with self._one_at_a_time:
                self.rows.append(row)
                self.show(len(self.rows), row)

    def _clean(self, backend: Backend, case: Case, number: int) -> History:
        """Give the baseline; what the catalogue says of the job's layout must be so."""
        directory, run = self._execute(backend, self._plan(case, ()), None, ("clean", number))
        if run.verdict.validity != "valid":
            raise why_the_job_failed(run.plan, run, log=directory.logs / "driver.log")
        seen, due = job_profile(run.history), case.exhibit.layout(case.variant)
        found = tuple(seen.steps.get((epoch, 0), 0) for epoch in seen.epochs)
        if found != due.steps:
            raise HarnessError(
                f"{case.exhibit.id} reports after {found} steps; its layout says {due.steps}"
            )
        self.folder.prune(directory)
        return run.history

    def _strike(self, backend: Backend, case: Case, job: tuple[int, Ops], clean: History) -> Judged:
        number, ops = job
        directory, run = self._execute(backend, self._plan(case, ops), clean, ("runs", number))
        row = judged(number, case, ops, run)
        self.folder.prune(directory, keep_logs=row.is_worth_a_look)
        if not row.is_worth_a_look:
            shutil.rmtree(directory.path)
            return row
        directory.save_baseline(clean)
        return row.model_copy(update={"folder": run.directory})

    def _plan(self, case: Case, ops: Ops) -> Plan:
        return plan_of(case, ops, backend=self.backend, cwd=self.cwd)

    def _execute(
        self, backend: Backend, plan: Plan, clean: History | None, place: tuple[str, int]
    ) -> tuple[RunDirectory, FinishedRun]:
        directory = self.folder.new_run(*place, plan)
        return directory, self.folder.execute(backend, plan, directory, clean, self.clock)
