"""Cases of the self-test, drawn from a seed, and their runs, each judged as a row."""

import itertools
import random
import re
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from chaos.audit.folder import AuditFolder
from chaos.audit.job_profile import measure_job
from chaos.audit.lanes import run_side_by_side
from chaos.errors import HarnessError
from chaos.extensions.lab.selftest.catalogue import CONTROLS, CatalogueJob, ReportLayout, Variant
from chaos.faults.kill_node import KillNode
from chaos.faults.kill_worker import KillWorker
from chaos.faults.preempt_node import PreemptNode
from chaos.job_failure import build_job_error
from chaos.model.expect import Expect, VerdictStatus
from chaos.model.history import History
from chaos.model.places import EpochRank
from chaos.model.plan import BackendName, Op, Plan, Shape
from chaos.model.scenario import FailureBudget, Job, Limits
from chaos.model.trigger import AtMoment, AtStep, Trigger
from chaos.model.verdict import CheckResult
from chaos.plan.make import count_nodes
from chaos.record import Record
from chaos.report.outcome import FinishedRun
from chaos.run.clock import Clock
from chaos.run.directory import RunDirectory
from chaos.run.ports import Backend

WORKERS = 2
# A variant needs a clean run and a fresh process; a further run of it needs neither.
BUG_RUNS_PER_VARIANT = 5
CONTROL_RUNS_PER_VARIANT = 10
STEPS, CADENCE, BATCH_SIZES = (4, 8), (2, 3), (8, 16)
# One of so many runs of a bug has a fault anywhere in the job; the others at a place that can
# show the bug.
RUNS_PER_ANY_PLACE, TRIES = 5, 200
NODES_LOST = 0.2
# Long enough to be noticed between two of Ray's polls, short enough for a job of 0.1 seconds.
NOTICE_S = (0.02, 0.04)

Ops: TypeAlias = tuple[Op, ...]


@dataclass(frozen=True)
class TrialCase:
    """One job with its choices made, and the faults of each run of it."""

    exhibit: CatalogueJob
    variant: Variant
    runs: tuple[Ops, ...]


def build_cases(
    exhibits: Sequence[CatalogueJob], *, seed: int, runs_per_bug: int, controls: int
) -> tuple[TrialCase, ...]:
    """Return all cases; the draws of a job depend only on the seed and the job.

    `controls` runs are divided among all controls, chosen or not.
    """
    all_cases: list[TrialCase] = []
    runs_each, remainder = divmod(controls, len(CONTROLS))
    for exhibit in exhibits:
        if exhibit.is_control:
            runs = runs_each + (CONTROLS.index(exhibit) < remainder)
            all_cases += _draw_cases(
                exhibit, seed=seed, runs=runs, per_variant=CONTROL_RUNS_PER_VARIANT
            )
        else:
            all_cases += _draw_cases(
                exhibit, seed=seed, runs=runs_per_bug, per_variant=BUG_RUNS_PER_VARIANT
            )
    return tuple(all_cases)


def select_sample(candidates: Sequence[TrialCase]) -> tuple[TrialCase, ...]:
    """Return one run per job: the first that can reveal its bug; of a control the first."""
    cases_by_job: dict[str, TrialCase] = {}
    for case in candidates:
        for ops in case.runs:
            is_revealing = case.exhibit.is_control or case.exhibit.has_revealing_fault(
                case.variant, ops
            )
            if is_revealing and case.exhibit.id not in cases_by_job:
                cases_by_job[case.exhibit.id] = TrialCase(case.exhibit, case.variant, (ops,))
    return tuple(cases_by_job.values())


def _draw_cases(
    exhibit: CatalogueJob, *, seed: int, runs: int, per_variant: int
) -> Iterator[TrialCase]:
    draws = random.Random(f"{seed}:{exhibit.id}")  # noqa: S311 (repeatable is the point)
    for first_number in range(0, runs, per_variant):
        variant = _draw_variant(exhibit, draws)
        numbers = range(first_number, min(runs, first_number + per_variant))
        draw = _draw_control_ops if exhibit.is_control else _draw_bug_ops
        yield TrialCase(exhibit, variant, tuple(draw(exhibit, variant, draws, n) for n in numbers))


def _draw_variant(exhibit: CatalogueJob, draws: random.Random) -> Variant:
    return Variant(
        epochs=draws.randint(*exhibit.epochs),
        steps_per_epoch=draws.randint(*STEPS),
        cadence=draws.choice(CADENCE),
        seed=draws.randrange(1000),
        batch_size=draws.choice(BATCH_SIZES),
        optimizer=draws.choice(("adam", "sgd")),
    )


def _draw_bug_ops(
    exhibit: CatalogueJob, variant: Variant, draws: random.Random, number: int
) -> Ops:
    """Return one loss of a worker, or of its node; most can reveal the bug, some need not."""
    layout = exhibit.layout(variant)
    ops = _draw_kill_or_loss(exhibit, layout, draws)
    if number % RUNS_PER_ANY_PLACE == 0:
        return ops
    for _ in range(TRIES):
        if exhibit.has_revealing_fault(variant, ops):
            break
        ops = _draw_kill_or_loss(exhibit, layout, draws)
    return ops


