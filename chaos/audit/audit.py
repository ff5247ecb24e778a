"""An audit from beginning to end: clean runs, kill map, runs with faults, findings, card."""

import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeAlias

from chaos import runner
from chaos.audit.baseline_runs import CleanResult, CleanRunner, ExtendableBaseline
from chaos.audit.budget import (
    IDLE_MACHINE,
    UNLIMITED,
    AuditProgress,
    Budget,
    MachineLoad,
    MinimumRuns,
    Pace,
    ShowProgress,
    start_run_display,
)
from chaos.audit.card import Card, Controls, Ended
from chaos.audit.card_writer import CardWriter
from chaos.audit.causes import CauseTrials, Trials, note_time_shortage
from chaos.audit.chains import join_places
from chaos.audit.continuation import Continuation, EarlierAudit, digest_inputs
from chaos.audit.finding import Finding, measure_size, merge_findings
from chaos.audit.first_fault import find_retries
from chaos.audit.folder import AuditFolder
from chaos.audit.job_profile import JobProfile
from chaos.audit.judged_run import JudgedRun, judge_on_node, list_judges
from chaos.audit.lanes import open_view_lanes, require_comparable_runs, run_side_by_side
from chaos.audit.notes import Note, note, note_missing_grace, note_single_lane
from chaos.audit.plans import build_fault_plan, move_to_ray
from chaos.audit.repro import Confirmer, confirm_finding
from chaos.audit.retries import Retries
from chaos.audit.run_row import DefectKey, RunRow, build_run_rows
from chaos.audit.site_category import SITE_CATEGORIES, Question, SiteCategory, needs_nodes
from chaos.audit.site_groups import FaultSite
from chaos.audit.site_order import PARTS, order_places
from chaos.audit.site_queue import NOTHING_KNOWN, FaultRun, SiteQueue
from chaos.audit.site_sample import STEP_PLACES_MAX, choose_fault_sites
from chaos.audit.threads import ThreadLimit
from chaos.errors import ChaosError, NoViewError
from chaos.model.plan import Plan
from chaos.resume.repeated_setup import has_setup_steps
from chaos.run.clock import Clock, elapsed_seconds
from chaos.run.directory import RunDirectory, explain_full_disk
from chaos.run.ports import Backend, JudgingBackend, ScriptBackend

EXPLANATION = "giving values back: finding"
# Of the time that the audit took; or so many runs, as a short audit has none to spare.
CAUSE_SEARCH_SHARE, CAUSE_SEARCH_RUNS = 0.2, 12
FAULTS, CONFIRMATION, CONTROLS = "faults", "confirming on Ray: finding", "planting losses: loss"
UNCONFIRMED = note(
    "no finding was tried on a Ray cluster: the job writes outside of its run's folder, or to "
    "a bucket, from which the audit keeps it and a cluster would not"
)


@dataclass(frozen=True)
class SiteChoice:
    """The places to inject faults at, and their order; see `choose_fault_sites`."""

    seed: int = 0
    exhaustive: bool = False
    limit: int = STEP_PLACES_MAX
    groups: Sequence[SiteCategory] = SITE_CATEGORIES
    question: Question = "spot"
    #: each has a run of its own, even where several could share one
    one_by_one: bool = False


ALL_GROUPS = SiteChoice()


# Opens lanes for a job with so many workers and places; the function is called with each new one.
Spread: TypeAlias = Callable[
    [int, int, Callable[[Backend], None]], AbstractContextManager[list[Backend]]
]


class FaultLanes(NamedTuple):
    """The lanes of the runs with faults."""

    backends: Sequence[Backend]
    #: they have views, and only what passes in a view counts
    has_views: bool = False
    notes: tuple[Note, ...] = ()


def _take_runs(
    is_over: Callable[[], bool], runs: Iterator[FaultRun | None]
) -> Iterator[FaultRun | None]:
    """Yield runs, and take none that is not yielded."""
    while not is_over():
        try:
            yield next(runs)
        except StopIteration:
            return


