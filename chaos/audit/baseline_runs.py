"""The runs without faults: the baseline of every run with one, and the source of the places."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from chaos.audit.budget import AuditProgress, ShowProgress, of_one_run
from chaos.audit.determinism import Repetition, hidden_part, made_by_the_first, repetition
from chaos.audit.folder import AuditFolder
from chaos.audit.job_profile import JobProfile, job_profile, shared
from chaos.audit.notes import (
    Note,
    by_the_clock,
    cannot_start_again,
    hashes_apart,
    in_passing,
    made_once,
    notes,
    resuming_option,
    starts_apart,
    uncompared,
    warning,
)
from chaos.audit.plans import with_own_workers
from chaos.audit.recoveries import recovery_lines
from chaos.check.analysis import RunTables
from chaos.check.data_warnings import data_warnings
from chaos.check.file_contents import unequal_files
from chaos.check.prediction_band import RUNS_MIN
from chaos.check.regrid import relaid
from chaos.check.storage import shared_file_warnings
from chaos.check.time_limits import with_idle_limit
from chaos.errors import ClusterError, JobError, UsageError
from chaos.job_failure import (
    refuse_jobs_apart,
    refuse_unwatched_files,
    stood_still,
    too_long,
    why_the_job_failed,
)
from chaos.model.arguments import command_line
from chaos.model.event import DeadlinePassed, FileWritten, FitCalled, WroteOutside
from chaos.model.history import Baseline, History
from chaos.model.plan import Plan
from chaos.model.scenario import Job, Profile
from chaos.report.outcome import FinishedRun
from chaos.run.clock import Clock
from chaos.run.directory import RunDirectory
from chaos.run.job_code import digest_job_code
from chaos.run.ports import Backend, ScriptBackend
from chaos.run.shown import shown

# Two show whether a job repeats itself; one that does not needs `RUNS_MIN` for a band.
CLEAN_RUNS = 2
STAGE = "clean run"
BAND: Profile = "standard"
EPOCHS_BY_STEPS = 5  # of a job whose saves come by the clock: an early, a late, three in between


@dataclass(frozen=True)
class Clean:
    """The result of the clean runs."""

    plan: Plan
    #: the part of `shown` that all runs share
    profile: JobProfile
    #: the profile of the first run; of a job that torchrun starts, of the baseline
    shown: JobProfile
    #: the first of them, of the start of the script from which runs with faults are forked, and one
    #: that equals it. If they differ, all of them; if only reports come at other steps, first one
    #: more, whose state was watched at every step
    baseline: Baseline
    repetition: Repetition
    notes: tuple[Note, ...]
    #: the time of a clean run from its `fit()` on
    work_s: float = 0.0
    #: the place at which a start with another hash seed got other data
    hashes_apart: str | None = None
    #: the lines of the job, `train.py:83`, that train on after an exception
    recoveries: tuple[str, ...] = ()

    @property
    def each_s(self) -> float:
        """The time of a run, with a wait for the next attempt."""
        return self.work_s + self.profile.facts.requeue_s

    @property
    def stays_inside(self) -> bool:
        """Whether the job, on a cluster as well, writes only to its run's folder."""
        confined, stored = self.plan.confined, str(self.profile.replaced.get("storage_path"))
        is_elsewhere = (
            "://" in stored or self.profile.replaced.get("storage_filesystem") is not None
        )
        is_allowed = confined is None or confined.keeps_storage
        return not self.shares_files and (is_allowed or not is_elsewhere)

    @property
    def shares_files(self) -> bool:
        """Whether runs side by side would see each other's files, by their absolute paths."""
        outside = {wrote.path: wrote.removed for _, wrote in self.baseline.of(WroteOutside)}
        compared = {file.path for _, file in self.baseline.of(FileWritten)}
        return any(outside.values()) or not compared.isdisjoint(outside)


