"""The runs without faults: the baseline of every run with one, and the source of the places."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from threading import Lock

from chaos.audit.budget import NO_TIMES, AuditProgress, RunTimes, ShowProgress, start_run_display
from chaos.audit.determinism import (
    CleanRunComparison,
    compare_clean_runs,
    find_first_run_files,
    measure_hidden_part,
)
from chaos.audit.folder import AuditFolder
from chaos.audit.job_profile import JobProfile, intersect_profiles, measure_job
from chaos.audit.notes import (
    Note,
    build_notes,
    note_clock_reports,
    note_failed_start,
    note_first_run_files,
    note_hash_seed,
    note_resume_option,
    note_side_effects,
    note_start_difference,
    note_stepped_epochs,
    note_uncompared_files,
    warning,
)
from chaos.audit.plans import set_script_workers
from chaos.check.analysis import RunTables
from chaos.check.data_warnings import find_data_warnings
from chaos.check.file_contents import find_unequal_files
from chaos.check.prediction_band import RUNS_MIN
from chaos.check.rank_epochs import (
    divide_run,
    find_stepped_epochs,
    refuse_lone_steps,
    refuse_uneven_epochs,
)
from chaos.check.storage import find_shared_file_warnings
from chaos.check.time_limits import add_idle_limit
from chaos.errors import ClusterError, JobError, RequestError
from chaos.job_failure import (
    build_duration_error,
    build_job_error,
    find_stall_error,
    refuse_separate_jobs,
    refuse_unwatched_files,
)
from chaos.model.arguments import build_command_line
from chaos.model.event import DeadlinePassed, FileWritten, FitCalled, WroteOutside
from chaos.model.expect import Profile
from chaos.model.history import Baseline, History
from chaos.model.plan import Plan
from chaos.model.scenario import Job
from chaos.report.outcome import FinishedRun
from chaos.resume.regrid import regrid_baseline
from chaos.run.clock import Clock
from chaos.run.directory import RunDirectory
from chaos.run.display_path import format_path
from chaos.run.job_code import digest_job_code
from chaos.run.ports import Backend, ScriptBackend
from chaos.run.recoveries import find_recovery_lines

# Two show whether a job repeats itself; one that does not needs `RUNS_MIN` for a band.
CLEAN_RUNS = 2
STAGE = "clean run"
BAND: Profile = "standard"


@dataclass(frozen=True)
class CleanResult:
    """The result of the clean runs."""

    plan: Plan
    #: the part of `baseline_profile` that all runs share
    profile: JobProfile
    #: the profile of the first run; of a job that torchrun starts, of the baseline
    baseline_profile: JobProfile
    #: the first of them, of the start of the script from which runs with faults are forked, and one
    #: that equals it. If they differ, all of them; if only reports come at other steps, first one
    #: more, whose state was watched at every step
    baseline: Baseline
    repetition: CleanRunComparison
    notes: tuple[Note, ...]
    #: of a clean run, from its `fit()` on
    times: RunTimes = NO_TIMES
    #: the place at which a start with another hash seed got other data
    hash_seed_difference: str | None = None
    #: the lines of the job, `train.py:83`, that train on after an exception
    recoveries: tuple[str, ...] = ()

    @property
    def run_s(self) -> float:
        """The time of a run, with a wait for the next attempt."""
        return self.times.work_s + self.profile.facts.times.requeue_s

    @property
    def is_self_contained(self) -> bool:
        """Whether the job, on a cluster as well, writes only to its run's folder."""
        confinement, storage_path = (
            self.plan.confined,
            str(self.profile.replaced.get("storage_path")),
        )
        is_elsewhere = (
            "://" in storage_path or self.profile.replaced.get("storage_filesystem") is not None
        )
        is_allowed = confinement is None or confinement.keeps_storage
        return not self.shares_files and (is_allowed or not is_elsewhere)

    @property
    def shares_files(self) -> bool:
        """Whether runs side by side would see each other's files, by their absolute paths."""
        removed_by_path = {
            write.path: write.removed for _, write in self.baseline.select_events(WroteOutside)
        }
        compared_paths = {file.path for _, file in self.baseline.select_events(FileWritten)}
        return any(removed_by_path.values()) or not compared_paths.isdisjoint(removed_by_path)


