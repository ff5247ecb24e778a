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
from chaos.audit.baseline_runs import Clean, CleanRuns
from chaos.audit.budget import (
    UNLIMITED,
    AuditProgress,
    Budget,
    Minimum,
    Pace,
    ShowProgress,
    of_one_run,
    with_time_limit,
)
from chaos.audit.card import Card, Ended
from chaos.audit.causes import CauseTrials
from chaos.audit.chains import joined
from chaos.audit.continuation import Continuation, EarlierAudit, basis_of
from chaos.audit.finding import Finding, size, united
from chaos.audit.first_fault import begun_again
from chaos.audit.folder import AuditFolder
from chaos.audit.group import GROUPS, Group, Question, needs_nodes
from chaos.audit.job_profile import JobProfile
from chaos.audit.judged_run import JudgedRun, judged_there, judges
from chaos.audit.lanes import side_by_side
from chaos.audit.looks import Looks
from chaos.audit.notes import Note, note, one_at_a_time, without_grace
from chaos.audit.place_groups import FaultPlace
from chaos.audit.places import STEP_PLACES_MAX, kill_map
from chaos.audit.plans import on_ray, plan_of
from chaos.audit.queue import NOTHING_KNOWN, PARTS, Queue, Run, in_order
from chaos.audit.repro import Confirm, confirmation
from chaos.audit.retries import Retries
from chaos.audit.run_row import Defect, RunRow, run_rows
from chaos.audit.threads import Threads
from chaos.audit.views import lanes_apart
from chaos.audit.write_card import CardWriter
from chaos.errors import ChaosError, NoViewError, UsageError
from chaos.model.plan import Plan
from chaos.run.clock import Clock, seconds_since
from chaos.run.directory import RunDirectory, room_in
from chaos.run.ports import Backend, JudgingBackend, ScriptBackend
from chaos.words import plural

EXPLANATION = "giving values back: finding"
# Of the time that the audit took; or so many runs, as a short audit has none to spare.
EXPLAINING, EXPLAINED_IN = 0.2, 12
FAULTS, CONFIRMATION = "faults", "confirming on Ray: finding"
UNCONFIRMED = note(
    "no finding was tried on a Ray cluster: the job writes outside of its run's folder, or to "
    "a bucket, from which the audit keeps it and a cluster would not"
)


@dataclass(frozen=True)
class Choice:
    """The places to inject faults at, and their order; see `kill_map` and `in_order`."""

    seed: int = 0
    exhaustive: bool = False
    limit: int = STEP_PLACES_MAX
    groups: Sequence[Group] = GROUPS
    question: Question = "spot"
    #: each has a run of its own, even where several could share one
    one_by_one: bool = False


ALL_GROUPS = Choice()


# Opens lanes for a job with so many workers and places; the function is called with each new one.
Spread: TypeAlias = Callable[
    [int, int, Callable[[Backend], None]], AbstractContextManager[list[Backend]]
]


class Opened(NamedTuple):
    """The lanes of the runs with faults."""

    backends: Sequence[Backend]
    #: they have views, and only what passes in a view counts
    has_views: bool = False
    notes: tuple[Note, ...] = ()


def _until(ends: Callable[[], bool], runs: Iterator[Run | None]) -> Iterator[Run | None]:
    """Yield runs, and take none that is not yielded."""
    while not ends():
        try:
            yield next(runs)
        except StopIteration:
            return


def _refuse_elsewhere(clean: Clean) -> None:
    """Raise `UsageError` for a job whose runs on other machines could not be compared with ours."""
    why = None
    if clean.plan.job.fit > 1:
        why = "trains before the training that is tested, and elsewhere no files stay between runs"
    elif clean.shares_files:
        why = "writes files by absolute paths, which runs side by side on a node would share"
    elif not clean.repetition.is_exact:
        why = (
            "does not repeat itself to the last bit, so that another machine looks "
            f"like a fault: {clean.repetition}"
        )
    if why is not None:
        raise UsageError(f"the job {why}", "Audit it without --address.", place="--address")


