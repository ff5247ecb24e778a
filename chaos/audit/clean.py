"""The runs in which nothing is done to the job: what all strikes are planned from and judged by."""

from dataclasses import dataclass

from chaos.audit.base import with_own_workers
from chaos.audit.budget import Progress, ShowProgress
from chaos.audit.extent import Extent, extent
from chaos.audit.folder import AuditFolder
from chaos.audit.note import Note, notes
from chaos.audit.repetition import Repetition, hidden_part, repetition
from chaos.check.band import RUNS_MIN
from chaos.check.habits import habits
from chaos.check.trial import Course
from chaos.job_failure import why_the_job_failed
from chaos.model.event import FitCalled
from chaos.model.history import Baseline, History
from chaos.model.plan import Plan
from chaos.model.scenario import Profile
from chaos.report.outcome import FinishedRun
from chaos.run.clock import Clock
from chaos.run.ports import Backend

CLEAN_RUNS = 2
BAND: Profile = "standard"


@dataclass(frozen=True)
class Clean:
    """What the clean runs showed; `baseline` is the first of them, and all where they differ."""

    plan: Plan
    extent: Extent
    baseline: Baseline
    repetition: Repetition
    notes: tuple[Note, ...]


@dataclass(frozen=True)
class CleanRuns:
    """Runs a job twice with nothing done to it, and more often where it does not repeat itself."""

    backend: Backend
    folder: AuditFolder
    clock: Clock
    show: ShowProgress

    def run(self, plan: Plan, *, follows_script: bool) -> Clean:
        """Give what two runs show, with as many workers as the script asks for.

        Raises `JobError` where the job does not even come through these.
        """
        first, number = self._run(plan, 1), 2
        own = with_own_workers(plan, extent(first.history)) if follows_script else plan
        if own != plan:
            plan, first, number = own, self._run(own, 2), 3
        runs = [first.history, self._run(plan, number).history]
        again = repetition(*runs)
        if again.losses_differing:
            more = range(number + 1, number + 1 + RUNS_MIN - len(runs))
            runs += [self._run(plan, n, of=RUNS_MIN).history for n in more]
            again = again.model_copy(update={"hidden_part": hidden_part(BAND, runs)})
        baseline = Baseline(runs if again.losses_differing else runs[:1])
        self.folder.save_baseline(baseline)
        seen = extent(first.history)
        names = [name for run in runs if (name := _own_name(run))]
        # What differs between clean runs is nothing that a strike could be blamed for: a band
        # says how far, and without one a metric that differs is left out.
        known = {"ignore_metrics": again.metrics_differing}
        expect = plan.expect.model_copy(update={"band": BAND} if again.losses_differing else known)
        return Clean(
            plan=plan.model_copy(update={"expect": expect}),
            extent=seen,
            baseline=baseline,
            repetition=again,
            notes=notes(seen, names=names, habits=habits(Course(first.history).lineage)),
        )

    def _run(self, plan: Plan, number: int, *, of: int = CLEAN_RUNS) -> FinishedRun:
        self.show(Progress("clean runs", min(number, of) - 1, of))
        alone = plan.baseline()
        directory = self.folder.new_run("clean", number, alone)
        run = self.folder.execute(self.backend, alone, directory, None, self.clock)
        if run.verdict.validity != "valid":
            raise why_the_job_failed(plan, run, log=directory.logs / "driver.log")
        self.folder.prune(directory)
        return run


def _own_name(history: History) -> str | None:
    """Give the run name that the script configured; chaos puts its own in its place."""
    called = next((event for _, event in history.of(FitCalled)), None)
    name = None if called is None else called.replaced.get("name")
    return None if name is None else str(name)