@dataclass(frozen=True)
class CleanRuns:
    """Two runs of a job without faults, and more if it does not repeat itself.

    The second run is of a second start of the script, with another hash seed. If it
    differs from the first, a third run, of the first start, shows whether only the start
    differs, and one of a start with the same hash seed shows whether the seed is why.
    """

    backend: ScriptBackend
    folder: AuditFolder
    clock: Clock
    show: ShowProgress
    _lanes: Iterator[int] = field(default_factory=lambda: count(1))

    def run(self, plan: Plan, *, follows_script: bool) -> Clean:
        """Return the result of these runs, with as many workers as the script asks for.

        Raises `JobError` if the job fails in one of them.
        """
        with self.backend.afresh(other_hashes=plan) as another:
            guess = plan.model_copy(update={"follows_script": follows_script})
            first, number = self._run(guess, 1), 2
            own = with_own_workers(plan, job_profile(first.history), keeps_count=not follows_script)
            if own != plan:
                plan, first, number = own, self._run(own, 2), 3
            other, stuck = self._start_again(another, plan, number)
        seen = _Starts(plan, first, other, [stuck] if stuck else [], number)
        self._compare(seen)
        thorough = self._thorough(seen)
        compared, alike = seen.repetition, seen.alike
        needs_band = compared.losses_differing and plan.expect.loss_tolerance is None
        if needs_band:
            more = range(seen.number + 1, seen.number + 1 + RUNS_MIN - len(alike))
            alike += [self._run(plan, n, of=RUNS_MIN + 1).history for n in more]
            compared = compared.model_copy(update={"hidden_part": hidden_part(BAND, alike)})
        # In every run with a fault, a file of the very end is written after the fault: only
        # another clean run shows that the file repeats itself.
        runs = alike if needs_band else [*alike[:1], *seen.proof]
        baseline = Baseline(runs if thorough is None else [thorough, *seen.clean])
        self.folder.save_baseline(baseline)
        # A difference between clean runs is not due to a fault: with a band it is a tolerance,
        # and without one a metric that differs is left out.
        known = {"ignore_metrics": compared.metrics_differing}
        expect = seen.plan.expect.model_copy(update={"band": BAND} if needs_band else known)
        clean = (
            seen.laid_on(thorough) if thorough and compared.is_by_steps else [seen.first.history]
        )
        shown = job_profile(
            clean[0] if seen.counts_steps else seen.first.history,
            ignore=compared.metrics_differing,
            again=runs,
            plan=seen.plan,
        )
        relied = seen.relied(clean) if compared.is_by_steps else shown
        return Clean(
            plan=with_idle_limit(seen.plan.model_copy(update={"expect": expect}), baseline),
            profile=relied,
            shown=shown,
            baseline=baseline,
            repetition=compared,
            notes=(*self._notes(seen, shown, compared), *by_the_clock(relied, seen.plan, compared)),
            work_s=min(_work_s(history) for history in alike),
            hashes_apart=seen.hashes_apart,
            recoveries=tuple(_recoveries(seen.plan)),
        )

    def on(self, backend: Backend, clean: Clean, plan: Plan) -> Clean:
        """Return clean runs with those of the same job on another backend as the baseline.

        Raises `UsageError` for a job that could overwrite the user's files there, or that does
        not repeat itself there although it does here.
        """
        if not clean.stays_inside:
            raise UsageError(
                "the job writes outside of its run's folder, or to a bucket, from which nothing "
                "keeps it on a cluster",
                "Audit it on the embedded backend, or have it write below its storage path.",
                place="--backend",
            )
        wanted = CLEAN_RUNS if plan.expect.band is None else RUNS_MIN
        made = len([*(self.folder.path / "clean").iterdir()])
        numbers = range(made + 1, made + 1 + wanted)
        executed = (self._execute(backend, plan, n, of=numbers.stop - 1) for n in numbers)
        runs = [self._required(*run).history for run in executed]
        compared, expect = clean.repetition, plan.expect
        if expect.band is None and not compared.is_by_steps:
            compared = repetition(*runs)
            if compared.differs and expect.loss_tolerance is None:
                raise UsageError(
                    f"the job repeats itself without a cluster, and not on one: {compared}",
                    "Seed what it draws, or give --tolerance.",
                    place="--backend",
                )
            known = {*expect.ignore_metrics, *compared.metrics_differing}
            expect = expect.model_copy(update={"ignore_metrics": tuple(sorted(known))})
        baseline = Baseline(runs)
        self.folder.save_baseline(baseline)
        limits = plan.limits.model_copy(update={"idle_s": None})  # the one here is no measure there
        plan = plan.model_copy(update={"expect": expect, "limits": limits})
        return replace(
            clean,
            plan=with_idle_limit(plan, baseline),
            baseline=baseline,
            repetition=compared,
            work_s=min(_work_s(history) for history in runs),
        )

    def looked_at_every_step(self, clean: Clean, backend: Backend) -> Baseline | None:
        """Return the baseline with one more run, in which the state of every step was looked at.

        A restart of a job that saves when it is given notice may go on from any. None if the run
        fails, or is another one than the baseline.
        """
        plan = _watched_at_every_step(clean.plan)
        number = 1 + len([*(self.folder.path / "clean").iterdir()])
        # It only adds evidence, so nothing of it may end the audit or replace the baseline: it
        # fails (for the time that looking takes, say), or computes otherwise when it is looked at.
        try:
            history = self._required(*self._execute(backend, plan, number, of=number)).history
        except JobError:
            return None
        if not _is_equal(clean.baseline, history):
            return None
        baseline = Baseline([history, *clean.baseline.runs])
        self.folder.save_baseline(baseline)
        return baseline

    def check(self, clean: Clean, lane: Backend) -> None:
        """Make a clean run on a lane of a cluster; raises `ClusterError` if it is another one."""
        alone = clean.plan.baseline()
        directory = self.folder.new_run("lanes", next(self._lanes), alone)
        run = self.folder.execute(lane, alone, directory, None, self.clock)
        compared = repetition(clean.baseline, self._required(directory, run).history)
        if not compared.is_exact:
            raise ClusterError(
                f"a node of the cluster computes otherwise than this machine: {compared}",
                "Give a cluster whose nodes are like this one: processors, packages, data.",
            )

    def _compare(self, seen: "_Starts") -> None:
        """Compare two starts, and refuse a job of which a run may go on from the one before."""
        first, other = seen.first.history, [seen.other] if seen.other else []
        self._compare_starts(seen)
        refuse_unwatched_files(seen.plan, first, [*seen.clean, *other])

    def _compare_starts(self, seen: "_Starts") -> None:
        """Compare two starts; if they differ, run the first start once more, and compare those.

        If these differ as well, and the first run of all made files that all others find, it is
        left out: a job draws other numbers while it makes a cache than when it reads it.
        """
        # Two starts of the script that differ have one of three reasons, and a third run tells
        # which. It is of the first start:
        #
        #   equal to the first run       the starts differ: something was drawn before `fit()`, or
        #                                by the hash seed (`_tell_starts_apart`)
        #   unequal, and the first one   the first run of all made a cache which the others read; it
        #   of all has made files        is left out, and the comparison begins again without it
        #   unequal                      the job does not repeat itself, and is judged by a band
        #
        # Faults are injected into forks of the first start, so it must be among what is compared.
        compared = repetition(seen.first.history, seen.other or seen.first.history)
        if seen.other is not None and compared.is_settled:
            seen.proof.append(seen.other)
            seen.repetition = compared
            return
        seen.number += 1
        once_more = self._run(seen.plan, seen.number, of=CLEAN_RUNS + 1)
        within = repetition(seen.first.history, once_more.history)
        made = made_by_the_first(seen.first.history, once_more.history)
        if made and not within.is_settled:
            seen.first, seen.alike = once_more, [once_more.history]
            self._compare_starts(seen)
            seen.remarks += [made_once(made)] if seen.repetition.is_alike else []
            return
        seen.alike.append(once_more.history)
        if not compared.is_alike and within.is_alike:
            self._tell_starts_apart(seen, compared)
        seen.repetition = within

    def _thorough(self, seen: "_Starts") -> History | None:
        """Return one more clean run that is watched at every step, if a restart may begin at any.

        Where saves by the clock end the epochs, this run has epochs of a number of steps, and so
        have all after it. A job of which no save was seen may keep its state where none is seen.
        """
        plan = seen.plan
        if seen.repetition.is_by_steps:
            expect = plan.expect.model_copy(update={"align": "steps"})
            plan = plan.model_copy(update={"expect": expect, "job": seen.counted()})
        elif seen.repetition.is_exact and not job_profile(seen.first.history).has_saves:
            plan = _watched_at_every_step(plan)
        if plan is seen.plan:
            return None
        seen.number += 1
        history = self._run(plan, seen.number, of=CLEAN_RUNS + 1).history
        if _is_equal(seen.first.history, history):
            seen.plan = plan
            return history
        if seen.repetition.is_by_steps:  # then there is nothing to compare with
            apart = {"inputs_apart": "one more clean run was another one"}
            seen.repetition = seen.repetition.model_copy(update=apart)
        return None

    def _tell_starts_apart(self, seen: "_Starts", apart: Repetition) -> None:
        """Find out why two starts differ, by a third one with the hash seed of the first."""
        seen.number += 1
        with self.backend.afresh() as same:
            third, _ = self._start_again(same, seen.plan, seen.number, of=CLEAN_RUNS + 2)
        where = apart.first or apart.inputs_apart or apart.reports_apart or ""
        if third is not None and repetition(seen.first.history, third).is_alike:
            seen.hashes_apart = where
            seen.remarks.append(hashes_apart(where))
        else:
            seen.remarks.append(starts_apart(where))

    def _notes(self, seen: "_Starts", shown: JobProfile, compared: Repetition) -> tuple[Note, ...]:
        runs = [run for run in (seen.first.history, seen.other) if run]
        apart = [warning(str(compared))] if compared.hides_much else []
        job = seen.plan.job
        source = Path(job.source)
        text = source.read_text(encoding="utf-8", errors="replace") if source.is_file() else ""
        given = (*command_line(job.args), *command_line(job.restart_args))
        resumes = resuming_option(text, source.name, given)
        tables = RunTables(seen.first.history)
        return (
            *notes(
                shown,
                names=[name for run in runs if (name := _own(run, "name"))],
                paths=[path for run in runs if (path := _own(run, "storage_path"))],
                habits=data_warnings(tables.lineage),
            ),
            *map(warning, shared_file_warnings(tables)),
            *seen.remarks,
            *seen.passing,
            *(uncompared(seen.unequal) if compared.is_deterministic else []),
            *apart,
            *([resumes] if resumes else []),
        )

    def _start_again(
        self, backend: Backend, plan: Plan, number: int, *, of: int = CLEAN_RUNS
    ) -> tuple[History | None, Note | None]:
        """Run the job from another start of its script; if that fails, return a note."""
        directory, run = self._execute(backend, plan, number, of=of)
        if any(run.history.of(FitCalled)):
            return self._required(directory, run).history, None
        return None, cannot_start_again(why_the_job_failed(plan, run, log=directory.logs).problem)

    def _run(self, plan: Plan, number: int, *, of: int = CLEAN_RUNS) -> FinishedRun:
        return self._required(*self._execute(self.backend, plan, number, of=of))

    def _execute(
        self, backend: Backend, plan: Plan, number: int, *, of: int
    ) -> tuple[RunDirectory, FinishedRun]:
        alone = plan.baseline()
        directory = self.folder.new_run("clean", number, alone)
        show = of_one_run(AuditProgress(STAGE, min(number, of) - 1, of), self.show, self.clock)
        return directory, self.folder.execute(backend, alone, directory, None, self.clock, show)

    def _required(self, directory: RunDirectory, run: FinishedRun) -> FinishedRun:
        """Return a run that passed; raise `JobError` for any other."""
        if any(run.history.of(DeadlinePassed)):
            raise stood_still(run, directory.logs) or too_long(run)
        refuse_jobs_apart(run)
        if run.verdict.status != "pass":
            raise why_the_job_failed(run.plan, run, log=directory.logs / "driver.log")
        self.folder.prune(directory)
        return run


