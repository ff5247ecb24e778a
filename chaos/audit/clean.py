"""The runs in which nothing is done to the job: what all strikes are planned from and judged by."""

from dataclasses import dataclass
from pathlib import Path

from chaos.audit.base import with_own_workers
from chaos.audit.budget import Progress, ShowProgress
from chaos.audit.extent import Extent, extent
from chaos.audit.folder import AuditFolder
from chaos.audit.note import Note, notes
from chaos.audit.repetition import Repetition, hidden_part, repetition
from chaos.check.band import RUNS_MIN
from chaos.check.habits import habits
from chaos.check.trial import Course
from chaos.errors import JobError
from chaos.job_failure import why_the_job_failed
from chaos.model.event import DeadlinePassed, FitCalled
from chaos.model.history import Baseline, History
from chaos.model.plan import Plan
from chaos.model.scenario import Profile
from chaos.report.outcome import FinishedRun
from chaos.run.clock import Clock
from chaos.run.directory import RunDirectory
from chaos.run.ports import Backend, ScriptBackend

CLEAN_RUNS = 2
BAND: Profile = "standard"


@dataclass(frozen=True)
class Clean:
    """What the clean runs showed; `baseline` is the first of them, and all where they differ.

    The baseline is of the start of the script that strikes go on from.
    """

    plan: Plan
    extent: Extent
    baseline: Baseline
    repetition: Repetition
    notes: tuple[Note, ...]


@dataclass(frozen=True)
class CleanRuns:
    """Runs a job twice with nothing done to it, and more often where it does not repeat itself.

    The second run is of a second start of the script. Where it is not as the
    first, a third one of the first start says whether only the start differs.
    """

    backend: ScriptBackend
    folder: AuditFolder
    clock: Clock
    show: ShowProgress

    def run(self, plan: Plan, *, follows_script: bool) -> Clean:
        """Give what these runs show, with as many workers as the script asks for.

        Raises `JobError` where the job does not even come through them.
        """
        first, number = self._run(plan, 1), 2
        own = with_own_workers(plan, extent(first.history)) if follows_script else plan
        if own != plan:
            plan, first, number = own, self._run(own, 2), 3
        other, stuck = self._start_again(plan, number)
        alike, again = [first.history], repetition(first.history, other or first.history)
        remarks = [stuck] if stuck else []
        if other is None or again.differs:
            number += 1
            alike.append(self._run(plan, number, of=CLEAN_RUNS + 1).history)
            within = repetition(*alike)
            if again.differs and not within.differs:
                remarks.append(starts_apart(again))
            again = within
        if again.losses_differing:
            more = range(number + 1, number + 1 + RUNS_MIN - len(alike))
            alike += [self._run(plan, n, of=RUNS_MIN + 1).history for n in more]
            again = again.model_copy(update={"hidden_part": hidden_part(BAND, alike)})
        baseline = Baseline(alike if again.losses_differing else alike[:1])
        self.folder.save_baseline(baseline)
        seen = extent(first.history)
        names = [name for run in (first.history, other) if run and (name := _own_name(run))]
        # What differs between clean runs is nothing that a strike could be blamed for: a band
        # says how far, and without one a metric that differs is left out.
        known = {"ignore_metrics": again.metrics_differing}
        expect = plan.expect.model_copy(update={"band": BAND} if again.losses_differing else known)
        return Clean(
            plan=plan.model_copy(update={"expect": expect}),
            extent=seen,
            baseline=baseline,
            repetition=again,
            notes=(
                *notes(seen, names=names, habits=habits(Course(first.history).lineage)),
                *remarks,
            ),
        )

    def _start_again(self, plan: Plan, number: int) -> tuple[History | None, Note | None]:
        """Run the job from a second start of its script, or note that there can be none."""
        with self.backend.afresh() as another:
            directory, run = self._execute(another, plan, number, of=CLEAN_RUNS)
        if any(run.history.of(FitCalled)):
            return self._required(directory, run).history, None
        return None, cannot_start_again(why_the_job_failed(plan, run, log=directory.logs).problem)

    def _run(self, plan: Plan, number: int, *, of: int = CLEAN_RUNS) -> FinishedRun:
        return self._required(*self._execute(self.backend, plan, number, of=of))

    def _execute(
        self, backend: Backend, plan: Plan, number: int, *, of: int
    ) -> tuple[RunDirectory, FinishedRun]:
        self.show(Progress("clean runs", min(number, of) - 1, of))
        alone = plan.baseline()
        directory = self.folder.new_run("clean", number, alone)
        return directory, self.folder.execute(backend, alone, directory, None, self.clock)

    def _required(self, directory: RunDirectory, run: FinishedRun) -> FinishedRun:
        """Give a run that came through, or raise `JobError`."""
        if any(run.history.of(DeadlinePassed)):
            raise too_long(run.plan)
        if run.verdict.validity != "valid":
            raise why_the_job_failed(run.plan, run, log=directory.logs / "driver.log")
        self.folder.prune(directory)
        return run


def cannot_start_again(problem: str) -> Note:
    """Give the note on a script that does not come to its `fit()` when it is started again."""
    return Note(
        kind="warning",
        text=(
            f"started a second time, {problem.removeprefix('the job ')}; where the machine that "
            "the script runs on is lost, it cannot be started again as it is"
        ),
    )


def starts_apart(apart: Repetition) -> Note:
    """Give the note on a script of which two starts differ, and two runs of one start do not."""
    return Note(
        kind="warning",
        text=(
            "the script itself draws something that nothing seeds, before its fit(): two runs of "
            f"one start are alike, two starts are not ({apart.first or apart.inputs_apart}); a "
            "script that is started again, after the loss of its machine, trains on with other data"
        ),
    )


def too_long(plan: Plan) -> JobError:
    """Give the error for a job that is too long to be struck at many places."""
    return JobError(
        f"the job {Path(plan.job.source).name} was still running after {plan.limits.run_s:g} s "
        "with nothing done to it, and every strike is a run of its own",
        "Audit it with fewer epochs or less data: the script's own arguments follow after --.",
        place=plan.file,
    )


def _own_name(history: History) -> str | None:
    """Give the run name that the script configured; chaos puts its own in its place."""
    called = next((event for _, event in history.of(FitCalled)), None)
    name = None if called is None else called.replaced.get("name")
    return None if name is None else str(name)
