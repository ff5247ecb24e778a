"""A search for plans that a job does not survive, and for the smallest of each cause.

Hypothesis draws plans, each of which is a run. A run that met a combination of fault, place and
controller state that no run before it has met leads to others like it. A plan that fails is made
smaller (see `shrink`), and repeated once, for it to count as a finding.
"""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from pathlib import Path
from typing import TypeAlias

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity, settings

from chaos.audit.baseline_runs import Clean, CleanRuns
from chaos.audit.budget import Budget, ShowProgress
from chaos.audit.finding import findings, size
from chaos.audit.folder import AuditFolder
from chaos.audit.group import SEVERAL
from chaos.audit.place_groups import FaultPlace
from chaos.audit.plans import plan_of
from chaos.audit.repro import repro_text
from chaos.audit.run_row import Defect, RunRow, run_row
from chaos.model.event import ControllerState
from chaos.model.plan import Op, Plan
from chaos.model.trigger import AtMoment, AtRecovery, AtStep
from chaos.plan.make import make_plan, nodes_for
from chaos.record import Record
from chaos.report.outcome import FinishedRun
from chaos.run.clock import Clock, seconds_since
from chaos.run.ports import ScriptBackend
from chaos.scenario_file.load import load_scenario
from chaos.search import FAULTS_MAX
from chaos.search.plans import JobPlaces, drawn_plans
from chaos.search.shrink import Ops, shrunk

# Plans that Hypothesis draws before it starts again, with the causes found so far left out.
BATCH = 40
SUFFIX = ".chaos.yaml"
RESULT = "search.json"

# The identity of a cause while a plan is made smaller: its numbers and places change.
Cause: TypeAlias = tuple[str, str]


class FoundCause(Record):
    """One cause, by the smallest plan that shows it."""

    cause: Defect
    row: RunRow
    #: the faults of the first plan that showed it
    first_faults: int
    first_plan: int
    #: the time sufficed to make it smaller until no neighbour of it failed
    is_smallest: bool
    #: the plans of the search until that was known
    plans: int
    #: the time of the search until then
    seconds: float
    #: the plan was run twice and failed twice by the same cause
    is_repeated: bool
    was_known: bool
    #: its scenario
    file: str
    report: str


