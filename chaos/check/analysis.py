"""The analysis of one run: its plan, its history and its baseline, with their tables.

The tables are made once, when a check first asks for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from chaos.check.attempt import Attempt, Commit, attempts
from chaos.check.compare import Aligned, before, surviving
from chaos.check.ending import Ending, ending
from chaos.check.files import Files
from chaos.check.injections import Injection, injections
from chaos.check.inputs import InputComparison, input_offsets
from chaos.check.lineage import Lineage, lineage
from chaos.check.numbers import NumberComparison, Sides
from chaos.check.prediction_band import RUNS_MIN
from chaos.check.regrid import relaid
from chaos.check.restarts import RepeatedSteps, Restart, repeated_steps, restarts
from chaos.check.state_at_resume import Beside, Row, began_anew, unstable
from chaos.check.state_snapshots import StateSnapshots
from chaos.check.tolerance import EXACT, Allowance, Bands
from chaos.model.event import FaultInvoked
from chaos.model.history import Baseline, History
from chaos.model.plan import Plan

NO_STEPS = "the job makes no step that could be watched"


@dataclass(frozen=True, eq=False)
class RunTables:
    """What one history says about the course of training; parts of its state as those `like` it.

    `has_other_reports`: it reports as often as the clock says.
    """

    history: History
    like: "RunTables | None" = None
    has_other_reports: bool = False

    @cached_property
    def attempts(self) -> tuple[Attempt, ...]:
        """One row per attempt, oldest first."""
        like = None if self.has_other_reports else self.like
        return attempts(self.history, None if like is None else len(like.lineage.commits))

    @cached_property
    def lineage(self) -> Lineage:
        """What survived of all attempts."""
        return lineage(self.attempts)

    @cached_property
    def committed(self) -> Mapping[str, Commit]:
        """The commits that carry a checkpoint, by its name."""
        every = (commit for a in self.attempts for commit in (*a.early, *a.commits))
        return {c.checkpoint: c for c in every if c.checkpoint is not None}

    @cached_property
    def snapshots(self) -> StateSnapshots:
        """What was seen of the job's state."""
        return StateSnapshots(self.history, None if self.like is None else self.like.snapshots)

    @cached_property
    def files(self) -> Files:
        """The files that the job wrote and read itself."""
        return Files(self.history, self.attempts)

    @property
    def keeps_own_files(self) -> bool:
        """Whether the job saves files and never gives Ray a checkpoint."""
        carried = any(c.checkpoint for a in self.attempts for c in (*a.early, *a.commits))
        handed = any(s.checkpoint for a in self.attempts for s in a.starts.values())
        return bool(self.files.saves) and not carried and not handed

    @cached_property
    def ending(self) -> Ending:
        """How the run ended."""
        return ending(self.history)