@dataclass
class Audit:
    """One audit of the job of `plan`, into a folder of its own.

    Runs with faults go side by side, except on a local Ray cluster, which holds one at a time.
    """

    plan: Plan
    backend: ScriptBackend
    folder: AuditFolder
    clock: Clock
    choice: SiteChoice = ALL_GROUPS
    budget: Budget = UNLIMITED
    show: ShowProgress = lambda _: None
    #: called with the result of the clean runs, before any fault
    show_notes: Callable[[Sequence[Note]], None] = lambda _: None
    confirm: Confirmer | None = None
    #: a cause that no check names is looked for by giving values back
    searches_causes: bool = True
    #: the extension that shows what a pass would have caught, where that is asked for
    plant_losses: Callable[[Trials], Controls] | None = None
    #: the plan's number of workers is a guess, replaced by that of the script
    follows_script: bool = True
    #: the command line that repeats it
    command: str = ""
    #: the number that production has in place of the script's `max_failures`
    retries: int | None = None
    #: the time between a preemption and the end of the job, in the queue that production has
    grace_s: float = 0.0
    #: the number of runs side by side, by a job's workers
    count_lanes: Callable[[int], int] = lambda _: 1
    #: the backend of a local Ray cluster for the runs with faults, compared with clean runs there;
    #: without a limit they are of a sample, the places that an answer needs
    ray: Backend | None = None
    #: lanes of a running cluster for them; each is checked by a clean run before it is used
    open_lanes: Spread | None = None
    #: the threads of each process, which the plan has been given
    threads: ThreadLimit | None = None
    #: as it was before the audit
    machine: MachineLoad = IDLE_MACHINE
    #: the last audit of the same job, which this one continues
    earlier_audit: EarlierAudit | None = None
    _rows: list[RunRow] = field(default_factory=list, init=False)
    _smallest_rows: dict[tuple[DefectKey, ...], RunRow] = field(default_factory=dict, init=False)
    #: the runs that hung, in the order in which they were made
    _hung_rows: list[RunRow] = field(default_factory=list, init=False)
    _full_watch: ExtendableBaseline = field(init=False)
    _queue: SiteQueue = field(init=False)
    _start_ns: int = field(init=False)
    #: when the first run with a fault began
    _faults_start_ns: int = field(init=False)
    _continuation: Continuation | None = field(default=None, init=False)

    def run(self) -> Card:
        """Audit the job; return the card, which is in the folder as well.

        Raises `JobError` if the job fails without a fault. If the audit is broken off,
        the card of the runs so far is written.
        """
        self._start_ns = self.clock.now_ns()
        clean_runs = CleanRunner(self.backend, self.folder, self.clock, self.show)
        clean, retries = self._make_clean_runs(clean_runs)
        self._full_watch = ExtendableBaseline(clean, clean_runs)
        inputs_digest = digest_inputs(clean, retries=self.retries)
        clean = self._continue(clean, inputs_digest)
        queue = self._queue = self._build_queue(clean)
        with ExitStack() as stack:
            fault_lanes = self._open_lanes(stack, clean, clean_runs)
            minimum = MinimumRuns(
                queue.needed_run_count,
                queue.needed_site_count,
                self._spent_s,
                run_s=clean.run_s,
                lanes=len(fault_lanes.backends),
                start_s=clean.times.start_s,
                workers=clean.plan.job.workers,
                machine=self.machine,
            )
            fits = minimum.fits(self.budget)
            queue.begin(is_short_of_time=not fits)
            limit_notes = minimum.describe_shortage(self.budget, self.command, queue.groups)
            thread_notes = self._describe_threads(clean, fault_lanes)
            clean = replace(
                clean, notes=(*clean.notes, *fault_lanes.notes, *thread_notes, *limit_notes)
            )
            self.show_notes((*clean.notes, *minimum.describe_cost(self.budget)))
            writer = CardWriter(
                clean, queue, self.folder, self.choice.seed, self.command, retries, inputs_digest
            )
            ended: Ended = "interrupted"
            try:
                ended = self._inject_all(clean, fault_lanes, stack, fits=fits)
            finally:
                card = self._build_card(writer, ended)
        card = self._confirm_findings(self._search_causes(card, writer, clean), writer, clean)
        return self._plant_losses(card, writer, clean)

    # -- inside ----------------------------------------------------------------------------

    def _make_clean_runs(self, clean_runs: CleanRunner) -> tuple[CleanResult, Retries]:
        """Return the clean runs, and what one fault under the job's own retries has shown."""
        clean = clean_runs.run(self.plan, follows_script=self.follows_script)
        clean, retries = find_retries(
            clean, clean_runs, seed=self.choice.seed, requested_count=self.retries
        )
        if not any(map(needs_nodes, self.choice.groups)):
            clean = replace(clean, profile=clean.profile.exclude_node_losses())
        profile = replace(clean.profile, grace_s=self.grace_s)
        clean = replace(clean, profile=profile, notes=(*clean.notes, *note_missing_grace(profile)))
        if self.ray is not None:
            clean = clean_runs.repeat_on_backend(self.ray, clean, move_to_ray(clean.plan))
        if self.open_lanes is not None:
            require_comparable_runs(clean)
        return clean, retries

    def _describe_threads(self, clean: CleanResult, fault_lanes: FaultLanes) -> Iterator[Note]:
        if self.threads is not None:
            lanes, workers = len(fault_lanes.backends), clean.plan.job.workers
            yield note(self.threads.describe(lanes=lanes, workers=workers))

    def _continue(self, clean: CleanResult, inputs_digest: str) -> CleanResult:
        """Look back at the last audit, if there is one; return the clean runs with a note."""
        if self.earlier_audit is None:
            return clean
        self._continuation = Continuation.from_audit(
            self.earlier_audit, clean, inputs_digest=inputs_digest
        )
        return replace(clean, notes=(*clean.notes, self._continuation.note))

    def _build_queue(self, clean: CleanResult) -> SiteQueue:
        # If reports come by the clock, and steps differ as well, no two runs share a place.
        has_no_shared_place = (
            clean.repetition.reports_apart is not None and not clean.repetition.is_by_steps
        )
        return SiteQueue(
            clean.profile,
            (lambda _: ()) if has_no_shared_place else self._find_places,
            self.choice.question,
            self.choice.seed,
            # Only where a job repeats itself exactly: else a difference in a run could be of any of
            # its faults, or of none. And only where nothing bounds the faults of a run: a script
            # that begins again by itself does so after `most_faults` of them. Nor where each start
            # may repeat steps: their places are counted on from there, and known afterwards alone.
            may_chain=clean.repetition.is_exact
            and not self.choice.one_by_one
            and not has_setup_steps(clean.baseline.runs[0])
            and clean.profile.most_faults is None,
            single_count=0 if self.ray is not None else PARTS,
            earlier_sites=NOTHING_KNOWN
            if self._continuation is None
            else self._continuation.earlier_sites,
        )

    def _build_card(self, writer: CardWriter, ended: Ended) -> Card:
        queue = self._queue
        self._rows += queue.list_unsettled()
        self._rows.sort(key=lambda row: row.number)
        runs, changes = [*queue.earlier_sites.unchanged_rows, *self._rows], None
        if self._continuation is not None:
            changes = self._continuation.compare_runs(self._rows, queue)
        seconds = self._spent_s
        writer = replace(writer, clean=replace(writer.clean, baseline=self._full_watch.baseline))
        # After a hang the audit ends where another one does not fit into what is left of its time.
        end_s = seconds + (self._longest_hang_s if ended == "budget" else 0.0)
        limit = self.budget.find_reached_option(
            seconds=end_s, runs=queue.taken_count, wrong=self._wrong_count
        )
        writer = replace(writer, changes=changes)
        card = writer.create_card(runs, ended=ended, seconds=seconds, limit=limit)
        examples = {finding.smallest.number for finding in card.findings}
        for row in self._smallest_rows.values():
            if row.number not in examples:
                self.folder.prune(self.folder.run_directory(row.number))
        return card

    def _find_places(self, profile: JobProfile) -> tuple[FaultSite, ...]:
        choice, continuation = self.choice, self._continuation
        all_places = choose_fault_sites(
            profile,
            seed=choice.seed,
            exhaustive=choice.exhaustive,
            # Beyond those that were tried and right, a sample has as many as without them.
            limit=choice.limit + (len(continuation.right_rows) if continuation else 0),
            wanted_groups=choice.groups,
        )
        if self.ray is not None and not choice.exhaustive and self.budget == UNLIMITED:
            all_places = order_places(
                all_places, profile, question=choice.question, seed=choice.seed
            ).needed
        if continuation is None:
            return all_places
        earlier_places = [
            place for place in continuation.find_places(profile) if place.group in choice.groups
        ]
        return tuple(dict.fromkeys((*all_places, *earlier_places)))

    def _open_lanes(
        self, stack: ExitStack, clean: CleanResult, clean_runs: CleanRunner
    ) -> FaultLanes:
        """Open a lane for each of the runs at a time; `stack` ends them."""
        if self.ray is not None:
            return FaultLanes([self.ray])
        workers, site_count = clean.plan.job.workers, len(self._queue.sites)
        if self.open_lanes is not None:
            check = partial(clean_runs.check_lane, clean)
            return FaultLanes(stack.enter_context(self.open_lanes(workers, site_count, check)))
        count = self.count_lanes(workers)
        if clean.shares_files:
            count = min(count, site_count)
        if clean.shares_files and count > 1:
            try:
                backends = open_view_lanes(stack, self.backend, clean, self.folder.path, count)
                return FaultLanes(backends, has_views=True)
            except NoViewError as error:
                return FaultLanes([self.backend], notes=(note_single_lane(str(error)),))
        extra_lanes = range(count - 1)
        return FaultLanes(
            [
                self.backend,
                *(stack.enter_context(self.backend.open_parallel()) for _ in extra_lanes),
            ]
        )

    def _inject_all(
        self, clean: CleanResult, fault_lanes: FaultLanes, stack: ExitStack, *, fits: bool
    ) -> Ended:
        self._faults_start_ns = self.clock.now_ns()
        doubtful_runs = list[tuple[FaultRun, tuple[RunRow, ...]]]()  # they did not pass in a view

        def work(backend: Backend, run: FaultRun) -> tuple[FaultRun, tuple[RunRow, ...]]:
            return run, self._inject(backend, clean, run)

        def work_in_view(backend: Backend, run: FaultRun) -> tuple[FaultRun, tuple[RunRow, ...]]:
            with suppress(ChaosError):  # of the view, or raised again without it
                return work(backend, run)
            return run, ()

        runs = self._take_next_runs(fits=fits)
        runs_before_doubt = _take_runs(lambda: bool(doubtful_runs), runs)
        first_work = work_in_view if fault_lanes.has_views else work
        for run, rows in run_side_by_side(first_work, runs_before_doubt, fault_lanes.backends):
            if fault_lanes.has_views and not (rows and all(row.is_right for row in rows)):
                doubtful_runs.append((run, rows))
            else:
                self._learn(run, rows)
                self._report_hang(rows)
        if doubtful_runs:
            # A view differs from a plain folder, which a right job may notice. So only a pass in a
            # view counts. All others are run again without, and the rest as well, since a run
            # without a view is seen in every view.
            stack.close()
            self._full_watch.allow_retry()
            repeated_runs = self._select_doubtful_runs(doubtful_runs)
            for run, rows in run_side_by_side(work, chain(repeated_runs, runs), [self.backend]):
                self._learn(run, rows)
                self._report_hang(rows)
        self._report_progress()
        return "all" if self._queue.is_empty else "budget"

    def _select_doubtful_runs(
        self, doubtful_runs: Sequence[tuple[FaultRun, tuple[RunRow, ...]]]
    ) -> Iterator[FaultRun]:
        """Yield the runs in views that are to be made again without.

        One that hung like a run without a view is taken as it is. When a run has hung, and there
        is no time for others, they count as not tried.
        """
        for run, rows in doubtful_runs:
            if rows and rows[0].is_hung and self._has_same_hang(rows[0]):
                self._learn(run, rows)
                continue
            shutil.rmtree(self.folder.run_directory(run.number).path, ignore_errors=True)
            if self._longest_hang_s and self._is_spent(for_minimum=False):
                self._queue.return_sites(run.sites)
                continue
            yield run

    def _has_same_hang(self, row: RunRow) -> bool:
        hung_rows = (hung_row for hung_row in self._hung_rows if hung_row.is_hung)
        return any(hung_row.defect_keys == row.defect_keys for hung_row in hung_rows)

    @property
    def _spent_s(self) -> float:
        """The time of the audit so far."""
        return elapsed_seconds(self._start_ns, self.clock)

    @property
    def _longest_hang_s(self) -> float:
        return max((row.seconds for row in self._hung_rows), default=0.0)

    def _is_spent(self, *, for_minimum: bool) -> bool:
        queue = self._queue
        return self.budget.is_spent(
            seconds=self._spent_s,
            runs=0 if queue.has_doubt else queue.taken_count,
            begun_places=queue.taken_count,
            wrong=max(self._wrong_count, len(self._hung_rows)),
            for_minimum=for_minimum,
            hung_s=self._longest_hang_s,
        )

    def _report_hang(self, rows: Sequence[RunRow]) -> None:
        """Show a run that hung at once, before its places are tried one by one."""
        if rows and rows[0].is_hung:
            self._hung_rows.append(rows[0])
            self._report_progress(latest_row=rows[0])

    def _take_next_runs(self, *, fits: bool) -> Iterator[FaultRun | None]:
        queue = self._queue
        while not queue.is_empty or queue.is_waiting:
            self._report_progress()
            is_spent = self._is_spent(for_minimum=fits and queue.has_needed_runs)
            if is_spent and not queue.is_waiting:
                return
            # None is no end: a run under way may give its places back, or show new ones (a job
            # whose ranks load a file only after a fault), and a free lane waits for it.
            site_limit = None if self.budget.runs is None else self.budget.runs - queue.taken_count
            yield None if is_spent or queue.is_empty else queue.next_run(site_limit)

    def _learn(self, run: FaultRun, rows: Sequence[RunRow]) -> None:
        number, sites = run
        settled_rows = self._queue.learn(sites, rows)
        if all(row.number != number for row in settled_rows):  # held back: it may be a finding
            self.folder.prune(self.folder.run_directory(number), keep_logs=not settled_rows)
        for row in settled_rows:
            self._record_row(row)

    @property
    def _wrong_count(self) -> int:
        return sum(row.is_wrong for row in self._rows)

    def _record_row(self, row: RunRow) -> None:
        self._rows.append(row)
        directory = self.folder.run_directory(row.number)
        keep_logs = self._keep_if_smallest(row) or row.is_combined
        self.folder.prune(directory, keep_logs=keep_logs)

    def _report_progress(self, *, latest_row: RunRow | None = None) -> None:
        queue = self._queue
        # Places, and not tries: a run of several places that came out wrong is tried again.
        done = sum(not row.is_combined for row in self._rows)
        pace = Pace(
            done=done,
            place_count=len(queue.sites),
            needed=queue.needed_site_count + queue.taken_count - done,
            has_needed_runs=queue.has_needed_runs,
            spent_s=self._spent_s,
            runs_s=elapsed_seconds(self._faults_start_ns, self.clock),
        )
        total = pace.total(self.budget)
        progress = AuditProgress(
            FAULTS,
            done,
            done if queue.is_empty and not queue.is_waiting else total,
            pace.estimate_remaining_s(self.budget),
            latest_row or (self._rows[-1] if self._rows else None),
            self._wrong_count,
            pace.spent_s,
            self.budget.seconds if total is None else None,
        )
        self.show(progress)

    def _inject(self, backend: Backend, clean: CleanResult, run: FaultRun) -> tuple[RunRow, ...]:
        """Execute one run with faults; only its rows stay in memory."""
        number, places = run
        plan = build_fault_plan(clean.plan, join_places(places), clean.profile)
        if self.ray is not None:
            plan = move_to_ray(plan)
        directory = self.folder.new_run("runs", number, plan)
        judged_run = self._execute_and_judge(backend, plan, directory, run)
        # A restart may go on from a step at which the baseline's state was not looked at. One more
        # clean run is looked at everywhere then, once for all, and this run is judged anew by it.
        if judged_run.needs_extended_baseline and self._full_watch.extend_baseline(backend):
            history, baseline = directory.load_history(), self._full_watch.baseline
            judged_anew = self.folder.judge(
                directory, plan, history, baseline, seconds=judged_run.seconds
            )
            return build_run_rows(number, places, judged_anew)
        return judged_run.rows

    def _execute_and_judge(
        self, backend: Backend, plan: Plan, directory: RunDirectory, run: FaultRun
    ) -> JudgedRun:
        """Execute a run, and judge it where it was executed."""
        baseline = self._full_watch.baseline
        if not isinstance(backend, JudgingBackend):
            return JudgedRun.from_run(
                run, self.folder.execute(backend, plan, directory, baseline, self.clock)
            )
        with explain_full_disk(directory):
            runner.prepare(plan, directory, baseline)
            judged_run = backend.execute_and_judge(
                directory, judge_on_node, baseline, (run, list_judges())
            )
        if judged_run.harm is not None:
            raise judged_run.harm
        return judged_run

    def _keep_if_smallest(self, row: RunRow) -> bool:
        """Return whether a run is the smallest of its defects so far; drop the one before."""
        if row.status != "fail":
            return False
        earlier_row = self._smallest_rows.get(row.defect_keys)
        if earlier_row is not None and measure_size(earlier_row) < measure_size(row):
            return False
        if earlier_row is not None:
            self.folder.prune(self.folder.run_directory(earlier_row.number))
        self._smallest_rows[row.defect_keys] = row
        return True

    def _search_causes(self, card: Card, writer: CardWriter, clean: CleanResult) -> Card:
        """Look for the causes that no check names, by giving values back, in a part of the time.

        Returns the card with what that has shown.
        """
        if not self.searches_causes:
            return card
        trials_s = self.budget.trials_s(spent_s=self._spent_s, run_s=clean.run_s)
        has_limit = trials_s is not None
        if trials_s is None:
            trials_s = CAUSE_SEARCH_SHARE * card.seconds
        trials = CauseTrials(
            self.backend,
            self.clock,
            self.folder,
            self._full_watch.baseline,
            card.runs,
            end_ns=self.clock.now_ns() + 1e9 * trials_s,
            minimum_runs=0 if has_limit else CAUSE_SEARCH_RUNS,
            show=lambda number, total: self.show(AuditProgress(EXPLANATION, number, total)),
        )
        rows = trials.recheck_accepted()
        if rows != card.runs:
            card = writer.create_card(
                rows, ended=card.ended, seconds=card.seconds, limit=card.limit
            )
        findings, notes = trials.judge(card.findings)
        if trials.untried_count and has_limit:
            notes = (*notes, note_time_shortage(trials.untried_count, self.command, self.budget))
        if findings == list(card.findings) and not notes:
            return card
        return self._replace_findings(findings, card.replace(notes=(*card.notes, *notes)), writer)

    def _plant_losses(self, card: Card, writer: CardWriter, clean: CleanResult) -> Card:
        """Return the card with what planted losses have shown, if they are wanted after a pass."""
        if self.plant_losses is None or card.word != "pass":
            return card
        trials_s = self.budget.trials_s(spent_s=self._spent_s, run_s=clean.run_s)
        trials = Trials(
            self.backend,
            self.clock,
            self.folder,
            self._full_watch.baseline,
            card.runs,
            end_ns=math.inf if trials_s is None else self.clock.now_ns() + 1e9 * trials_s,
            show=lambda number, total: self.show(
                AuditProgress(CONTROLS, number, total, activity="training")
            ),
        )
        return writer.add_controls(card, self.plant_losses(trials))

    def _replace_findings(
        self, findings: Sequence[Finding], card: Card, writer: CardWriter
    ) -> Card:
        merged_findings = merge_findings(findings, card.runs)
        for repro in {f.repro for f in card.findings}.difference(
            finding.repro for finding in merged_findings
        ):
            (self.folder.path / repro).unlink(missing_ok=True)
        card = card.replace(findings=merged_findings)
        writer.write(card)
        return card

    def _confirm_findings(self, card: Card, writer: CardWriter, clean: CleanResult) -> Card:
        """Run each finding's reproduction by `confirm`; return the card with the results."""
        if self.confirm is None or not card.findings:
            return card
        if not clean.is_self_contained:  # there, nothing keeps it from overwriting the user's files
            card = card.replace(notes=(*card.notes, UNCONFIRMED))
            writer.write(card)
            return card
        findings, total = list(card.findings), len(card.findings)
        for number, finding in enumerate(card.findings):
            progress = AuditProgress(CONFIRMATION, number, total)
            show = start_run_display(progress, self.show, self.clock, first_activity="starting Ray")
            file, cwd = self.folder.path / finding.repro, Path(self.plan.cwd)
            confirm = partial(self.confirm, show=show)
            outcome = confirm_finding(file, confirm, seed=self.plan.seed, cwd=cwd)
            findings[number] = finding.replace(confirmation=outcome)
            card = card.replace(findings=tuple(findings))
            writer.write(card)
        return card