class SearchResult(Record):
    """The result of a search."""

    script: str
    command: str
    folder: str
    seed: int
    plans: int
    faults: int
    #: the restarts from a checkpoint, of runs with a right result alone: a run that came out wrong
    #: does not show that the job can resume
    resumed: int
    #: the restarts from the beginning, in the same runs
    from_scratch: int
    inconclusive: int
    #: the combinations that its runs have met
    met: int
    seconds: float
    limit: str | None
    found: tuple[FoundCause, ...]
    most: int
    #: the kept files that came out right in this search
    right_now: tuple[str, ...]
    #: those that came out inconclusive
    undecided_now: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0: nothing was found, and a resume came out right; 1: a finding; 2: neither."""
        if any(found.is_repeated for found in self.found):
            return 1
        return 0 if self.resumed and not self.found else 2


class _StopError(BaseException):
    """An end of the search; no `Exception`, which Hypothesis would make smaller, as a finding.

    Its cause is the error that broke the search off; it has none where the limit is reached.
    """


@dataclass
class _Best:
    """The smallest failing run of a cause so far; its fields are those of `FoundCause`."""

    row: RunRow
    first_faults: int
    first_plan: int
    is_smallest: bool = False
    was_known: bool = False
    plans: int = 0
    seconds: float = 0.0


@dataclass
class Search:
    """One search over the job of `plan`, into a folder of its own."""

    plan: Plan
    backend: ScriptBackend
    folder: AuditFolder
    #: the folder of the scenarios that searches of this job have found: they are run first
    kept: Path
    clock: Clock
    budget: Budget
    show: ShowProgress
    tell: Callable[[int, RunRow], None]
    seed: int = 0
    most: int = FAULTS_MAX
    kinds: Sequence[str] | None = None
    follows_script: bool = True
    command: str = ""
    _rows: dict[Ops, RunRow] = field(default_factory=dict, init=False)
    _runs: int = field(default=0, init=False)
    _met: set[tuple[str, ...]] = field(default_factory=set, init=False)
    _best: dict[Cause, _Best] = field(default_factory=dict, init=False)
    _right_now: list[str] = field(default_factory=list, init=False)
    _undecided_now: list[str] = field(default_factory=list, init=False)
    _start: int = field(default=0, init=False)

    def run(self) -> SearchResult:
        """Search until the limit is reached, and return what was found.

        Raises `JobError` if the job fails without a fault.
        """
        self._start = self.clock.now_ns()
        clean_runs = CleanRuns(self.backend, self.folder, self.clock, self.show)
        clean = clean_runs.run(self.plan, follows_script=self.follows_script)
        self._clean = self._with_spares(clean)
        try:
            self._replay()
            self._search()
        except _StopError as stop:
            if stop.__cause__ is not None:
                raise stop.__cause__ from None
        except KeyboardInterrupt:
            self._result(may_repeat=False)
            raise
        return self._result()

    # -- inside ----------------------------------------------------------------------------

    def _with_spares(self, clean: Clean) -> Clean:
        """Return the clean runs with a plan that has a node for each that may be lost.

        Without spare nodes it has those that it starts on, and no node is lost.
        """
        if not clean.plan.job.facts.has_spare_nodes:
            return clean
        shape = clean.plan.shape
        nodes = nodes_for(clean.plan.job.workers, shape.cpus_per_node, spares=self.most)
        shape = shape.model_copy(update={"nodes": nodes})
        return replace(clean, plan=clean.plan.model_copy(update={"shape": shape}))

    def _replay(self) -> None:
        """Run what earlier searches have found."""
        for file in sorted(self.kept.glob(f"*{SUFFIX}")):
            known = make_plan(
                load_scenario(file), file=file, seed=self.plan.seed, cwd=Path(self.plan.cwd)
            )
            row = self._row(known.ops)
            if (cause := cause_of(row)) is not None:
                self._note(cause, row, was_known=True)
            else:
                (self._right_now if row.is_right else self._undecided_now).append(str(file))

    def _search(self) -> None:
        places = JobPlaces.of(self._clean.profile)
        drawn = drawn_plans(places, most=self.most, kinds=self.kinds)
        for batch in count():
            before = len(self._rows)
            self._draw(batch, drawn)
            while cause := next((c for c, b in self._best.items() if not b.is_smallest), None):
                self._shrink(cause)
            if len(self._rows) == before:  # every plan that it can draw was run
                return

    def _draw(self, batch: int, drawn: hypothesis.strategies.SearchStrategy[Ops]) -> None:
        """Draw plans until one fails by a new cause."""
        # Hypothesis draws, and does not shrink (`phases`): it needs more tries than runs of seconds
        # allow. Nor does it keep examples: findings are scenario files (docs/notes, 21). It must
        # not run a plan twice and call a job flaky that is wrong by chance, so rows are kept by
        # plan in `_row`; and a cause that is known does not fail, or each batch would end with it.
        known = frozenset(self._best)

        @hypothesis.seed(_number(self.seed, batch))
        @settings(
            max_examples=BATCH,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.target),
            suppress_health_check=list(HealthCheck),
            verbosity=Verbosity.quiet,
            print_blob=False,
            report_multiple_bugs=False,
        )
        @hypothesis.given(drawn)
        def comes_out_right(ops: Ops) -> None:
            met, row = len(self._met), self._row(ops)
            hypothesis.target(float(len(self._met) - met), label="new combinations")
            cause = cause_of(row)
            if cause is not None and cause not in known:
                self._note(cause, row)
                raise _WrongError

        with suppress(_WrongError):
            comes_out_right()

    def _shrink(self, cause: Cause) -> None:
        """Make the plan of a cause as small as it gets; what fails otherwise is noted as well."""

        def fails(ops: Ops) -> bool:
            row = self._row(ops)
            now = cause_of(row)
            if now is not None:
                self._note(now, row)
            return now == cause

        best = self._best[cause]
        shrunk(best.row.ops, fails, JobPlaces.of(self._clean.profile), self.kinds)
        best.is_smallest = True
        best.plans, best.seconds = len(self._rows), seconds_since(self._start, self.clock)

    def _row(self, ops: Ops) -> RunRow:
        """Run a plan, unless it was run before."""
        if ops not in self._rows:
            spent_s = seconds_since(self._start, self.clock)
            if self.budget.is_spent(
                seconds=spent_s, runs=self._runs, begun=self._runs, for_minimum=False
            ):
                raise _StopError
            try:
                self._rows[ops] = self._execute(ops)
            except Exception as error:
                raise _StopError from error
            self.tell(len(self._rows), self._rows[ops])
        return self._rows[ops]

    def _execute(self, ops: Ops) -> RunRow:
        number, self._runs = self._runs, self._runs + 1
        place = FaultPlace(", then ".join(str(op.at) for op in ops), SEVERAL, ops)
        plan = plan_for(self._clean, place)
        directory = self.folder.new_run("runs", number, plan)
        done = self.folder.execute(self.backend, plan, directory, self._clean.baseline, self.clock)
        self._met |= combinations(done)
        row = run_row(number, place, done)
        self.folder.prune(directory, keep_logs=row.is_wrong)
        return row

    def _note(self, cause: Cause, row: RunRow, *, was_known: bool = False) -> None:
        best = self._best.get(cause)
        if best is None:
            self._best[cause] = _Best(
                row, len(row.ops), row.number, was_known=was_known, is_smallest=was_known
            )
        elif size(row) < size(best.row):
            best.row = row

    def _result(self, *, may_repeat: bool = True) -> SearchResult:
        """Return the result so far, after it was written."""
        rows = [*self._rows.values()]
        right = [row for row in rows if row.is_right]
        seconds = seconds_since(self._start, self.clock)
        best = {best.row.number: best for best in self._best.values()}
        # Of those that an audit would call one, the smallest.
        distinct = findings([one.row for one in best.values()])
        causes = [best[finding.smallest.number] for finding in distinct]
        result = SearchResult(
            script=Path(self.plan.file).name,
            command=self.command,
            folder=self.folder.shown,
            seed=self.seed,
            plans=len(rows),
            faults=sum(row.landed for row in rows),
            resumed=sum(row.resumed for row in right),
            from_scratch=sum(row.from_scratch for row in right),
            inconclusive=sum(row.status == "inconclusive" for row in rows),
            met=len(self._met),
            seconds=seconds,
            limit=self.budget.named(seconds=seconds, runs=self._runs),
            found=tuple(self._found(one, may_repeat=may_repeat) for one in causes),
            most=self.most,
            right_now=tuple(self._right_now),
            undecided_now=tuple(self._undecided_now),
        )
        self.folder.write(RESULT, result.model_dump_json(indent=2))
        return result

    def _found(self, best: _Best, *, may_repeat: bool) -> FoundCause:
        """Repeat the smallest plan of a cause, and write its scenario and its report."""
        row, cause = best.row, cause_of(best.row)
        # Repeated whatever the time.
        is_repeated = may_repeat and cause_of(self._execute(row.ops)) == cause
        defect = row.defects[0]
        plan = self.folder.run(row.number).load_plan()
        self.kept.mkdir(parents=True, exist_ok=True)
        name = f"{defect.check}-{_digest(row.ops)}{SUFFIX}"
        file = self.kept / name
        text = repro_text(plan, check=defect.check, folder=self.kept, headline=row.headline)
        file.write_text(text, encoding="utf-8")
        seconds, baseline = row.seconds, self._clean.baseline
        self.folder.save_report(row.number, baseline, seconds=seconds, scenario=text)
        return FoundCause(
            **vars(best),
            cause=defect,
            is_repeated=is_repeated,
            file=str(file),
            report=f"{self.folder.shown}/runs/{row.number}/report.html",
        )


def plan_for(clean: Clean, place: FaultPlace) -> Plan:
    """Return the plan of drawn faults; how many attempts they end is left to the checks."""
    plan = plan_of(clean.plan, place, clean.profile)
    return plan.model_copy(update={"expect": plan.expect.model_copy(update={"attempts": None})})


def cause_of(row: RunRow) -> Cause | None:
    """Return what is wrong with a run first of all; None if it is not known to be wrong."""
    if not row.is_wrong or not row.defects:
        return None
    first = row.defects[0]
    return first.check, next(iter(first.parts), first.gist)


def combinations(run: FinishedRun) -> set[tuple[str, ...]]:
    """Return what a run has met: of each fault its kind, its place, and the controller's state.

    And each change of the controller's state with the fault before it, and faults that follow each
    other.
    """
    states = [(number, event.state) for number, event in run.history.of(ControllerState)]
    landed = [injection for injection in run.analysis.injections if injection.landed]
    found: set[tuple[str, ...]] = set()
    for injection in landed:
        at = injection.invoked[0][0]
        state = next((state for number, state in reversed(states) if number < at), "-")
        attempt = "first" if not injection.hit else "later"
        found.add((injection.op.kind, kind_of_place(injection.op), state, attempt))
        found |= {(injection.op.kind, "then", state) for number, state in states if number > at}
    named = [(one.op.kind, kind_of_place(one.op)) for one in landed]
    return found | {(*one, *other) for one, other in pairwise(named)}


def kind_of_place(op: Op) -> str:
    """Return the kind of an op's place, without its epoch, step and rank."""
    match op.at:
        case AtStep():
            return "step"
        case AtMoment(moment=moment):
            return moment
        case AtRecovery(stage=stage):
            return f"recovery: {stage}"
        case other:
            return type(other).__name__


class _WrongError(Exception):
    """A plan that a job does not survive."""


def _number(seed: int, batch: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}:{batch}".encode()).digest()[:8])


def _digest(ops: Ops) -> str:
    text = "; ".join(f"{op.at} {op.fault!r}" for op in ops)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
