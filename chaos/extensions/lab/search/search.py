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

from chaos.audit.baseline_runs import CleanResult, CleanRunner
from chaos.audit.budget import Budget, ShowProgress
from chaos.audit.finding import group_findings, measure_size
from chaos.audit.folder import AuditFolder
from chaos.audit.plans import build_fault_plan
from chaos.audit.repro import repro_text
from chaos.audit.run_row import DefectKey, RunRow, build_run_row
from chaos.audit.site_category import SEVERAL_FAULTS
from chaos.audit.site_groups import FaultSite
from chaos.extensions.lab.search import FAULTS_MAX
from chaos.extensions.lab.search.plans import JobFaultSites, build_plan_strategy
from chaos.extensions.lab.search.shrink import Ops, shrink_plan
from chaos.model.event import ControllerState
from chaos.model.plan import Op, Plan
from chaos.model.trigger import AtMoment, AtRecovery, AtStep
from chaos.plan.make import count_nodes, make_plan
from chaos.record import Record
from chaos.report.outcome import FinishedRun
from chaos.run.clock import Clock, elapsed_seconds
from chaos.run.ports import ScriptBackend
from chaos.scenario_file.load import load_scenario

# Plans that Hypothesis draws before it starts again, with the causes found so far left out.
BATCH = 40
SUFFIX = ".chaos.yaml"
RESULT = "search.json"

# The identity of a cause while a plan is made smaller: its numbers and places change.
Cause: TypeAlias = tuple[str, str]


class FoundCause(Record):
    """One cause, by the smallest plan that shows it."""

    cause: DefectKey
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
        if any(cause.is_repeated for cause in self.found):
            return 1
        return 0 if self.resumed and not self.found else 2


class _StopError(BaseException):
    """An end of the search; no `Exception`, which Hypothesis would make smaller, as a finding.

    Its cause is the error that broke the search off; it has none where the limit is reached.
    """


