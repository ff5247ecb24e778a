"""The analysis of one run: its plan, its history and its baseline, with their tables.

Each table is made once, when a check first reads it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

from chaos.check.compare import AlignedSteps, align_control_steps, align_surviving_steps
from chaos.check.drivers import ConcurrentDrivers, find_driver_pair
from chaos.check.ending import RunEnding, find_ending
from chaos.check.injections import Injection, build_injections
from chaos.check.inputs import InputComparison, find_input_offsets
from chaos.check.numbers import AlignedRuns, NumberComparison
from chaos.check.pending_gradients import complete_first_steps
from chaos.check.prediction_band import RUNS_MIN
from chaos.check.restarts import RepeatedSteps, Restart, build_restarts, find_repeated_steps
from chaos.check.tolerance import Allowance, PredictionBands
from chaos.model.event import AgentEnded, EpochEnded, FaultInvoked, MembershipChanged
from chaos.model.events.state import find_group
from chaos.model.history import Baseline, History
from chaos.model.launcher_facts import LauncherWords
from chaos.model.places import AttemptRank
from chaos.model.plan import Plan
from chaos.resume.attempt import Attempt, Commit, RankStart, build_attempts
from chaos.resume.files import RunFiles
from chaos.resume.lineage import Lineage, build_lineage
from chaos.resume.regrid import regrid_baseline
from chaos.resume.relocation import Found, relocate_attempts
from chaos.resume.state_at_resume import (
    ResumeComparison,
    ResumeRow,
    find_unstable_parts,
    starts_from_scratch,
)
from chaos.resume.state_snapshots import StateSnapshots, index_parts

# torch 2.13: an agent that waited for others, and one whose rendezvous another has given up.
WAITED_IN_VAIN, CLOSED = "RendezvousTimeoutError", "RendezvousClosedError"
NO_STEPS = "the job makes no step that could be watched"


@dataclass(frozen=True, eq=False)
class RunTables:
    """The tables of one history."""

    history: History
    #: the tables after which parts of the state are named
    reference: "RunTables | None" = None
    #: the job reports by the clock, after other steps in every run
    has_clock_reports: bool = False
    #: where ranks resumed, as far as no event tells it
    resume_points: Found = field(default_factory=dict)

    @cached_property
    def attempts(self) -> tuple[Attempt, ...]:
        """One row per attempt, oldest first."""
        # Runs that report by the clock have another number of epochs each: the baseline's says
        # nothing of where this run's end.
        reference = None if self.has_clock_reports else self.reference
        epoch_count = None if reference is None else len(reference.lineage.commits)
        return build_attempts(self.history, epoch_count, self.resume_points)

    @cached_property
    def lineage(self) -> Lineage:
        """The part of all attempts that survived."""
        return build_lineage(self.attempts)

    @cached_property
    def checkpoint_commits(self) -> Mapping[str, Commit]:
        """The commits that carry a checkpoint, by the checkpoint's name."""
        commits = (
            commit
            for attempt in self.attempts
            for commit in (*attempt.early_commits, *attempt.commits)
        )
        return {c.checkpoint: c for c in commits if c.checkpoint is not None}

    @cached_property
    def snapshots(self) -> StateSnapshots:
        return StateSnapshots(
            self.history, None if self.reference is None else self.reference.snapshots
        )

    @cached_property
    def files(self) -> RunFiles:
        """The files that the job itself wrote and read."""
        reference = None if self.reference is None else self.reference.files
        return RunFiles(self.history, self.attempts, reference)

    @property
    def has_only_own_saves(self) -> bool:
        """Whether the job saves files and never gives Ray a checkpoint."""
        return bool(self.files.saves) and self.has_no_checkpoints

    @property
    def has_no_checkpoints(self) -> bool:
        """Whether the job keeps what it resumes from itself, if it does: nothing was Ray's."""
        has_checkpoint = any(s.checkpoint for a in self.attempts for s in a.starts.values())
        return not self.checkpoint_commits and not has_checkpoint

    @cached_property
    def has_no_reports(self) -> bool:
        """Whether its epochs end with saves of the job's own: torchrun starts such jobs."""
        is_inherited = self.reference is not None and self.reference.has_no_reports
        return is_inherited or self.history.count(EpochEnded) > 0  # a fault may come before any end

    @property
    def epochs_done(self) -> int:
        """The number of epochs that survived: committed ones, or those trained without reports."""
        trained_epochs = {epoch for _, epoch in self.lineage.steps}
        return len(trained_epochs if self.has_no_reports else self.lineage.commits)

    @cached_property
    def ending(self) -> RunEnding:
        return find_ending(self.history)


