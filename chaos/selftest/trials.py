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
from chaos.audit.job_profile import job_profile
from chaos.audit.lanes import side_by_side
from chaos.errors import HarnessError
from chaos.faults.kill_node import KillNode
from chaos.faults.kill_worker import KillWorker
from chaos.faults.preempt_node import PreemptNode
from chaos.job_failure import why_the_job_failed
from chaos.model.history import History
from chaos.model.places import EpochRank
from chaos.model.plan import BackendName, Op, Plan, Shape
from chaos.model.scenario import Expect, FailureBudget, Job, Limits, VerdictStatus
from chaos.model.trigger import AtMoment, AtStep, Trigger
from chaos.model.verdict import CheckResult
from chaos.plan.make import nodes_for
from chaos.record import Record
from chaos.report.outcome import FinishedRun
from chaos.run.clock import Clock
from chaos.run.directory import RunDirectory
from chaos.run.ports import Backend
from chaos.selftest.catalogue import CONTROLS, Exhibit, Layout, Variant

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
class Case:
    """One job with its choices made, and the faults of each run of it."""

    exhibit: Exhibit
    variant: Variant
    runs: tuple[Ops, ...]


def cases(
    exhibits: Sequence[Exhibit], *, seed: int, runs_per_bug: int, controls: int
) -> tuple[Case, ...]:
    """Return all cases; the draws of a job depend only on the seed and the job.

    `controls` runs are divided among all controls, chosen or not.
    """
    found: list[Case] = []
    whole, rest = divmod(controls, len(CONTROLS))
    for exhibit in exhibits:
        if exhibit.is_control:
            runs = whole + (CONTROLS.index(exhibit) < rest)
            found += _of(exhibit, seed=seed, runs=runs, per_variant=CONTROL_RUNS_PER_VARIANT)
        else:
            found += _of(exhibit, seed=seed, runs=runs_per_bug, per_variant=BUG_RUNS_PER_VARIANT)
    return tuple(found)


def sample(drawn: Sequence[Case]) -> tuple[Case, ...]:
    """Return one run per job: the first that can reveal its bug; of a control the first."""
    found: dict[str, Case] = {}
    for case in drawn:
        for ops in case.runs:
            shows = case.exhibit.is_control or case.exhibit.is_revealed_by(case.variant, ops)
            if shows and case.exhibit.id not in found:
                found[case.exhibit.id] = Case(case.exhibit, case.variant, (ops,))
    return tuple(found.values())


def _of(exhibit: Exhibit, *, seed: int, runs: int, per_variant: int) -> Iterator[Case]:
    draws = random.Random(f"{seed}:{exhibit.id}")  # noqa: S311 (repeatable is the point)
    for first in range(0, runs, per_variant):
        chosen = _variant(exhibit, draws)
        numbers = range(first, min(runs, first + per_variant))
        draw = _control_ops if exhibit.is_control else _bug_ops
        yield Case(exhibit, chosen, tuple(draw(exhibit, chosen, draws, n) for n in numbers))


def _variant(exhibit: Exhibit, draws: random.Random) -> Variant:
    return Variant(
        epochs=draws.randint(*exhibit.epochs),
        steps_per_epoch=draws.randint(*STEPS),
        cadence=draws.choice(CADENCE),
        seed=draws.randrange(1000),
        batch_size=draws.choice(BATCH_SIZES),
        optimizer=draws.choice(("adam", "sgd")),
    )


def _bug_ops(exhibit: Exhibit, variant: Variant, draws: random.Random, number: int) -> Ops:
    """Return one loss of a worker, or of its node; most can reveal the bug, some need not."""
    layout = exhibit.layout(variant)
    ops = _killed_or_lost(exhibit, layout, draws)
    if number % RUNS_PER_ANY_PLACE == 0:
        return ops
    for _ in range(TRIES):
        if exhibit.is_revealed_by(variant, ops):
            break
        ops = _killed_or_lost(exhibit, layout, draws)
    return ops


def _killed_or_lost(exhibit: Exhibit, layout: Layout, draws: random.Random) -> Ops:
    place = _place(exhibit, layout, draws)
    return _node_lost(place) if draws.random() < NODES_LOST else _killed(place)


CONTROL_FAULTS = (
    "killed",
    "the other rank killed",
    "killed twice",
    "killed again at the same step",
    "node lost",
    "node preempted",
)