@dataclass
class _BestRun:
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
    scenarios_folder: Path
    clock: Clock
    budget: Budget
    show_progress: ShowProgress
    report_row: Callable[[int, RunRow], None]
    seed: int = 0
    max_faults: int = FAULTS_MAX
    kinds: Sequence[str] | None = None
    follows_script: bool = True
    command: str = ""
    _rows: dict[Ops, RunRow] = field(default_factory=dict, init=False)
    _runs: int = field(default=0, init=False)
    _met_combinations: set[tuple[str, ...]] = field(default_factory=set, init=False)
    _best_runs: dict[Cause, _BestRun] = field(default_factory=dict, init=False)
    _right_now: list[str] = field(default_factory=list, init=False)
    _undecided_now: list[str] = field(default_factory=list, init=False)
    _start: int = field(default=0, init=False)

    def run(self) -> SearchResult:
        """Search until the limit is reached, and return what was found.

        Raises `JobError` if the job fails without a fault.
        """
        self._start = self.clock.now_ns()
        clean_runs = CleanRunner(self.backend, self.folder, self.clock, self.show_progress)
        clean = clean_runs.run(self.plan, follows_script=self.follows_script)
        self._clean = self._add_spare_nodes(clean)
        try:
            self._replay_findings()
            self._draw_and_shrink()
        except _StopError as stop:
            if stop.__cause__ is not None:
                raise stop.__cause__ from None
        except KeyboardInterrupt:
            self._build_result(may_repeat=False)
            raise
        return self._build_result()

    # -- inside ----------------------------------------------------------------------------

    def _add_spare_nodes(self, clean: CleanResult) -> CleanResult:
        """Return the clean runs with a plan that has a node for each that may be lost.

        Without spare nodes it has those that it starts on, and no node is lost.
        """
        if not clean.plan.job.launcher_facts.nodes.has_spares:
            return clean
        shape = clean.plan.shape
        nodes = count_nodes(clean.plan.job.workers, shape.cpus_per_node, spares=self.max_faults)
        shape = shape.replace(nodes=nodes)
        return replace(clean, plan=clean.plan.replace(shape=shape))

    def _replay_findings(self) -> None:
        """Run what earlier searches have found."""
        for file in sorted(self.scenarios_folder.glob(f"*{SUFFIX}")):
            plan = make_plan(
                load_scenario(file), file=file, seed=self.plan.seed, cwd=Path(self.plan.cwd)
            )
            row = self._run_plan(plan.ops)
            if (cause := find_cause(row)) is not None:
                self._record_cause(cause, row, was_known=True)
            else:
                (self._right_now if row.is_right else self._undecided_now).append(str(file))

    def _draw_and_shrink(self) -> None:
        fault_sites = JobFaultSites.from_profile(self._clean.profile)
        strategy = build_plan_strategy(fault_sites, max_faults=self.max_faults, kinds=self.kinds)
        for batch in count():
            row_count = len(self._rows)
            self._draw_plans(batch, strategy)
            while cause := next((c for c, b in self._best_runs.items() if not b.is_smallest), None):
                self._shrink_cause(cause)
            if len(self._rows) == row_count:  # every plan that it can draw was run
                return

    def _draw_plans(self, batch: int, strategy: hypothesis.strategies.SearchStrategy[Ops]) -> None:
        """Draw plans until one fails by a new cause."""
        # Hypothesis draws, and does not shrink (`phases`): it needs more tries than runs of seconds
        # allow. Nor does it keep examples: findings are scenario files (docs/notes, 21). It must
        # not run a plan twice and call a job flaky that is wrong by chance, so rows are kept by
        # plan in `_run_plan`; and a cause that is known does not fail, or each batch would end with
        # it.
        known_causes = frozenset(self._best_runs)

        @hypothesis.seed(_derive_seed(self.seed, batch))
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
        @hypothesis.given(strategy)
        def comes_out_right(ops: Ops) -> None:
            met_count, row = len(self._met_combinations), self._run_plan(ops)
            hypothesis.target(
                float(len(self._met_combinations) - met_count), label="new combinations"
            )
            cause = find_cause(row)
            if cause is not None and cause not in known_causes:
                self._record_cause(cause, row)
                raise _WrongError

        with suppress(_WrongError):
            comes_out_right()

    def _shrink_cause(self, cause: Cause) -> None:
        """Make the plan of a cause as small as it gets; what fails otherwise is noted as well."""

        def fails(ops: Ops) -> bool:
            row = self._run_plan(ops)
            row_cause = find_cause(row)
            if row_cause is not None:
                self._record_cause(row_cause, row)
            return row_cause == cause

        best = self._best_runs[cause]
        shrink_plan(
            best.row.ops, fails, JobFaultSites.from_profile(self._clean.profile), self.kinds
        )
        best.is_smallest = True
        best.plans, best.seconds = len(self._rows), elapsed_seconds(self._start, self.clock)

    def _run_plan(self, ops: Ops) -> RunRow:
        """Run a plan, unless it was run before."""
        if ops not in self._rows:
            spent_s = elapsed_seconds(self._start, self.clock)
            if self.budget.is_spent(
                seconds=spent_s, runs=self._runs, begun_places=self._runs, for_minimum=False
            ):
                raise _StopError
            try:
                self._rows[ops] = self._execute(ops)
            except Exception as error:
                raise _StopError from error
            self.report_row(len(self._rows), self._rows[ops])
        return self._rows[ops]

    def _execute(self, ops: Ops) -> RunRow:
        number, self._runs = self._runs, self._runs + 1
        fault_site = FaultSite(", then ".join(str(op.at) for op in ops), SEVERAL_FAULTS, ops)
        plan = build_plan(self._clean, fault_site)
        directory = self.folder.new_run("runs", number, plan)
        finished_run = self.folder.execute(
            self.backend, plan, directory, self._clean.baseline, self.clock
        )
        self._met_combinations |= find_combinations(finished_run)
        row = build_run_row(number, fault_site, finished_run)
        self.folder.prune(directory, keep_logs=row.is_wrong)
        return row

    def _record_cause(self, cause: Cause, row: RunRow, *, was_known: bool = False) -> None:
        best = self._best_runs.get(cause)
        if best is None:
            self._best_runs[cause] = _BestRun(
                row, len(row.ops), row.number, was_known=was_known, is_smallest=was_known
            )
        elif measure_size(row) < measure_size(best.row):
            best.row = row

    def _build_result(self, *, may_repeat: bool = True) -> SearchResult:
        """Return the result so far, after it was written."""
        rows = [*self._rows.values()]
        right_rows = [row for row in rows if row.is_right]
        seconds = elapsed_seconds(self._start, self.clock)
        best = {best.row.number: best for best in self._best_runs.values()}
        # Of those that an audit would call one, the smallest.
        distinct_findings = group_findings([candidate.row for candidate in best.values()])
        causes = [best[finding.smallest.number] for finding in distinct_findings]
        result = SearchResult(
            script=Path(self.plan.file).name,
            command=self.command,
            folder=self.folder.display_path,
            seed=self.seed,
            plans=len(rows),
            faults=sum(row.landed for row in rows),
            resumed=sum(row.resumed for row in right_rows),
            from_scratch=sum(row.from_scratch for row in right_rows),
            inconclusive=sum(row.status == "inconclusive" for row in rows),
            met=len(self._met_combinations),
            seconds=seconds,
            limit=self.budget.find_reached_option(seconds=seconds, runs=self._runs),
            found=tuple(
                self._confirm_cause(candidate, may_repeat=may_repeat) for candidate in causes
            ),
            most=self.max_faults,
            right_now=tuple(self._right_now),
            undecided_now=tuple(self._undecided_now),
        )
        self.folder.write(RESULT, result.model_dump_json(indent=2))
        return result

    def _confirm_cause(self, best: _BestRun, *, may_repeat: bool) -> FoundCause:
        """Repeat the smallest plan of a cause, and write its scenario and its report."""
        row, cause = best.row, find_cause(best.row)
        # Repeated whatever the time.
        is_repeated = may_repeat and find_cause(self._execute(row.ops)) == cause
        defect = row.defects[0]
        plan = self.folder.run_directory(row.number).load_plan()
        self.scenarios_folder.mkdir(parents=True, exist_ok=True)
        name = f"{defect.check}-{_digest_plan(row.ops)}{SUFFIX}"
        file = self.scenarios_folder / name
        scenario_text = repro_text(
            plan, check=defect.check, folder=self.scenarios_folder, headline=row.headline
        )
        file.write_text(scenario_text, encoding="utf-8")
        seconds, baseline = row.seconds, self._clean.baseline
        self.folder.save_report(row.number, baseline, seconds=seconds, scenario=scenario_text)
        return FoundCause(
            **vars(best),
            cause=defect.key,
            is_repeated=is_repeated,
            file=str(file),
            report=f"{self.folder.display_path}/runs/{row.number}/report.html",
        )