@dataclass(frozen=True, eq=False)
class RunAnalysis:
    """The input of every check."""

    plan: Plan
    history: History
    #: the same job and seed without faults
    baseline: History | None = None

    def __post_init__(self) -> None:
        """Hide what a driver beside the one that leads the run did without a part in it.

        And place each attempt where it resumed; reports by the clock come at other places anyhow.
        """
        # Before any table is made, so that no check has to ask for drivers: what one does that ends
        # or gives way is hidden from all of them, and `single-writer` alone reads what both wrote.
        if self.drivers is not None:
            history, hidden = self.history, self.drivers.hidden_events
            visible_history = History(history.entries, torn=history.torn, hidden=hidden)
            object.__setattr__(self, "history", visible_history)
        if not self.is_step_aligned and self.reference is not None:
            history, resume_points = relocate_attempts(self.history, self.reference.history)
            object.__setattr__(self, "history", history)
            object.__setattr__(self, "_found", resume_points)
        if self.reference is not None:
            completed_history = complete_first_steps(self.history, self.reference.lineage)
            object.__setattr__(self, "history", completed_history)

    @cached_property
    def drivers(self) -> ConcurrentDrivers | None:
        """The two drivers of the run, where a fault started a second one."""
        return find_driver_pair(self.plan, self.history)

    @cached_property
    def run(self) -> RunTables:
        """The tables of the run that is judged."""
        resume_points: Found = getattr(self, "_found", {})
        return RunTables(self.history, self.reference, self.is_step_aligned, resume_points)

    @property
    def launcher_words(self) -> LauncherWords:
        return self.plan.job.launcher_facts.words

    @property
    def is_step_aligned(self) -> bool:
        """Whether the run is compared with its baseline by steps, wherever its reports fall."""
        return self.plan.expect.align == "steps"

    @cached_property
    def aligned_baseline(self) -> History | None:
        """The baseline, with its steps at the places that they have in this run."""
        if self.baseline is None or not self.is_step_aligned:
            return self.baseline
        return regrid_baseline(self.baseline, self.history)

    @cached_property
    def reference(self) -> RunTables | None:
        """The baseline, if it is whole: a gap in one that was cut short proves nothing."""
        # The tables of a baseline are kept with it, as an audit compares hundreds of runs with one.
        if self.aligned_baseline is None:
            return None
        tables = self.aligned_baseline.compute_once(
            "tables", partial(RunTables, self.aligned_baseline)
        )
        return tables if tables.ending.is_finished and tables.ending.has_run_end else None

    @property
    def no_baseline_reason(self) -> str:
        """The reason why there is no baseline to compare with."""
        if self.baseline is None:
            return "there is no baseline"
        return "the baseline is cut short, and there is no other"

    @cached_property
    def injections(self) -> tuple[Injection, ...]:
        """One row per op of the plan, and per attempt for an op that is repeated."""
        run = self.run
        return build_injections(self.plan, self.history, run.attempts, run.ending, self.drivers)

    @cached_property
    def unsaved_epochs(self) -> frozenset[int]:
        """The epochs that lack the baseline's checkpoint where a save failed and the job went on.

        A job may do without it, as long as it reports none.
        """
        has_failed_save = any(s.is_survived and s.op.fault.fails_save for s in self.injections)
        if self.reference is None or not has_failed_save:
            return frozenset()
        baseline_epochs, run_epochs = (
            {c.epoch for c in tables.lineage.commits if c.checkpoint is not None}
            for tables in (self.reference, self.run)
        )
        return frozenset(baseline_epochs - run_epochs)

    @cached_property
    def hits(self) -> dict[int, tuple[Injection, ...]]:
        """The injections that took workers from an attempt, by the attempt's index."""
        injections_by_attempt: dict[int, tuple[Injection, ...]] = {}
        for injection in self.injections:
            for attempt in injection.hit_times_by_attempt:
                injections_by_attempt[attempt] = (
                    *injections_by_attempt.get(attempt, ()),
                    injection,
                )
        return injections_by_attempt

    @cached_property
    def doubtful_attempts(self) -> frozenset[int]:
        """The attempts that a fault was injected into of which it is not known what it did."""
        faulted_attempts = (
            s.invocations[0][1].attempt for s in self.injections if s.is_in_doubt and s.invocations
        )
        return frozenset(faulted_attempts)

    def is_cut_short(self, attempt: Attempt) -> bool:
        """Return whether chaos ended the run, at its limit, within an attempt.

        What is missing of such an attempt may still have come.
        """
        is_last = attempt is self.run.attempts[-1]
        return self.run.ending.deadline is not None and is_last and not attempt.decisions

    @cached_property
    def join_attempts(self) -> frozenset[int]:
        """The attempts that torchrun ended for nodes that waited to join, without a charge."""
        return frozenset(
            event.attempt for _, event in self.history.select_events(MembershipChanged)
        )

    @property
    def fault_failure(self) -> str | None:
        """A sentence on a fault that failed: what the plan expects of it may rightly be missing."""
        failed_ops = (s.op for s in self.injections if not s.has_effect or s.is_too_late)
        return next((f"{op} did not do what was planned" for op in failed_ops), None)

    @property
    def rendezvous_failure(self) -> str | None:
        """A sentence on agents of torchrun's that waited in vain: how long is chaos's choice."""
        fit_error = self.run.ending.fit_error
        # An agent may wait 30 s for workers that it has sent SIGTERM. Another one gave up its
        # rendezvous meanwhile, after the time that chaos allowed, and a right job was blamed: such
        # an end is a doubt.
        has_waited = any(
            e.error == WAITED_IN_VAIN for _, e in self.history.select_events(AgentEnded)
        )
        if (
            fit_error is None
            or fit_error[1].error not in (WAITED_IN_VAIN, CLOSED)
            or not has_waited
        ):
            return None
        return "torchrun's agents did not meet again within the time that chaos gives them"

    @cached_property
    def restarts(self) -> tuple[Restart, ...]:
        """One row per attempt after the first."""
        return build_restarts(self.history, self.run.attempts, self.run.lineage, self.injections)

    @cached_property
    def resized_attempts(self) -> frozenset[int]:
        """The attempts whose number of workers is not the baseline's, and those after them.

        Their ranks see other data than the baseline's ranks of the same number, so none of their
        steps has a counterpart. An attempt that is grown again continues from their state.
        """
        return frozenset(attempt.index for attempt in self._size_changes) | self.descendant_attempts

    @cached_property
    def descendant_attempts(self) -> frozenset[int]:
        """The attempts that continue from the state of one with another number of workers."""
        # One that ended before its first step has left no state behind.
        trained_indexes = [attempt.index for attempt in self._size_changes if attempt.steps]
        first_resized = min(trained_indexes, default=len(self.run.attempts))
        return frozenset(a.index for a in self.run.attempts if a.index > first_resized)

    @property
    def _size_changes(self) -> tuple[Attempt, ...]:
        if self.reference is None or not self.reference.attempts:
            return ()
        baseline_size = self.reference.attempts[0].worker_count
        return tuple(
            attempt for attempt in self.run.attempts if attempt.worker_count != baseline_size
        )

    @cached_property
    def allowance(self) -> Allowance:
        """The tolerance of all comparisons with the baseline."""
        expect = self.plan.expect
        if expect.band is None or self.no_band_reason is not None:
            return Allowance(expect.loss_tolerance)
        assert self.aligned_baseline is not None
        clean_runs = [(tables.lineage, tables.snapshots) for tables in self._clean_runs]
        learn_bands = partial(PredictionBands.from_runs, expect.band, clean_runs)
        bands = self.aligned_baseline.compute_once(f"bands {expect.band}", learn_bands)
        first_steps = (
            n for r in self.restarts for n in r.attempt.first_step_event_numbers.values()
        )
        return Allowance(bands=bands, first_step_numbers=frozenset(first_steps))

    @property
    def no_band_reason(self) -> str | None:
        """The reason why no band can be learnt; None if one can be, or none is expected."""
        if self.plan.expect.band is None or len(self._clean_runs) >= RUNS_MIN:
            return None
        return f"a band takes {RUNS_MIN} baselines, and there are {len(self._clean_runs)}"

    @cached_property
    def _clean_runs(self) -> tuple[RunTables, ...]:
        """The whole clean runs, of which a band can be learnt; the baseline is the first."""
        if self.reference is None:
            return ()
        clean_repeats = (c for c in self.repeats if c.ending.is_finished and c.ending.has_run_end)
        return self.reference, *clean_repeats

    @cached_property
    def repeats(self) -> tuple[RunTables, ...]:
        """The further clean runs, whole or not; they are kept with the baseline."""
        reference, baseline = self.reference, self.aligned_baseline
        if reference is None or not isinstance(baseline, Baseline):
            return ()
        return baseline.compute_once(
            "repeats", lambda: tuple(RunTables(history, reference) for history in baseline.repeats)
        )

    @cached_property
    def has_varying_epochs(self) -> bool:
        """Whether clean runs differ in their number of epochs, as with early stopping."""
        return len({len(tables.lineage.commits) for tables in self._clean_runs}) > 1

    @cached_property
    def comparison(self) -> NumberComparison | None:
        """All losses and metrics, compared with the baseline's; None without a whole baseline."""
        if self.reference is None:
            return None
        return NumberComparison.from_runs(
            AlignedRuns(
                self.run.attempts,
                self.run.lineage,
                self.reference.lineage,
                steps=self.aligned_steps,
                control_steps=self.control_steps,
            ),
            allowance=self.allowance,
            ignore_patterns=self.plan.expect.ignore_metrics,
            has_reports=not self.is_step_aligned,
            first_fault=self.fault_start,
            resized_attempts=self.resized_attempts,
        )

    @cached_property
    def fault_start(self) -> int:
        """The event number of the first fault; the events before it are the control."""
        return min(
            (n for n, _ in self.history.select_events(FaultInvoked)), default=len(self.history)
        )

    @cached_property
    def aligned_steps(self) -> tuple[AlignedSteps, ...]:
        """The surviving steps that have a counterpart, with it; empty without a whole baseline."""
        if self.reference is None:
            return ()
        return align_surviving_steps(
            self.run.lineage, self.reference.lineage, excluded_attempts=self.resized_attempts
        )

    @cached_property
    def control_steps(self) -> tuple[AlignedSteps, ...]:
        """The control: the steps before the first fault, with their counterparts."""
        if self.reference is None:
            return ()
        return align_control_steps(
            self.run.attempts, self.reference.lineage, fault_start=self.fault_start
        )

    @cached_property
    def unstable_components(self) -> frozenset[str]:
        """The components that differ from the baseline's already before the first fault."""
        if self.reference is None:
            return frozenset()
        run_snapshots, baseline_snapshots = self.run.snapshots, self.reference.snapshots
        unstable_names = find_unstable_parts(
            run_snapshots,
            baseline_snapshots,
            first_fault=self.fault_start,
            allowance=self.allowance,
        )
        # Reports fall after other steps in every run, so parts that follow them, such as a count
        # of saves, differ at equal steps. Further clean runs show which parts these are.
        clean_repeats = self._clean_runs[1:] if self.is_step_aligned else ()
        repeat_ends = ((o.snapshots, len(o.history)) for o in clean_repeats)
        return unstable_names.union(
            *(find_unstable_parts(o, baseline_snapshots, first_fault=n) for o, n in repeat_ends)
        )

    @cached_property
    def state_rows(self) -> tuple[ResumeRow, ...]:
        """The parts of the job's state at each resume; empty without a whole baseline."""
        if self.reference is None:
            return ()
        run_snapshots, baseline_snapshots = self.run.snapshots, self.reference.snapshots
        comparison = ResumeComparison(
            run_snapshots,
            baseline_snapshots,
            self.unstable_components,
            self.allowance,
            self.resized_attempts,
            self.descendant_attempts,
        )
        return comparison.build_rows(restart.attempt for restart in self.restarts)

    @cached_property
    def inputs(self) -> InputComparison | None:
        """The model's inputs, compared with the baseline's; None without a whole baseline."""
        if self.reference is None:
            return None
        run_lineage, baseline_lineage = self.run.lineage, self.reference.lineage
        return InputComparison(
            run_lineage,
            baseline_lineage,
            self.aligned_steps,
            self.control_steps,
            not self.is_step_aligned,
        )

    @cached_property
    def input_offsets(self) -> Mapping[int, int]:
        """The attempts that continued at another place of the inputs, with the offset in steps."""
        if self.inputs is None or not self.inputs.is_repeatable or not self.run.ending.is_finished:
            return {}
        return find_input_offsets(self.restarts, self.inputs)

    @cached_property
    def repeated_steps(self) -> tuple[RepeatedSteps, ...]:
        """The steps trained a second time, as `expect.sampling: at_least_once` allows."""
        if self.plan.expect.sampling != "at_least_once" or self.reference is None:
            return ()
        comparable_restarts = (
            r for r in self.restarts if r.attempt.index not in self.resized_attempts
        )
        return tuple(find_repeated_steps(comparable_restarts, self.reference.lineage))

    @cached_property
    def unknown_places(self) -> Mapping[int, str]:
        """The attempts whose place is not known, each with the reason."""
        reasons: dict[int, str] = {}
        for restart in self.restarts:
            attempt = restart.attempt
            for start in attempt.starts.values() if attempt.steps else ():
                rank_name = f"rank {start.rank} of attempt {attempt.index}"
                if start.alternatives:
                    candidate_places = " or ".join(
                        map(str, (*start.alternatives, start.training_place))
                    )
                    reasons[attempt.index] = (
                        f"{rank_name} may have resumed at {candidate_places}: what its steps "
                        f"show fits each"
                    )
                elif self._has_unseen_save(start, attempt.index) or (
                    start.evidence == "inputs" and self._has_diverged(attempt)
                ):
                    reasons[attempt.index] = (
                        f"{rank_name} began with a model that neither the baseline nor an earlier "
                        "attempt has, and what it read was not seen: where it resumed is not known"
                    )
        return reasons

    def _has_diverged(self, attempt: Attempt) -> bool:
        """Return whether an earlier attempt's losses were not the baseline's."""
        assert self.reference is not None
        baseline_lineage = self.reference.lineage
        return any(
            step.losses != baseline_step.losses
            for earlier_attempt in self.run.attempts[: attempt.index]
            for step in earlier_attempt.steps
            if (baseline_step := baseline_lineage.find_step(step.rank, step.epoch, step.step))
            is not None
        )

    def _has_unseen_save(self, start: RankStart, attempt: int) -> bool:
        """Return whether a rank continues from what was kept where no save is seen."""
        run = self.run
        if (
            start.evidence not in (None, "nothing")
            or start.checkpoint is not None
            or run.files.saves
        ):
            return False
        initial_parts = run.snapshots.find_initial_parts(start.rank)
        _, entry_state = run.snapshots.entries.get(AttemptRank(attempt, start.rank), (0, None))
        initial_digests = {
            n: p.digest for n, p in initial_parts.items() if find_group(n) == "model"
        }
        entry_digests = {
            n: p.digest for n, p in index_parts(entry_state).items() if n in initial_digests
        }
        return (
            bool(initial_digests)
            and bool(entry_digests)
            and entry_digests != initial_digests
            and not initial_digests.keys() & self.unstable_components
        )

    @cached_property
    def scratch_attempts(self) -> frozenset[int]:
        """The indexes of the attempts that trained from scratch though they had to resume."""
        baseline_lineage = None if self.reference is None else self.reference.lineage
        rows, run = self.state_rows, self.run.snapshots
        scratch_restarts = (
            r for r in self.restarts if starts_from_scratch(r.attempt, rows, run, baseline_lineage)
        )
        return frozenset(restart.attempt.index for restart in scratch_restarts)

    @property
    def has_expected_error(self) -> bool:
        """Whether `fit()` raised as the plan expects it to."""
        return self.plan.expect.outcome == "error" and self.run.ending.fit_error is not None

    @property
    def no_restart_reason(self) -> str | None:
        """The reason why no restart was due; None if one was due, or that is not known."""
        if not self.plan.ops:
            return "no fault was planned, and nothing restarted"
        if not all(injection.has_effect for injection in self.injections):
            return None
        if self.has_expected_error:
            return f"{self.launcher_words.call} failed, as expected, and nothing restarted"
        return self._describe_survival() if self.run.ending.is_finished else None

    def _describe_survival(self) -> str | None:
        if self.hits:
            return None
        if all(injection.is_survived for injection in self.injections):
            return "the fault ended no attempt, and nothing restarted"
        if any(injection.is_in_storage for injection in self.injections):
            return "what storage did ended no attempt, and nothing restarted"
        return "training was over before the fault took effect, and nothing restarted"

    @property
    def has_visible_steps(self) -> bool:
        """Whether the job makes steps that can be watched; true where nothing is known."""
        if self.reference is None:
            return True
        return any(a.steps for tables in (self.reference, self.run) for a in tables.attempts)

    @property
    def no_step_reason(self) -> str | None:
        """The reason why no resumed attempt owes a step; None if one does, or made one."""
        if not self.has_visible_steps and self.run.ending.is_finished:
            return NO_STEPS
        if self.run.ending.is_finished and not any(r.attempt.steps for r in self.restarts):
            return "the restart had no step left to make"
        return None