@dataclass(frozen=True, eq=False)
class RunAnalysis:
    """What a check is given. `baseline`: the same job and seed, with nothing done to it."""

    plan: Plan
    history: History
    baseline: History | None = None

    @cached_property
    def run(self) -> RunTables:
        """The struck run."""
        return RunTables(self.history, self.reference, has_other_reports=self.is_by_steps)

    @property
    def is_by_steps(self) -> bool:
        """Whether the run is laid beside its baseline by steps, whatever was reported between."""
        return self.plan.expect.align == "steps"

    @cached_property
    def counterpart(self) -> History | None:
        """The baseline, with the places that its steps have in this run."""
        if self.baseline is None or not self.is_by_steps:
            return self.baseline
        return relaid(self.baseline, self.history)

    @cached_property
    def reference(self) -> RunTables | None:
        """The baseline, where it is whole: what one that is cut short lacks proves nothing."""
        if self.counterpart is None:
            return None
        course = RunTables(self.counterpart)
        return course if course.ending.is_finished and course.ending.is_over else None

    @property
    def no_reference(self) -> str:
        """Why there is no baseline to judge by."""
        if self.baseline is None:
            return "there is no baseline"
        return "the baseline is cut short, and there is no other"

    @cached_property
    def injections(self) -> tuple[Injection, ...]:
        """One row per op of the plan."""
        return injections(self.plan, self.history, self.run.attempts, self.run.ending)

    @cached_property
    def hits(self) -> dict[int, tuple[Injection, ...]]:
        """The injections that took workers from an attempt, by the attempt's index."""
        found: dict[int, tuple[Injection, ...]] = {}
        for injection in self.injections:
            for attempt in injection.hits:
                found[attempt] = (*found.get(attempt, ()), injection)
        return found

    @property
    def excuse(self) -> str | None:
        """A fault that failed, in words: what the plan expects of it may rightly be missing."""
        failed = (s.op for s in self.injections if not s.landed or s.came_too_late)
        return next((f"{op} did not do what was planned" for op in failed), None)

    @cached_property
    def restarts(self) -> tuple[Restart, ...]:
        """One row per attempt after the first."""
        return restarts(self.history, self.run.attempts, self.run.lineage, self.injections)

    @cached_property
    def resized(self) -> frozenset[int]:
        """The attempts with another number of workers than the baseline has, and what follows them.

        Their ranks see other data than the baseline's ranks of the same
        number, so that no step of theirs has a counterpart; an attempt that
        is grown again goes on from their state.
        """
        return frozenset(attempt.index for attempt in self._of_other_size) | self.descended

    @cached_property
    def descended(self) -> frozenset[int]:
        """The attempts that go on from the state of one with another number of workers."""
        trained = [attempt.index for attempt in self._of_other_size if attempt.steps]
        since = min(trained, default=len(self.run.attempts))
        return frozenset(a.index for a in self.run.attempts if a.index > since)

    @property
    def _of_other_size(self) -> tuple[Attempt, ...]:
        if self.reference is None or not self.reference.attempts:
            return ()
        due = self.reference.attempts[0].size
        return tuple(attempt for attempt in self.run.attempts if attempt.size != due)

    @cached_property
    def allowance(self) -> Allowance:
        """How far a number may lie from the baseline's."""
        expect = self.plan.expect
        if expect.band is None or self.too_few_for_a_band is not None:
            return Allowance(expect.loss_tolerance)
        runs = [(course.lineage, course.snapshots) for course in self._clean]
        firsts = (n for r in self.restarts for n in r.attempt.first_steps.values())
        return Allowance(bands=Bands.of(expect.band, runs), firsts=frozenset(firsts))

    @property
    def too_few_for_a_band(self) -> str | None:
        """Why no band can be learnt, None where it can or none is asked for."""
        if self.plan.expect.band is None or len(self._clean) >= RUNS_MIN:
            return None
        return f"a band takes {RUNS_MIN} baselines, and there are {len(self._clean)}"

    @cached_property
    def _clean(self) -> tuple[RunTables, ...]:
        """The whole clean runs, of which a band can be learnt."""
        if self.reference is None or not isinstance(self.counterpart, Baseline):
            return () if self.reference is None else (self.reference,)
        others = (RunTables(history, self.reference) for history in self.counterpart.repeats)
        return self.reference, *(c for c in others if c.ending.is_finished and c.ending.is_over)

    @cached_property
    def epochs_vary(self) -> bool:
        """Whether clean runs train more or fewer epochs each, as one does that stops early."""
        return len({len(course.lineage.commits) for course in self._clean}) > 1

    @cached_property
    def comparison(self) -> NumberComparison | None:
        """Every loss and metric beside the baseline's; None without a whole baseline."""
        if self.reference is None:
            return None
        return NumberComparison.of(
            Sides(
                self.run.attempts,
                self.run.lineage,
                self.reference.lineage,
                steps=self.aligned,
                before=self.aligned_before,
            ),
            allowance=self.allowance,
            ignore=self.plan.expect.ignore_metrics,
            has_reports=not self.is_by_steps,
            began=self.began,
            resized=self.resized,
        )

    @cached_property
    def began(self) -> int:
        """The number of the first fault; what came before it is a second sample of the baseline."""
        return min((n for n, _ in self.history.of(FaultInvoked)), default=len(self.history))

    @cached_property
    def aligned(self) -> tuple[Aligned, ...]:
        """The surviving steps that have a counterpart, beside it; none without a whole baseline."""
        if self.reference is None:
            return ()
        return surviving(self.run.lineage, self.reference.lineage, without=self.resized)

    @cached_property
    def aligned_before(self) -> tuple[Aligned, ...]:
        """What was recorded before the first fault beside the baseline: the control."""
        if self.reference is None:
            return ()
        return before(self.run.attempts, self.reference.lineage, began=self.began)

    @cached_property
    def unstable(self) -> frozenset[str]:
        """The components that differ from the baseline's before the first fault already."""
        if self.reference is None:
            return frozenset()
        run, due = self.run.snapshots, self.reference.snapshots
        found = unstable(run, due, began=self.began, allowance=self.allowance)
        # What goes by reports, as a count of saves does, is another after as many steps.
        others = self._clean[1:] if self.is_by_steps else ()
        ends = ((o.snapshots, len(o.history)) for o in others)
        return found.union(*(unstable(o, due, began=n, allowance=EXACT) for o, n in ends))

    @cached_property
    def components(self) -> tuple[Row, ...]:
        """What came back of the job's state at each resume; empty without a whole baseline."""
        if self.reference is None:
            return ()
        run, due = self.run.snapshots, self.reference.snapshots
        beside = Beside(run, due, self.unstable, self.allowance, self.resized, self.descended)
        return beside.rows(self.restarts)

    @cached_property
    def inputs(self) -> InputComparison | None:
        """The model's inputs beside the baseline's; None without a whole baseline."""
        if self.reference is None:
            return None
        ours, theirs = self.run.lineage, self.reference.lineage
        return InputComparison(
            ours, theirs, self.aligned, self.aligned_before, not self.is_by_steps
        )

    @cached_property
    def input_offsets(self) -> Mapping[int, int]:
        """The attempts that went on at another place of the inputs, and by how many steps."""
        if self.inputs is None or not self.inputs.repeat or not self.run.ending.is_finished:
            return {}
        return input_offsets(self.restarts, self.inputs)

    @cached_property
    def repeated_steps(self) -> tuple[RepeatedSteps, ...]:
        """The steps made a second time, as `expect.sampling: at_least_once` allows."""
        if self.plan.expect.sampling != "at_least_once" or self.reference is None:
            return ()
        alike = (r for r in self.restarts if r.attempt.index not in self.resized)
        return tuple(repeated_steps(alike, self.reference.lineage))

    @cached_property
    def began_anew(self) -> frozenset[int]:
        """The attempts that trained from scratch though they were to resume, by index."""
        theirs = None if self.reference is None else self.reference.lineage
        rows, run = self.components, self.run.snapshots
        return frozenset(
            restart.attempt.index
            for restart in self.restarts
            if began_anew(restart, rows, run, theirs)
        )

    @property
    def error_was_expected(self) -> bool:
        """Whether `fit()` raised as the plan expects it to."""
        return self.plan.expect.outcome == "error" and self.run.ending.raised is not None

    @property
    def why_nothing_restarted(self) -> str | None:
        """Why no restart was due, None if one was due or that is not known."""
        if not self.plan.ops:
            return "no fault was planned, and nothing restarted"
        if not all(injection.landed for injection in self.injections):
            return None
        if self.error_was_expected:
            return "fit() raised, as expected, and nothing restarted"
        return self._why_it_went_on() if self.run.ending.is_finished else None

    def _why_it_went_on(self) -> str | None:
        if self.hits:
            return None
        if all(injection.spares for injection in self.injections):
            return "the fault ended no attempt, and nothing restarted"
        if any(injection.is_in_storage for injection in self.injections):
            return "what storage did ended no attempt, and nothing restarted"
        return "training was over before the fault took effect, and nothing restarted"

    @property
    def sees_steps(self) -> bool:
        """Whether the job makes steps that can be watched; so it does where nothing is known."""
        if self.reference is None:
            return True
        return any(a.steps for course in (self.reference, self.run) for a in course.attempts)

    @property
    def why_no_step_was_due(self) -> str | None:
        """Why no step of a resumed attempt is missed; None: one is, or one was made."""
        if not self.sees_steps and self.run.ending.is_finished:
            return NO_STEPS
        if self.run.ending.is_finished and not any(r.attempt.steps for r in self.restarts):
            return "the restart had no step left to make"
        return None