def _control_ops(exhibit: Exhibit, variant: Variant, draws: random.Random, number: int) -> Ops:
    """Return faults of each kind in turn, so that every control gets all kinds."""
    layout = exhibit.layout(variant)
    match CONTROL_FAULTS[number % len(CONTROL_FAULTS)]:
        case "killed":
            how = draws.choice((KillWorker(), KillWorker(signal="TERM"), KillWorker(via="ray")))
            return (Op(index=0, at=_place(exhibit, layout, draws), kill_worker=how),)
        case "the other rank killed":
            at = _place(exhibit, layout, draws)
            assert at.rank is not None
            return (Op(index=0, at=at, kill_worker=KillWorker(rank=(at.rank + 1) % WORKERS)),)
        case "killed twice":
            return _killed_twice(exhibit, layout, draws)
        case "killed again at the same step":  # an op fires once, so the second waits
            at = _step(layout, draws)
            return _killed(at, at)
        case "node lost":
            return _node_lost(_place(exhibit, layout, draws))
        case _:  # in the first half: a notice must end before training does
            at = _step(layout, draws, epochs=max(1, layout.reports // 2))
            notice = PreemptNode(notice_s=round(draws.uniform(*NOTICE_S), 3))
            return (Op(index=0, at=at, preempt_node=notice),)


def _killed(*places: Trigger) -> Ops:
    return tuple(Op(index=n, at=at, kill_worker=KillWorker()) for n, at in enumerate(places))


def _killed_twice(exhibit: Exhibit, layout: Layout, draws: random.Random) -> Ops:
    """Return kills at two places of one rank, in the order of training."""
    first, second = (_place(exhibit, layout, draws) for _ in range(2))
    while second.rank != first.rank or second == first:
        second = _place(exhibit, layout, draws)
    return _killed(*sorted((first, second), key=layout.passed))


def _node_lost(place: Trigger) -> Ops:
    return (Op(index=0, at=place, kill_node=KillNode()),)


def _place(exhibit: Exhibit, layout: Layout, draws: random.Random) -> Trigger:
    place = draws.choice(exhibit.places)
    if place == "step":
        return _step(layout, draws)
    epoch = draws.randrange(layout.reports)
    if place == "saving" and layout.saves == "in its own directory":
        epoch += 1  # it saves after its report, which has begun the next epoch
    ranks = exhibit.savers if place == "saving" else range(WORKERS)
    return AtMoment(epoch=epoch, moment=place, rank=draws.choice(ranks))


def _step(layout: Layout, draws: random.Random, *, epochs: int | None = None) -> AtStep:
    epoch = draws.randrange(epochs or layout.reports)
    step = draws.randint(1, layout.steps[epoch])
    return AtStep(epoch=epoch, step=step, rank=draws.randrange(WORKERS))


# -- plans --------------------------------------------------------------------------------------

# As many as any run needs; a job that fails at every start has spent them soon.
MAX_FAILURES = 2


def plan_of(case: Case, ops: Ops, *, backend: BackendName, cwd: Path) -> Plan:
    """Return the plan of one run; without ops it is a clean one."""
    exhibit = case.exhibit
    spares = max(1, sum(op.fault.nodes_lost for op in ops))
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
        shape=Shape(nodes=nodes_for(WORKERS, 1, spares=spares), cpus_per_node=1),
        ops=ops,
        expect=Expect(),
        limits=Limits(run_s=exhibit.run_s if backend == "fork" else Limits().run_s),
    )


class Judged(Record):
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
    text = "\n".join(anomaly.message for anomaly in first.anomalies)
    return not exhibit.parts or any(says(text, part) for part in exhibit.parts)


def says(text: str, part: str) -> bool:
    """Return whether a text names a part, or one below it (`ema`, `ema.1`)."""
    return re.search(rf"(?<![\w.]){re.escape(part)}(?!\w)", text) is not None


# -- the runs -----------------------------------------------------------------------------------

Show: TypeAlias = Callable[[int, Judged], None]


@dataclass
class Trials:
    """Every run of a self-test, below one folder; runs worth a look stay there."""

    folder: AuditFolder
    cwd: Path
    clock: Clock
    backend: BackendName
    #: called with the number of finished runs and the last of them, by one lane at a time
    show: Show | None = None
    rows: list[Judged] = field(default_factory=list)
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def run(self, cases: Sequence[Case], lanes: Sequence[Backend]) -> tuple[Judged, ...]:
        """Run all cases, and return their rows."""
        starts = itertools.accumulate((len(case.runs) for case in cases), initial=0)
        for _ in side_by_side(self._case, zip(starts, cases, strict=False), lanes):
            pass
        return self.in_order

    @property
    def in_order(self) -> tuple[Judged, ...]:
        """The rows so far, in the order in which their cases were drawn."""
        return tuple(sorted(self.rows, key=lambda row: row.number))

    # -- inside ----------------------------------------------------------------------------

    def _case(self, backend: Backend, numbered: tuple[int, Case]) -> None:
        first, case = numbered
        clean = self._clean(backend, case, first)
        for number, ops in enumerate(case.runs, first):
            row = self._injection(backend, case, number, ops, clean)
            with self._one_at_a_time:
                self.rows.append(row)
                if self.show is not None:
                    self.show(len(self.rows), row)

    def _clean(self, backend: Backend, case: Case, number: int) -> History:
        """Return the baseline, after a check that the job's layout is that of the catalogue."""
        directory, run = self._execute(backend, case, number, (), None)
        if run.verdict.status != "pass":
            raise why_the_job_failed(run.plan, run, log=directory.logs / "driver.log")
        seen, due = job_profile(run.history), case.exhibit.layout(case.variant)
        found = tuple(seen.steps.get(EpochRank(epoch, 0), 0) for epoch in seen.epochs)
        if found != due.steps:
            raise HarnessError(
                f"{case.exhibit.id} reports after {found} steps; its layout says {due.steps}"
            )
        self.folder.prune(directory)
        return run.history

    def _injection(
        self, backend: Backend, case: Case, number: int, ops: Ops, clean: History
    ) -> Judged:
        directory, run = self._execute(backend, case, number, ops, clean)
        row = judged(number, case, ops, run)
        self.folder.prune(directory, keep_logs=row.is_worth_a_look)
        if not row.is_worth_a_look:
            shutil.rmtree(directory.path)
            return row
        directory.save_baseline(clean)
        return row.model_copy(update={"folder": run.directory})

    def _execute(
        self, backend: Backend, case: Case, number: int, ops: Ops, clean: History | None
    ) -> tuple[RunDirectory, FinishedRun]:
        plan = plan_of(case, ops, backend=self.backend, cwd=self.cwd)
        directory = self.folder.new_run("runs" if ops else "clean", number, plan)
        return directory, self.folder.execute(backend, plan, directory, clean, self.clock)