def build_plan(clean: CleanResult, fault_site: FaultSite) -> Plan:
    """Return the plan of drawn faults; how many attempts they end is left to the checks."""
    plan = build_fault_plan(clean.plan, fault_site, clean.profile)
    return plan.replace(expect=plan.expect.replace(attempts=None))


def find_cause(row: RunRow) -> Cause | None:
    """Return what is wrong with a run first of all; None if it is not known to be wrong."""
    if not row.is_wrong or not row.defects:
        return None
    first_defect = row.defects[0]
    return first_defect.check, next(iter(first_defect.parts), first_defect.kind)


def find_combinations(run: FinishedRun) -> set[tuple[str, ...]]:
    """Return what a run has met: of each fault its kind, its place, and the controller's state.

    And each change of the controller's state with the fault before it, and faults that follow each
    other.
    """
    states = [(number, event.state) for number, event in run.history.select_events(ControllerState)]
    landed_injections = [injection for injection in run.analysis.injections if injection.has_effect]
    met_combinations: set[tuple[str, ...]] = set()
    for injection in landed_injections:
        event_number = injection.invocations[0][0]
        state = next((state for number, state in reversed(states) if number < event_number), "-")
        attempt = "first" if not injection.hit_attempt else "later"
        met_combinations.add((injection.op.kind, describe_site_kind(injection.op), state, attempt))
        met_combinations |= {
            (injection.op.kind, "then", state) for number, state in states if number > event_number
        }
    faults_and_sites = [
        (current.op.kind, describe_site_kind(current.op)) for current in landed_injections
    ]
    return met_combinations | {
        (*current, *following) for current, following in pairwise(faults_and_sites)
    }


def describe_site_kind(op: Op) -> str:
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


def _derive_seed(seed: int, batch: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}:{batch}".encode()).digest()[:8])


def _digest_plan(ops: Ops) -> str:
    text = "; ".join(f"{op.at} {op.fault!r}" for op in ops)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