@dataclass(frozen=True)
class CleanRunner:
    """Two runs of a job without faults, and more if it does not repeat itself.

    The second run is of a second start of the script, with another hash seed. If it
    differs from the first, a third run, of the first start, shows whether only the start
    differs, and one of a start with the same hash seed shows whether the seed is why.
    """

    backend: ScriptBackend
    folder: AuditFolder
    clock: Clock
    show: ShowProgress
    _lane_numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def run(self, plan: Plan, *, follows_script: bool) -> CleanResult:
        """Return the result of these runs, with as many workers as the script asks for.

        Raises `JobError` if the job fails in one of them.
        """
        series = self._begin_series(plan, follows_script=follows_script)
        self._compare_starts(series)
        refuse_unwatched_files(series.plan, series.reference, series.runs)
        self._add_watched_run(series)
        if series.needs_band:
            self._add_band_runs(series)
        self.folder.save_baseline(series.baseline)
        return self._build_result(series)

    def repeat_on_backend(self, backend: Backend, clean: CleanResult, plan: Plan) -> CleanResult:
        """Return clean runs with those of the same job on another backend as the baseline.

        Raises `RequestError` for a job that could overwrite the user's files there, or that does
        not repeat itself there although it does here.
        """
        if not clean.is_self_contained:
            raise RequestError(
                "the job writes outside of its run's folder, or to a bucket, from which nothing "
                "keeps it on a cluster",
                "Audit it on the embedded backend, or have it write below its storage path.",
                field="backend",
            )
        run_count = CLEAN_RUNS if plan.expect.band is None else RUNS_MIN
        existing_count = len([*(self.folder.path / "clean").iterdir()])
        numbers = range(existing_count + 1, existing_count + 1 + run_count)
        executions = (self._execute(backend, plan, n, run_total=numbers.stop - 1) for n in numbers)
        runs = [self._require_pass(*run).history for run in executions]
        comparison, expect = clean.repetition, plan.expect
        if expect.band is None and not comparison.is_by_steps:
            comparison = compare_clean_runs(*runs)
            if comparison.differs and expect.loss_tolerance is None:
                raise RequestError(
                    "the job repeats itself without a cluster, and not on one: {comparison}",
                    "Seed what it draws, or give {tolerance}.",
                    field="backend",
                    comparison=comparison,
                )
            ignored_metrics = {*expect.ignore_metrics, *comparison.metrics_differing}
            expect = expect.replace(ignore_metrics=tuple(sorted(ignored_metrics)))
        baseline = Baseline(runs)
        self.folder.save_baseline(baseline)
        limits = plan.limits.replace(idle_s=None)  # the one here is no measure there
        plan = plan.replace(expect=expect, limits=limits)
        return replace(
            clean,
            plan=add_idle_limit(plan, baseline),
            baseline=baseline,
            repetition=comparison,
            times=min(map(RunTimes.measure, runs)),
        )

    def build_extended_baseline(self, clean: CleanResult, backend: Backend) -> Baseline | None:
        """Return the baseline with one more run, in which the state of every step was looked at.

        A restart of a job that saves when it is given notice may go on from any. None if the run
        fails, or is another one than the baseline.
        """
        plan = _watch_every_step(clean.plan)
        number = 1 + len([*(self.folder.path / "clean").iterdir()])
        # It only adds evidence, so nothing of it may end the audit or replace the baseline: it
        # fails (for the time that looking takes, say), or computes otherwise when it is looked at.
        try:
            history = self._require_pass(
                *self._execute(backend, plan, number, run_total=number)
            ).history
        except JobError:
            return None
        if not _is_equal(clean.baseline, history):
            return None
        baseline = Baseline([history, *clean.baseline.runs])
        self.folder.save_baseline(baseline)
        return baseline

    def check_lane(self, clean: CleanResult, lane: Backend) -> None:
        """Make a clean run on a lane of a cluster; raises `ClusterError` if it is another one."""
        clean_plan = clean.plan.build_baseline_plan()
        directory = self.folder.new_run("lanes", next(self._lane_numbers), clean_plan)
        run = self.folder.execute(lane, clean_plan, directory, None, self.clock)
        comparison = compare_clean_runs(clean.baseline, self._require_pass(directory, run).history)
        if not comparison.is_exact:
            raise ClusterError(
                f"a node of the cluster computes otherwise than this machine: {comparison}",
                "Give a cluster whose nodes are like this one: processors, packages, data.",
            )

    def _begin_series(self, plan: Plan, *, follows_script: bool) -> "CleanRunSeries":
        """Return one run of each of two starts, with as many workers as the script asks for."""
        with self.backend.open_fresh(reseeded_plan=plan) as second_start:
            guess = plan.replace(follows_script=follows_script)
            reference_run, number = self._run(guess, 1), 2
            script_plan = set_script_workers(
                plan, measure_job(reference_run.history), keeps_count=not follows_script
            )
            if script_plan != plan:
                plan, reference_run, number = script_plan, self._run(script_plan, 2), 3
            second_history, start_note = self._repeat_start(second_start, plan, number)
            histories = [h for h in (reference_run.history, second_history) if h is not None]
            refuse_lone_steps(plan, histories)
            refuse_uneven_epochs(plan, histories)
            stepped_epochs = find_stepped_epochs(plan, histories)
            if stepped_epochs is not None:
                plan, number = stepped_epochs.set_length(plan), number + 2
                reference_run = self._run(plan, number - 1, run_total=number)
                second_history, start_note = self._repeat_start(
                    second_start, plan, number, run_total=number
                )
        remarks = [start_note] if start_note else []
        if stepped_epochs is not None:
            remarks.append(note_stepped_epochs(stepped_epochs))
        return CleanRunSeries(plan, reference_run.history, second_history, number, remarks)

    def _compare_starts(self, series: "CleanRunSeries") -> None:
        """Compare two starts; if they differ, run the first start once more, and compare those.

        If these differ as well, and the first run of all made files that all others find, it is
        left out: a job draws other numbers while it makes a cache than when it reads it.
        """
        # Two starts of the script that differ have one of three reasons, and a third run tells
        # which. It is of the first start:
        #
        #   equal to the first run       the starts differ: something was drawn before `fit()`, or
        #                                by the hash seed (`_explain_start_difference`)
        #   unequal, and the first one   the first run of all made a cache which the others read; it
        #   of all has made files        is left out, and the comparison begins again without it
        #   unequal                      the job does not repeat itself, and is judged by a band
        #
        # Faults are injected into forks of the first start, so it must be among what is compared.
        reference = series.reference
        start_comparison = compare_clean_runs(reference, series.second_start or reference)
        if series.second_start is not None and start_comparison.is_settled:
            series.accept_second_start(start_comparison)
            return
        repeat = self._run_again(series, series.plan)
        series.comparison = compare_clean_runs(reference, repeat)
        created_files = find_first_run_files(reference, repeat)
        if created_files and not series.comparison.is_settled:
            series.reference = repeat
            self._compare_starts(series)
            if series.comparison.is_equivalent:
                series.remarks.append(note_first_run_files(created_files))
            return
        series.repeats_of_reference.append(repeat)
        if not start_comparison.is_equivalent and series.comparison.is_equivalent:
            self._explain_start_difference(series, start_comparison)

    def _explain_start_difference(
        self, series: "CleanRunSeries", comparison: CleanRunComparison
    ) -> None:
        """Find out why two starts differ, by a third one with the hash seed of the first."""
        series.run_count += 1
        with self.backend.open_fresh() as same_seed_start:
            third_history, _ = self._repeat_start(
                same_seed_start, series.plan, series.run_count, run_total=CLEAN_RUNS + 2
            )
        difference = comparison.first or comparison.inputs_apart or comparison.reports_apart or ""
        if (
            third_history is not None
            and compare_clean_runs(series.reference, third_history).is_equivalent
        ):
            series.hash_seed_difference = difference
            series.remarks.append(note_hash_seed(difference))
        else:
            series.remarks.append(note_start_difference(difference))

    def _add_watched_run(self, series: "CleanRunSeries") -> None:
        """Add a run that is watched at every step, if a restart may begin at any.

        Where saves by the clock end the epochs, this run has epochs of a number of steps, and so
        have all after it. A job of which no save was seen may keep its state where none is seen.
        """
        plan, comparison = series.plan, series.comparison
        if comparison.is_by_steps:
            expect = plan.expect.replace(align="steps")
            plan = plan.replace(expect=expect, job=series.build_stepped_job())
        elif comparison.is_exact and not measure_job(series.reference).has_saves:
            plan = _watch_every_step(plan)
        if plan is series.plan:
            return
        history = self._run_again(series, plan)
        if _is_equal(series.reference, history):
            series.plan, series.watched_run = plan, history
        elif comparison.is_by_steps:  # then there is nothing to compare with
            series.comparison = comparison.replace(
                inputs_apart="one more clean run was another one"
            )

    def _add_band_runs(self, series: "CleanRunSeries") -> None:
        """Add runs of the first start until there are enough to tell where one more may lie."""
        for _ in range(RUNS_MIN - len(series.same_start_runs)):
            repeat = self._run_again(series, series.plan, run_total=RUNS_MIN + 1)
            series.repeats_of_reference.append(repeat)
        hidden_part = measure_hidden_part(BAND, series.same_start_runs)
        series.comparison = series.comparison.replace(hidden_part=hidden_part)

    def _build_result(self, series: "CleanRunSeries") -> CleanResult:
        comparison, plan = series.comparison, series.plan
        # A difference between clean runs is not due to a fault: with a band it is a tolerance,
        # and without one a metric that differs is left out.
        if series.needs_band:
            expect = plan.expect.replace(band=BAND)
        else:
            expect = plan.expect.replace(ignore_metrics=comparison.metrics_differing)
        baseline_profile = series.measure_baseline()
        profile = baseline_profile
        if comparison.is_by_steps:
            profiles = [measure_job(history, plan=plan) for history in series.align_epochs()]
            profile = intersect_profiles(profiles)
        return CleanResult(
            plan=add_idle_limit(plan.replace(expect=expect), series.baseline),
            profile=profile,
            baseline_profile=baseline_profile,
            baseline=series.baseline,
            repetition=comparison,
            notes=(
                *_build_notes(series, baseline_profile),
                *note_clock_reports(profile, plan, comparison),
            ),
            times=min(map(RunTimes.measure, series.same_start_runs)),
            hash_seed_difference=series.hash_seed_difference,
            recoveries=tuple(_find_recoveries(plan)),
        )

    def _run_again(
        self, series: "CleanRunSeries", plan: Plan, *, run_total: int = CLEAN_RUNS + 1
    ) -> History:
        """Return one more run of the first start."""
        series.run_count += 1
        return self._run(plan, series.run_count, run_total=run_total).history

    def _repeat_start(
        self, backend: Backend, plan: Plan, number: int, *, run_total: int = CLEAN_RUNS
    ) -> tuple[History | None, Note | None]:
        """Run the job from another start of its script; if that fails, return a note."""
        directory, run = self._execute(backend, plan, number, run_total=run_total)
        if any(run.history.select_events(FitCalled)):
            return self._require_pass(directory, run).history, None
        return None, note_failed_start(build_job_error(plan, run, log=directory.logs).problem)

    def _run(self, plan: Plan, number: int, *, run_total: int = CLEAN_RUNS) -> FinishedRun:
        return self._require_pass(*self._execute(self.backend, plan, number, run_total=run_total))

    def _execute(
        self, backend: Backend, plan: Plan, number: int, *, run_total: int
    ) -> tuple[RunDirectory, FinishedRun]:
        clean_plan = plan.build_baseline_plan()
        directory = self.folder.new_run("clean", number, clean_plan)
        done, deadline_s = min(number, run_total) - 1, clean_plan.limits.run_s
        progress = AuditProgress(STAGE, done, run_total, deadline_s=deadline_s)
        show = start_run_display(progress, self.show, self.clock)
        return directory, self.folder.execute(
            backend, clean_plan, directory, None, self.clock, show
        )

    def _require_pass(self, directory: RunDirectory, run: FinishedRun) -> FinishedRun:
        """Return a run that passed; raise `JobError` for any other."""
        if any(run.history.select_events(DeadlinePassed)):
            raise find_stall_error(run, directory.logs) or build_duration_error(run)
        refuse_separate_jobs(run)
        if run.verdict.status != "pass":
            raise build_job_error(run.plan, run, log=directory.logs / "driver.log")
        self.folder.prune(directory)
        return run