@dataclass
class _Starts:
    """The clean runs that were compared so far: `alike` are of one start of the script."""

    plan: Plan
    first: FinishedRun
    other: History | None
    remarks: list[Note]
    number: int
    hashes_apart: str | None = None

    def __post_init__(self) -> None:
        self.alike = [self.first.history]
        self.proof: list[History] = []
        self.repetition = repetition(self.first.history, self.first.history)
        self.passing = in_passing(self.first.history)

    @property
    def clean(self) -> list[History]:
        """All of these runs that are alike."""
        return [*self.alike, *self.proof]

    @property
    def counts_steps(self) -> bool:
        """Whether no report ends an epoch, so that steps are counted where saves do not fit."""
        return self.plan.job.facts.lacks_part("reports")

    @property
    def unequal(self) -> Mapping[str, Sequence[str]]:
        """The files that two of these runs left in other states."""
        runs = self.clean
        return unequal_files(RunTables(runs[0]), RunTables(runs[-1])) if len(runs) > 1 else {}

    def counted(self) -> Job:
        """Return the job, with a number of steps as its epoch if its saves end epochs elsewhere."""
        job = self.plan.job
        steps = [job_profile(history).steps for history in self.clean]
        if not self.counts_steps or all(of == steps[0] for of in steps):
            return job
        every = sum(count for (_, rank), count in steps[0].items() if rank == 0)
        return job.model_copy(update={"epoch_steps": -(-every // EPOCHS_BY_STEPS)})

    def laid_on(self, thorough: History) -> list[History]:
        """Return all runs, with the epochs of the last of them where steps are counted."""
        if not self.counts_steps:
            return [thorough, *self.clean]
        return [thorough, *(relaid(history, thorough) for history in self.clean)]

    def relied(self, laid: Sequence[History]) -> JobProfile:
        """Return the places that all of these runs have."""
        return shared([job_profile(history, plan=self.plan) for history in laid])


def _recoveries(plan: Plan) -> Iterator[str]:
    for name in digest_job_code(plan):
        file = Path(name)
        if file.suffix == ".py":
            for number in recovery_lines(file.read_text(encoding="utf-8", errors="replace")):
                yield f"{shown(file)}:{number}"


def _watched_at_every_step(plan: Plan) -> Plan:
    watch = plan.watch.model_copy(update={"entries": "steps"})
    return plan.model_copy(update={"watch": watch})


def _is_equal(first: History, other: History) -> bool:
    found = repetition(first, other)
    return found.is_alike and found.is_deterministic


def _own(history: History, setting: str) -> str | None:
    """Return the script's value of a setting that chaos replaces."""
    called = next((event for _, event in history.of(FitCalled)), None)
    own = None if called is None else called.replaced.get(setting)
    return None if own is None else str(own)


def _work_s(history: History) -> float:
    """Return the time of a run from its `fit()` on: the part before is done once for all runs."""
    began = next((number for number, _ in history.of(FitCalled)), 0)
    return (history[-1].time_ns - history.time_ns(began)) / 1e9