@dataclass
class Audit:
    """One audit of the job of `plan`, into a folder of its own.

    Runs with faults go side by side, except on a local Ray cluster, which holds one at a time.
    """

    plan: Plan
    backend: ScriptBackend
    folder: AuditFolder
    clock: Clock
    choice: Choice = ALL_GROUPS
    budget: Budget = UNLIMITED
    show: ShowProgress = lambda _: None
    #: called with the result of the clean runs, before any fault
    tell: Callable[[Sequence[Note]], None] = lambda _: None
    confirm: Confirm | None = None
    #: a cause that no check names is looked for by giving values back
    explains: bool = True
    #: the plan's number of workers is a guess, replaced by that of the script
    follows_script: bool = True
    #: the command line that repeats it
    command: str = ""
    #: the number that production has in place of the script's `max_failures`
    retries: int | None = None
    #: the time between a preemption and the end of the job, in the queue that production has
    grace_s: float = 0.0
    #: the number of runs side by side, by a job's workers
    lanes: Callable[[int], int] = lambda _: 1
    #: the backend of a local Ray cluster for the runs with faults, compared with clean runs there;
    #: without a limit they are of a sample, the places that an answer needs
    ray: Backend | None = None
    #: lanes of a running cluster for them; each is checked by a clean run before it is used
    spread: Spread | None = None
    #: the threads of each process, which the plan has been given
    threads: Threads | None = None
    #: the last audit of the same job, which this one continues
    earlier: EarlierAudit | None = None
    _runs: list[RunRow] = field(default_factory=list, init=False)
    _kept: dict[tuple[Defect, ...], RunRow] = field(default_factory=dict, init=False)
    #: the runs that hung, in the order in which they were made
    _hung: list[RunRow] = field(default_factory=list, init=False)
    _looks: Looks = field(init=False)
    _continued: Continuation | None = field(default=None, init=False)

    def run(self) -> Card:
        """Audit the job; return the card, which is in the folder as well.

        Raises `JobError` if the job fails without a fault. If the audit is broken off,
        the card of the runs so far is written.
        """
        start = self.clock.now_ns()
        clean_runs = CleanRuns(self.backend, self.folder, self.clock, self.show)
        clean, retries = self._without_faults(clean_runs)
        self._looks = Looks(clean, clean_runs)
        basis = basis_of(clean, retries=self.retries)
        clean = self._continue(clean, basis)
        queue = self._queue(clean)
        with ExitStack() as stack:
            opened = self._open(stack, clean, queue, clean_runs)
            spent_s, due = seconds_since(start, self.clock), (queue.needed, queue.places_needed)
            minimum = Minimum(*due, spent_s, each_s=clean.each_s, lanes=len(opened.backends))
            fits = minimum.fits(self.budget)
            queue.begin(with_telling=not fits)
            few = minimum.notes(self.budget, self.command, queue.groups)
            threads = self._describe_threads(clean, opened)
            clean = replace(clean, notes=(*clean.notes, *opened.notes, *threads, *few))
            self.tell((*clean.notes, *minimum.foretold(self.budget)))
            writer = CardWriter(
                clean, queue, self.folder, self.choice.seed, self.command, retries, basis
            )
            ended: Ended = "interrupted"
            try:
                ended = self._inject_all(clean, queue, start, opened, stack, fits=fits)
            finally:
                card = self._card(writer, queue, start, ended)
        return self._confirmed(self._explained(card, writer, clean, start), writer, clean)

    # -- inside ----------------------------------------------------------------------------

    def _without_faults(self, means: CleanRuns) -> tuple[Clean, Retries]:
        """Return the clean runs, and what one fault under the job's own retries has shown."""
        clean = means.run(self.plan, follows_script=self.follows_script)
        clean, retries = begun_again(clean, means, seed=self.choice.seed, asked=self.retries)
        if not any(map(needs_nodes, self.choice.groups)):
            clean = replace(clean, profile=clean.profile.on_nodes_that_stay())
        profile = replace(clean.profile, grace_s=self.grace_s)
        clean = replace(clean, profile=profile, notes=(*clean.notes, *without_grace(profile)))
        if self.ray is not None:
            clean = means.on(self.ray, clean, on_ray(clean.plan))
        if self.spread is not None:
            _refuse_elsewhere(clean)
        return clean, retries

    def _describe_threads(self, clean: Clean, opened: Opened) -> Iterator[Note]:
        if self.threads is not None:
            lanes, workers = len(opened.backends), clean.plan.job.workers
            yield note(self.threads.describe(lanes=lanes, workers=workers))

    def _continue(self, clean: Clean, basis: str) -> Clean:
        """Look back at the last audit, if there is one; return the clean runs with a note."""
        if self.earlier is None:
            return clean
        self._continued = Continuation.of(self.earlier, clean, basis=basis)
        return replace(clean, notes=(*clean.notes, self._continued.note))

    def _queue(self, clean: Clean) -> Queue:
        # If reports come by the clock, and steps differ as well, no two runs share a place.
        apart = clean.repetition.reports_apart is not None and not clean.repetition.is_by_steps
        return Queue(
            clean.profile,
            (lambda _: ()) if apart else self._places,
            self.choice.question,
            self.choice.seed,
            # Only where a job repeats itself exactly: else a difference in a run could be of any of
            # its faults, or of none. And only where nothing bounds the faults of a run: a script
            # that begins again by itself does so after `most_faults` of them.
            may_chain=clean.repetition.is_exact
            and not self.choice.one_by_one
            and clean.profile.most_faults is None,
            singles=0 if self.ray is not None else PARTS,
            known=NOTHING_KNOWN if self._continued is None else self._continued.known,
        )

    def _card(self, writer: CardWriter, queue: Queue, start: int, ended: Ended) -> Card:
        self._runs += queue.left()
        self._runs.sort(key=lambda row: row.number)
        runs, since = [*queue.known.kept, *self._runs], None
        if self._continued is not None:
            since = self._continued.since(self._runs, queue)
        seconds = seconds_since(start, self.clock)
        writer = replace(writer, clean=replace(writer.clean, baseline=self._looks.baseline))
        # After a hang the audit ends where another one does not fit into what is left of its time.
        until_s = seconds + (self._hung_s if ended == "budget" else 0.0)
        limit = self.budget.named(seconds=until_s, runs=queue.taken, wrong=self._wrong)
        writer = replace(writer, since=since)
        card = writer.card(runs, ended=ended, seconds=seconds, limit=limit)
        examples = {finding.smallest.number for finding in card.findings}
        for row in self._kept.values():
            if row.number not in examples:
                self.folder.prune(self.folder.run(row.number))
        return card

    def _places(self, profile: JobProfile) -> tuple[FaultPlace, ...]:
        choice, continued = self.choice, self._continued
        every = kill_map(
            profile,
            seed=choice.seed,
            exhaustive=choice.exhaustive,
            # Beyond those that were tried and right, a sample has as many as without them.
            limit=choice.limit + (len(continued.right) if continued else 0),
            choose=choice.groups,
        )
        if self.ray is not None and not choice.exhaustive and self.budget == UNLIMITED:
            every = in_order(every, profile, question=choice.question, seed=choice.seed).needed
        if continued is None:
            return every
        known = [place for place in continued.places(profile) if place.group in choice.groups]
        return tuple(dict.fromkeys((*every, *known)))

    def _open(self, stack: ExitStack, clean: Clean, queue: Queue, means: CleanRuns) -> Opened:
        """Open a lane for each of the runs at a time; `stack` ends them."""
        if self.ray is not None:
            return Opened([self.ray])
        workers = clean.plan.job.workers
        if self.spread is not None:
            check = partial(means.check, clean)
            return Opened(stack.enter_context(self.spread(workers, len(queue.places), check)))
        count = self.lanes(workers)
        if clean.shares_files:
            count = min(count, len(queue.places))
        if clean.shares_files and count > 1:
            try:
                apart = lanes_apart(stack, self.backend, clean, self.folder.path, count)
                return Opened(apart, has_views=True)
            except NoViewError as error:
                return Opened([self.backend], notes=(one_at_a_time(str(error)),))
        more = range(count - 1)
        return Opened([self.backend, *(stack.enter_context(self.backend.beside()) for _ in more)])

    def _inject_all(
        self,
        clean: Clean,
        queue: Queue,
        start: int,
        opened: Opened,
        stack: ExitStack,
        *,
        fits: bool,
    ) -> Ended:
        first = self.clock.now_ns()
        doubted = list[tuple[Run, tuple[RunRow, ...]]]()  # they did not pass in a view

        def work(backend: Backend, run: Run) -> tuple[Run, tuple[RunRow, ...]]:
            return run, self._inject(backend, clean, run)

        def work_in_view(backend: Backend, run: Run) -> tuple[Run, tuple[RunRow, ...]]:
            with suppress(ChaosError):  # of the view, or raised again without it
                return work(backend, run)
            return run, ()

        runs = self._next_runs(queue, start, first, fits=fits)
        undoubted = _until(lambda: bool(doubted), runs)
        first_work = work_in_view if opened.has_views else work
        for run, rows in side_by_side(first_work, undoubted, opened.backends):
            if opened.has_views and not (rows and all(row.is_right for row in rows)):
                doubted.append((run, rows))
            else:
                self._learn(queue, run, rows)
                self._show_hang(queue, start, first, rows)
        if doubted:
            # A view differs from a plain folder, which a right job may notice. So only a pass in a
            # view counts. All others are run again without, and the rest as well, since a run
            # without a view is seen in every view.
            stack.close()
            self._looks.may_come_again()
            again = self._doubted_runs(queue, doubted, start)
            for run, rows in side_by_side(work, chain(again, runs), [self.backend]):
                self._learn(queue, run, rows)
                self._show_hang(queue, start, first, rows)
        self._show(queue, start, first)
        return "all" if queue.is_empty else "budget"

    def _doubted_runs(
        self, queue: Queue, doubted: Sequence[tuple[Run, tuple[RunRow, ...]]], start: int
    ) -> Iterator[Run]:
        """Yield the runs in views that are to be made again without.

        One that hung like a run without a view is taken as it is. When a
        run has hung, and there is no time for others, they count as not tried.
        """
        for run, rows in doubted:
            if rows and rows[0].is_hung and self._has_hung_alike(rows[0]):
                self._learn(queue, run, rows)
                continue
            shutil.rmtree(self.folder.run(run[0]).path, ignore_errors=True)
            if self._hung_s and self._is_spent(queue, start, for_minimum=False):
                queue.put_back(run[1])
                continue
            yield run

    def _has_hung_alike(self, row: RunRow) -> bool:
        return any(known.is_hung and known.defects == row.defects for known in self._hung)

    @property
    def _hung_s(self) -> float:
        return max((row.seconds for row in self._hung), default=0.0)

    def _is_spent(self, queue: Queue, start: int, *, for_minimum: bool) -> bool:
        return self.budget.is_spent(
            seconds=seconds_since(start, self.clock),
            runs=0 if queue.has_doubt else queue.taken,
            begun=queue.taken,
            wrong=max(self._wrong, len(self._hung)),
            for_minimum=for_minimum,
            hung_s=self._hung_s,
        )

    def _show_hang(self, queue: Queue, start: int, first: int, rows: Sequence[RunRow]) -> None:
        """Show a run that hung at once, before its places are tried one by one."""
        if rows and rows[0].is_hung:
            self._hung.append(rows[0])
            self._show(queue, start, first, last=rows[0])

    def _next_runs(
        self, queue: Queue, start: int, first: int, *, fits: bool
    ) -> Iterator[Run | None]:
        while not queue.is_empty or queue.is_waiting:
            self._show(queue, start, first)
            is_spent = self._is_spent(queue, start, for_minimum=fits and queue.is_due)
            if is_spent and not queue.is_waiting:
                return
            # None is no end: a run under way may give its places back, or show new ones (a job
            # whose ranks load a file only after a fault), and a free lane waits for it.
            most = None if self.budget.runs is None else self.budget.runs - queue.taken
            yield None if is_spent or queue.is_empty else queue.take(most)

    def _learn(self, queue: Queue, run: Run, rows: Sequence[RunRow]) -> None:
        number, places = run
        stands = queue.learn(places, rows)
        if all(row.number != number for row in stands):  # held back: it may be a finding
            self.folder.prune(self.folder.run(number), keep_logs=not stands)
        for row in stands:
            self._settle(row)

    @property
    def _wrong(self) -> int:
        return sum(row.is_wrong for row in self._runs)

    def _settle(self, row: RunRow) -> None:
        self._runs.append(row)
        directory = self.folder.run(row.number)
        keep_logs = self._may_be_an_example(row) or row.is_combined
        self.folder.prune(directory, keep_logs=keep_logs)

    def _show(self, queue: Queue, start: int, first: int, *, last: RunRow | None = None) -> None:
        # Places, and not tries: a run of several places that came out wrong is tried again.
        done = sum(not row.is_combined for row in self._runs)
        pace = Pace(
            done=done,
            known=len(queue.places),
            needed=queue.places_needed + queue.taken - done,
            is_due=queue.is_due,
            spent_s=seconds_since(start, self.clock),
            runs_s=seconds_since(first, self.clock),
        )
        total = pace.total(self.budget)
        progress = AuditProgress(
            FAULTS,
            done,
            done if queue.is_empty and not queue.is_waiting else total,
            pace.left_s(self.budget),
            last or (self._runs[-1] if self._runs else None),
            self._wrong,
            pace.spent_s,
            self.budget.seconds if total is None else None,
        )
        self.show(progress)

    def _inject(self, backend: Backend, clean: Clean, run: Run) -> tuple[RunRow, ...]:
        """Execute one run with faults; only its rows stay in memory."""
        number, places = run
        plan = plan_of(clean.plan, joined(places), clean.profile)
        if self.ray is not None:
            plan = on_ray(plan)
        directory = self.folder.new_run("runs", number, plan)
        judged = self._judged(backend, plan, directory, run)
        # A restart may go on from a step at which the baseline's state was not looked at. One more
        # clean run is looked at everywhere then, once for all, and this run is judged anew by it.
        if judged.lacks_looks and self._looks.have_come(backend):
            means = directory, plan, directory.load_history(), self._looks.baseline
            return run_rows(*run, self.folder.judge(*means, seconds=judged.seconds))
        return judged.rows

    def _judged(self, backend: Backend, plan: Plan, directory: RunDirectory, run: Run) -> JudgedRun:
        """Execute a run, and judge it where it was executed."""
        baseline = self._looks.baseline
        if not isinstance(backend, JudgingBackend):
            return JudgedRun.of(
                run, self.folder.execute(backend, plan, directory, baseline, self.clock)
            )
        with room_in(directory):
            runner.prepare(plan, directory, baseline)
            judged = backend.judged(directory, judged_there, baseline, (run, judges()))
        if judged.harm is not None:
            raise judged.harm
        return judged

    def _may_be_an_example(self, row: RunRow) -> bool:
        """Return whether a run is the smallest of its defects so far; drop the one before."""
        if row.status != "fail":
            return False
        before = self._kept.get(row.defects)
        if before is not None and size(before) < size(row):
            return False
        if before is not None:
            self.folder.prune(self.folder.run(before.number))
        self._kept[row.defects] = row
        return True

    def _explained(self, card: Card, writer: CardWriter, clean: Clean, start: int) -> Card:
        """Look for the causes that no check names, by giving values back, in a part of the time.

        Returns the card with what that has shown.
        """
        if not self.explains:
            return card
        total = max(1, len(card.findings))
        spent_s = seconds_since(start, self.clock)
        trials_s = self.budget.trials_s(spent_s=spent_s, each_s=clean.each_s)
        has_limit = trials_s is not None
        if trials_s is None:
            trials_s = EXPLAINING * card.seconds
        trials = CauseTrials(
            self.backend,
            self.clock,
            self.folder,
            self._looks.baseline,
            card.runs,
            ends_ns=self.clock.now_ns() + 1e9 * trials_s,
            least=0 if has_limit else EXPLAINED_IN,
            show=lambda number: self.show(AuditProgress(EXPLANATION, number, total)),
        )
        rows = trials.no_longer_accepted()
        if rows != card.runs:
            card = writer.card(rows, ended=card.ended, seconds=card.seconds, limit=card.limit)
        found, notes = trials.judge(card.findings)
        if trials.untried and has_limit:
            notes = (*notes, self._too_little_time(trials.untried))
        if found == list(card.findings) and not notes:
            return card
        return self._with(found, card.model_copy(update={"notes": (*card.notes, *notes)}), writer)

    def _too_little_time(self, untried: int) -> Note:
        """Describe the findings whose cause was not proven before the time limit."""
        longer = with_time_limit(self.command, 2 * math.ceil(self.budget.seconds or 0))
        return note(
            f"the time limit ended before the cause of {plural(untried, 'finding')} could be "
            f"proven; with twice the time: `{longer}`"
        )

    def _with(self, found: Sequence[Finding], card: Card, writer: CardWriter) -> Card:
        one_each = united(found, card.runs)
        for repro in {f.repro for f in card.findings}.difference(one.repro for one in one_each):
            (self.folder.path / repro).unlink(missing_ok=True)
        card = card.model_copy(update={"findings": one_each})
        writer.write(card)
        return card

    def _confirmed(self, card: Card, writer: CardWriter, clean: Clean) -> Card:
        """Run each finding's reproduction by `confirm`; return the card with the results."""
        if self.confirm is None or not card.findings:
            return card
        if not clean.stays_inside:  # there, nothing keeps it from overwriting the user's files
            card = card.model_copy(update={"notes": (*card.notes, UNCONFIRMED)})
            writer.write(card)
            return card
        found, total = list(card.findings), len(card.findings)
        for number, finding in enumerate(card.findings):
            progress = AuditProgress(CONFIRMATION, number, total)
            show = of_one_run(progress, self.show, self.clock, first="starting Ray")
            file, cwd = self.folder.path / finding.repro, Path(self.plan.cwd)
            confirm = partial(self.confirm, show=show)
            seen = confirmation(file, confirm, seed=self.plan.seed, cwd=cwd)
            found[number] = finding.model_copy(update={"confirmation": seen})
            card = card.model_copy(update={"findings": tuple(found)})
            writer.write(card)
        return card