@dataclass
class ExtendableBaseline:
    """The baseline, extended when first needed by a clean run that records every step's state.

    The run is needed when a restart resumed at a step whose state no clean run had recorded. It is
    made once per audit; parallel lanes block until it is done.
    """

    clean: CleanResult
    clean_runs: CleanRunner
    _lock: Lock = field(default_factory=Lock)
    _was_tried: bool = False

    def __post_init__(self) -> None:
        self.baseline = self.clean.baseline

    def extend_baseline(self, backend: Backend) -> bool:
        """Make the run if it was not made yet; return whether the baseline has it now."""
        with self._lock:
            if not self._was_tried:
                self._was_tried = True
                extended_baseline = self.clean_runs.build_extended_baseline(self.clean, backend)
                self.baseline = extended_baseline or self.baseline
        return self.baseline is not self.clean.baseline

    def allow_retry(self) -> None:
        """Allow the run to be made once more, if it has shown nothing."""
        self._was_tried = self.baseline is not self.clean.baseline


@dataclass
class CleanRunSeries:
    """The clean runs of a job, each in its role."""

    plan: Plan
    #: the run that all others are compared with: of the first start of the script, from which the
    #: runs with faults are forked
    reference: History
    #: of a second start, with another hash seed; None where the script failed then
    second_start: History | None
    #: how many runs were made for it, those included that are left out
    run_count: int
    remarks: list[Note]
    #: more runs of the first start
    repeats_of_reference: list[History] = field(default_factory=list)
    is_second_start_equal: bool = False
    #: equals the reference, and its state was looked at in every step
    watched_run: History | None = None
    #: the place at which a start with another hash seed got other data
    hash_seed_difference: str | None = None

    def __post_init__(self) -> None:
        self.comparison = compare_clean_runs(self.reference, self.reference)
        # Of the first run of all, also where that is left out.
        self.side_effect_notes = note_side_effects(self.reference)

    def accept_second_start(self, comparison: CleanRunComparison) -> None:
        """Take the run of the second start for an equal of the reference, as compared."""
        self.is_second_start_equal = True
        self.comparison = comparison

    @property
    def same_start_runs(self) -> list[History]:
        """The runs of the first start, the reference first."""
        return [self.reference, *self.repeats_of_reference]

    @property
    def runs(self) -> list[History]:
        """All runs but the watched one, the reference first."""
        return [*self.same_start_runs, *([self.second_start] if self.second_start else [])]

    @property
    def equal_runs(self) -> list[History]:
        """All of these runs that are alike."""
        return self.runs if self.is_second_start_equal else self.same_start_runs

    @property
    def needs_band(self) -> bool:
        """Whether losses differ from run to run, and the user has given no tolerance."""
        return self.comparison.losses_differing > 0 and self.plan.expect.loss_tolerance is None

    @property
    def compared_runs(self) -> list[History]:
        """The runs that show which results of the job repeat themselves."""
        if self.needs_band:
            return self.same_start_runs
        # In every run with a fault, a file of the very end is written after the fault: only
        # another clean run shows that the file repeats itself.
        return [self.reference, *self.equal_runs[len(self.same_start_runs) :]]

    @property
    def baseline(self) -> Baseline:
        if self.watched_run is None:
            return Baseline(self.compared_runs)
        return Baseline([self.watched_run, *self.equal_runs])

    @property
    def counts_steps(self) -> bool:
        """Whether no report ends an epoch, so that steps are counted where saves do not fit."""
        return not self.plan.job.launcher_facts.has_reports

    @property
    def differing_files(self) -> Mapping[str, Sequence[str]]:
        """The files that two of these runs left in other states."""
        runs = self.equal_runs
        return find_unequal_files(RunTables(runs[0]), RunTables(runs[-1])) if len(runs) > 1 else {}

    def build_stepped_job(self) -> Job:
        """Return the job, with a number of steps as its epoch if its saves end epochs elsewhere."""
        job = self.plan.job
        steps = [measure_job(history).steps for history in self.equal_runs]
        if not self.counts_steps or all(run_steps == steps[0] for run_steps in steps):
            return job
        step_count = sum(count for (_, rank), count in steps[0].items() if rank == 0)
        return job.replace(epoch_steps=divide_run(step_count))

    def align_epochs(self) -> list[History]:
        """Return the runs by which faults are placed, with the epochs of the watched one."""
        if self.watched_run is None or not self.comparison.is_by_steps:
            return [self.reference]
        if not self.counts_steps:
            return [self.watched_run, *self.equal_runs]
        regridded = (regrid_baseline(history, self.watched_run) for history in self.equal_runs)
        return [self.watched_run, *regridded]

    def measure_baseline(self) -> JobProfile:
        """Return the profile of the reference; where steps are counted, of the first baseline."""
        return measure_job(
            self.align_epochs()[0] if self.counts_steps else self.reference,
            ignore=self.comparison.metrics_differing,
            repeats=self.compared_runs,
            plan=self.plan,
        )