def _draw_kill_or_loss(exhibit: CatalogueJob, layout: ReportLayout, draws: random.Random) -> Ops:
    trigger = _draw_trigger(exhibit, layout, draws)
    return _build_node_loss(trigger) if draws.random() < NODES_LOST else _build_kills(trigger)


CONTROL_FAULTS = (
    "killed",
    "the other rank killed",
    "killed twice",
    "killed again at the same step",
    "node lost",
    "node preempted",
)


def _draw_control_ops(
    exhibit: CatalogueJob, variant: Variant, draws: random.Random, number: int
) -> Ops:
    """Return faults of each kind in turn, so that every control gets all kinds."""
    layout = exhibit.layout(variant)
    match CONTROL_FAULTS[number % len(CONTROL_FAULTS)]:
        case "killed":
            kill = draws.choice((KillWorker(), KillWorker(signal="TERM"), KillWorker(via="ray")))
            return (Op(index=0, at=_draw_trigger(exhibit, layout, draws), kill_worker=kill),)
        case "the other rank killed":
            trigger = _draw_trigger(exhibit, layout, draws)
            assert trigger.rank is not None
            return (
                Op(index=0, at=trigger, kill_worker=KillWorker(rank=(trigger.rank + 1) % WORKERS)),
            )
        case "killed twice":
            return _draw_two_kills(exhibit, layout, draws)
        case "killed again at the same step":  # an op fires once, so the second waits
            trigger = _draw_step(layout, draws)
            return _build_kills(trigger, trigger)
        case "node lost":
            return _build_node_loss(_draw_trigger(exhibit, layout, draws))
        case _:  # in the first half: a notice must end before training does
            trigger = _draw_step(layout, draws, epochs=max(1, layout.reports // 2))
            notice = PreemptNode(notice_s=round(draws.uniform(*NOTICE_S), 3))
            return (Op(index=0, at=trigger, preempt_node=notice),)


def _build_kills(*triggers: Trigger) -> Ops:
    return tuple(
        Op(index=n, at=trigger, kill_worker=KillWorker()) for n, trigger in enumerate(triggers)
    )


def _draw_two_kills(exhibit: CatalogueJob, layout: ReportLayout, draws: random.Random) -> Ops:
    """Return kills at two places of one rank, in the order of training."""
    first_trigger, second_trigger = (_draw_trigger(exhibit, layout, draws) for _ in range(2))
    while second_trigger.rank != first_trigger.rank or second_trigger == first_trigger:
        second_trigger = _draw_trigger(exhibit, layout, draws)
    return _build_kills(*sorted((first_trigger, second_trigger), key=layout.compute_sort_key))


def _build_node_loss(trigger: Trigger) -> Ops:
    return (Op(index=0, at=trigger, kill_node=KillNode()),)


def _draw_trigger(exhibit: CatalogueJob, layout: ReportLayout, draws: random.Random) -> Trigger:
    moment = draws.choice(exhibit.places)
    if moment == "step":
        return _draw_step(layout, draws)
    epoch = draws.randrange(layout.reports)
    if moment == "saving" and layout.saves == "in its own directory":
        epoch += 1  # it saves after its report, which has begun the next epoch
    ranks = exhibit.saving_ranks if moment == "saving" else range(WORKERS)
    return AtMoment(epoch=epoch, moment=moment, rank=draws.choice(ranks))


def _draw_step(layout: ReportLayout, draws: random.Random, *, epochs: int | None = None) -> AtStep:
    epoch = draws.randrange(epochs or layout.reports)
    step = draws.randint(1, layout.steps[epoch])
    return AtStep(epoch=epoch, step=step, rank=draws.randrange(WORKERS))


# -- plans --------------------------------------------------------------------------------------

# As many as any run needs; a job that fails at every start has spent them soon.
MAX_FAILURES = 2


def build_plan(case: TrialCase, ops: Ops, *, backend: BackendName, cwd: Path) -> Plan:
    """Return the plan of one run; without ops it is a clean one."""
    exhibit = case.exhibit
    spares = max(1, sum(op.fault.lost_node_count for op in ops))
    return Plan(
        scenario=f"{exhibit.id} {exhibit.title}",
        slug=exhibit.slug,
        file=str(cwd / f"{exhibit.slug}.chaos.yaml"),
        seed=case.variant.seed,
        backend=backend,
        cwd=str(cwd),
        job=Job(
            train_loop=exhibit.train_loop,
            args=exhibit.args(case.variant),
            workers=WORKERS,
            failure=FailureBudget(max_failures=MAX_FAILURES),
        ),
        shape=Shape(nodes=count_nodes(WORKERS, 1, spares=spares), cpus_per_node=1),
        ops=ops,
        expect=Expect(),
        limits=Limits(run_s=exhibit.run_s if backend == "fork" else Limits().run_s),
    )


class JudgedTrial(Record):
    """The outcome of one run."""

    number: int
    exhibit: str
    is_control: bool
    ops: tuple[Op, ...]
    #: the fault of every op was seen to take effect
    landed: bool
    #: one that did can show the bug
    revealing: bool
    status: VerdictStatus
    #: the most specific broken promise
    first: str | None
    #: whether that is the right one
    named: bool
    headline: str
    seconds: float
    #: None if nothing was kept
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


def judge_run(number: int, case: TrialCase, ops: tuple[Op, ...], run: FinishedRun) -> JudgedTrial:
    """Return the row of a judged run."""
    exhibit, broken_checks = case.exhibit, run.verdict.broken
    landed_ops = [injection.op for injection in run.analysis.injections if injection.has_effect]
    return JudgedTrial(
        number=number,
        exhibit=exhibit.id,
        is_control=exhibit.is_control,
        ops=ops,
        landed=len(landed_ops) == len(ops),
        revealing=exhibit.has_revealing_fault(case.variant, landed_ops),
        status=run.verdict.status,
        first=broken_checks[0].check if broken_checks else None,
        named=bool(broken_checks) and is_bug_named(exhibit, broken_checks[0]),
        headline=run.verdict.headline,
        seconds=run.duration_s,
    )


def is_bug_named(exhibit: CatalogueJob, first_check: CheckResult) -> bool:
    """Return whether the first check is the bug's own, and names the part if it must."""
    if first_check.check not in exhibit.first_checks:
        return False
    text = "\n".join(anomaly.message for anomaly in first_check.anomalies)
    return not exhibit.named_parts or any(mentions_part(text, part) for part in exhibit.named_parts)


def mentions_part(text: str, part: str) -> bool:
    """Return whether a text names a part, or one below it (`ema`, `ema.1`)."""
    return re.search(rf"(?<![\w.]){re.escape(part)}(?!\w)", text) is not None


# -- the runs -----------------------------------------------------------------------------------

ShowRow: TypeAlias = Callable[[int, JudgedTrial], None]


@dataclass
class SelftestRunner:
    """Every run of a self-test, below one folder; runs worth a look stay there."""

    folder: AuditFolder
    cwd: Path
    clock: Clock
    backend: BackendName
    #: called with the number of finished runs and the last of them, by one lane at a time
    show_row: ShowRow | None = None
    rows: list[JudgedTrial] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, cases: Sequence[TrialCase], lanes: Sequence[Backend]) -> tuple[JudgedTrial, ...]:
        """Run all cases, and return their rows."""
        starts = itertools.accumulate((len(case.runs) for case in cases), initial=0)
        for _ in run_side_by_side(self._run_case, zip(starts, cases, strict=False), lanes):
            pass
        return self.ordered_rows

    @property
    def ordered_rows(self) -> tuple[JudgedTrial, ...]:
        """The rows so far, in the order in which their cases were drawn."""
        return tuple(sorted(self.rows, key=lambda row: row.number))

    # -- inside ----------------------------------------------------------------------------

    def _run_case(self, backend: Backend, numbered_case: tuple[int, TrialCase]) -> None:
        first_number, case = numbered_case
        baseline = self._run_baseline(backend, case, first_number)
        for number, ops in enumerate(case.runs, first_number):
            row = self._run_faults(backend, case, number, ops, baseline)
            with self._lock:
                self.rows.append(row)
                if self.show_row is not None:
                    self.show_row(len(self.rows), row)

    def _run_baseline(self, backend: Backend, case: TrialCase, number: int) -> History:
        """Return the baseline, after a check that the job's layout is that of the catalogue."""
        directory, run = self._execute(backend, case, number, (), None)
        if run.verdict.status != "pass":
            raise build_job_error(run.plan, run, log=directory.logs / "driver.log")
        profile, expected_layout = measure_job(run.history), case.exhibit.layout(case.variant)
        step_counts = tuple(profile.steps.get(EpochRank(epoch, 0), 0) for epoch in profile.epochs)
        if step_counts != expected_layout.steps:
            raise HarnessError(
                f"{case.exhibit.id} reports after {step_counts} steps; its layout says "
                f"{expected_layout.steps}"
            )
        self.folder.prune(directory)
        return run.history

    def _run_faults(
        self, backend: Backend, case: TrialCase, number: int, ops: Ops, baseline: History
    ) -> JudgedTrial:
        directory, run = self._execute(backend, case, number, ops, baseline)
        row = judge_run(number, case, ops, run)
        self.folder.prune(directory, keep_logs=row.is_worth_a_look)
        if not row.is_worth_a_look:
            shutil.rmtree(directory.path)
            return row
        directory.save_baseline(baseline)
        return row.replace(folder=run.directory)

    def _execute(
        self, backend: Backend, case: TrialCase, number: int, ops: Ops, baseline: History | None
    ) -> tuple[RunDirectory, FinishedRun]:
        plan = build_plan(case, ops, backend=self.backend, cwd=self.cwd)
        directory = self.folder.new_run("runs" if ops else "clean", number, plan)
        return directory, self.folder.execute(backend, plan, directory, baseline, self.clock)
