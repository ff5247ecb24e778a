"""Runs of the self-test: each case in a lane, its clean run first, each run judged as a row."""

import itertools
import re
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
from chaos.model.plan import BackendName, Op, Plan
from chaos.model.scenario import VerdictStatus
from chaos.model.verdict import CheckResult
from chaos.record import Record
from chaos.report.outcome import FinishedRun
from chaos.run.clock import Clock
from chaos.run.directory import RunDirectory
from chaos.run.ports import Backend
from chaos.selftest.catalogue import Exhibit
from chaos.selftest.draw import Case, Ops, plan_of


class Judged(Record):
    """The outcome of one run.

    `landed`: the fault of every op was seen to take effect. `revealing`: one that did
    can show the bug. `first` is the most specific broken promise, `named` whether it
    is the right one. `folder` is None if nothing was kept.
    """

    number: int
    exhibit: str
    is_control: bool
    ops: tuple[Op, ...]
    landed: bool
    revealing: bool
    status: VerdictStatus
    first: str | None
    named: bool
    headline: str
    seconds: float
    folder: str | None = None

    @property
    def is_miss(self) -> bool:
        """Whether a bug could be seen and was not found."""
        return self.revealing and self.status != "fail"

    @property
    def is_misnamed(self) -> bool:
        """Whether a bug was found and called something else."""
        return self.revealing and self.status == "fail" and not self.named

    @property
    def is_false_alarm(self) -> bool:
        """Whether a right job was called wrong."""
        return self.is_control and self.status == "fail"

    @property
    def is_undecided(self) -> bool:
        """Whether nothing follows: a fault without effect, or a right job not shown to be right."""
        return not self.landed or (self.is_control and self.status == "inconclusive")

    @property
    def is_worth_a_look(self) -> bool:
        """Whether the run is neither a rightly named bug nor a right job that passed."""
        return self.is_miss or self.is_misnamed or self.is_false_alarm or self.is_undecided


def judged(number: int, case: Case, ops: tuple[Op, ...], run: FinishedRun) -> Judged:
    """Return the row of a judged run."""
    exhibit, broken = case.exhibit, run.verdict.broken
    struck = [injection.op for injection in run.analysis.injections if injection.landed]
    return Judged(
        number=number,
        exhibit=exhibit.id,
        is_control=exhibit.is_control,
        ops=ops,
        landed=len(struck) == len(ops),
        revealing=exhibit.is_revealed_by(case.variant, struck),
        status=run.verdict.status,
        first=broken[0].check if broken else None,
        named=bool(broken) and is_named(exhibit, broken[0]),
        headline=run.verdict.headline,
        seconds=run.duration_s,
    )


def is_named(exhibit: Exhibit, first: CheckResult) -> bool:
    """Return whether the first check is the bug's own, and names the part if it must."""
    if first.check not in exhibit.first:
        return False
    told = "\n".join(anomaly.message for anomaly in first.anomalies)
    return not exhibit.parts or any(says(told, part) for part in exhibit.parts)


def says(text: str, part: str) -> bool:
    """Return whether a text names a part, or one below it (`ema`, `ema.1`)."""
    return re.search(rf"(?<![\w.]){re.escape(part)}(?!\w)", text) is not None


# -- the runs -----------------------------------------------------------------------------------

Show: TypeAlias = Callable[[int, Judged], None]


@dataclass
class Trials:
    """Every run of a self-test, below one folder; runs worth a look stay there.

    `show` is called with the number of finished runs and the last of them, by one
    lane at a time.
    """

    folder: AuditFolder
    cwd: Path
    clock: Clock
    backend: BackendName
    show: Show | None = None
    rows: list[Judged] = field(default_factory=list)
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def run(self, cases: Sequence[Case], lanes: Sequence[Backend]) -> tuple[Judged, ...]:
        """Run all cases, and return their rows."""
        starts = itertools.accumulate((len(case.runs) for case in cases), initial=0)
        numbered = list(zip(starts, cases, strict=False))
        for _ in side_by_side(self._case, numbered, lanes):
            pass
        return self.in_order

    @property
    def in_order(self) -> tuple[Judged, ...]:
        """The rows so far, in the order in which their cases were drawn."""
        return tuple(sorted(self.rows, key=lambda row: row.number))

    # -- inside ----------------------------------------------------------------------------

    def _case(self, backend: Backend, item: tuple[int, Case]) -> None:
        first, case = item
        clean = self._clean(backend, case, first)
        for number, ops in enumerate(case.runs, first):
            row = self._injection(backend, case, (number, ops), clean)
            with self._one_at_a_time:
                self.rows.append(row)
                if self.show is not None:
                    self.show(len(self.rows), row)

    def _clean(self, backend: Backend, case: Case, number: int) -> History:
        """Return the baseline, after a check that the job's layout is that of the catalogue."""
        directory, run = self._execute(backend, self._plan(case, ()), None, ("clean", number))
        if run.verdict.status != "pass":
            raise why_the_job_failed(run.plan, run, log=directory.logs / "driver.log")
        seen, due = job_profile(run.history), case.exhibit.layout(case.variant)
        found = tuple(seen.steps.get((epoch, 0), 0) for epoch in seen.epochs)
        if found != due.steps:
            raise HarnessError(
                f"{case.exhibit.id} reports after {found} steps; its layout says {due.steps}"
            )
        self.folder.prune(directory)
        return run.history

    def _injection(
        self, backend: Backend, case: Case, job: tuple[int, Ops], clean: History
    ) -> Judged:
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