def _build_notes(series: CleanRunSeries, baseline_profile: JobProfile) -> tuple[Note, ...]:
    runs = [run for run in (series.reference, series.second_start) if run]
    comparison = series.comparison
    band_warnings = [warning(str(comparison))] if comparison.hides_much else []
    job = series.plan.job
    source = Path(job.source)
    text = source.read_text(encoding="utf-8", errors="replace") if source.is_file() else ""
    start_words = (*build_command_line(job.args), *build_command_line(job.restart_args))
    resume_note = note_resume_option(text, source.name, start_words)
    tables = RunTables(series.reference)
    return (
        *build_notes(
            baseline_profile,
            names=[name for run in runs if (name := _find_script_setting(run, "name"))],
            paths=[path for run in runs if (path := _find_script_setting(run, "storage_path"))],
            habits=find_data_warnings(tables.lineage),
        ),
        *map(warning, find_shared_file_warnings(tables)),
        *series.remarks,
        *series.side_effect_notes,
        *(note_uncompared_files(series.differing_files) if comparison.is_deterministic else []),
        *band_warnings,
        *([resume_note] if resume_note else []),
    )


def _find_recoveries(plan: Plan) -> Iterator[str]:
    for name in digest_job_code(plan):
        file = Path(name)
        if file.suffix == ".py":
            for number in find_recovery_lines(file.read_text(encoding="utf-8", errors="replace")):
                yield f"{format_path(file)}:{number}"


def _watch_every_step(plan: Plan) -> Plan:
    watch = plan.watch.replace(entries="steps")
    return plan.replace(watch=watch)


def _is_equal(first_history: History, second_history: History) -> bool:
    comparison = compare_clean_runs(first_history, second_history)
    return comparison.is_equivalent and comparison.is_deterministic


def _find_script_setting(history: History, setting: str) -> str | None:
    """Return the script's value of a setting that chaos replaces."""
    fit_call = next((event for _, event in history.select_events(FitCalled)), None)
    value = None if fit_call is None else fit_call.original_settings.get(setting)
    return None if value is None else str(value)
