"""The analysis of one run: its plan, its history and its baseline, with their tables.

Each table is made once, when a check first reads it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

from chaos.check.attempt import Attempt, Commit, Start, attempts
from chaos.check.compare import Aligned, before, surviving
from chaos.check.drivers import TwoDrivers, two_drivers
from chaos.check.ending import Ending, ending
from chaos.check.files import Files
from chaos.check.injections import Injection, injections
from chaos.check.inputs import InputComparison, input_offsets
from chaos.check.lineage import Lineage, lineage
from chaos.check.numbers import NumberComparison, Sides
from chaos.check.pending_gradients import complete_first_steps
from chaos.check.placed import Found, placed
from chaos.check.prediction_band import RUNS_MIN
from chaos.check.regrid import relaid
from chaos.check.restarts import RepeatedSteps, Restart, repeated_steps, restarts
from chaos.check.state_at_resume import Beside, Row, began_anew, unstable
from chaos.check.state_snapshots import StateSnapshots, parts_of
from chaos.check.tolerance import EXACT, Allowance, Bands
from chaos.model.event import AgentEnded, EpochEnded, FaultInvoked, MembershipChanged
from chaos.model.events.state import group_of
from chaos.model.history import Baseline, History
from chaos.model.launcher import LauncherWords
from chaos.model.places import AttemptRank
from chaos.model.plan import Plan

# torch 2.13: an agent that waited for others, and one whose rendezvous another has given up.
WAITED_IN_VAIN, CLOSED = "RendezvousTimeoutError", "RendezvousClosedError"
NO_STEPS = "the job makes no step that could be watched"


@dataclass(frozen=True, eq=False)
class RunTables:
    """The tables of one history."""

    history: History
    #: the tables after which parts of the state are named
    like: "RunTables | None" = None
    #: the job reports by the clock, after other steps in every run
    has_other_reports: bool = False
    #: where ranks resumed, as far as no event tells it
    found: Found = field(default_factory=dict)

    @cached_property
    def attempts(self) -> tuple[Attempt, ...]:
        """One row per attempt, oldest first."""
        # Runs that report by the clock have another number of epochs each: the baseline's says
        # nothing of where this run's end.
        like = None if self.has_other_reports else self.like
        epochs = None if like is None else len(like.lineage.commits)
        return attempts(self.history, epochs, self.found)

    @cached_property
    def lineage(self) -> Lineage:
        """The part of all attempts that survived."""
        return lineage(self.attempts)

    @cached_property
    def committed(self) -> Mapping[str, Commit]:
        """The commits that carry a checkpoint, by the checkpoint's name."""
        every = (commit for a in self.attempts for commit in (*a.early, *a.commits))
        return {c.checkpoint: c for c in every if c.checkpoint is not None}

    @cached_property
    def snapshots(self) -> StateSnapshots:
        return StateSnapshots(self.history, None if self.like is None else self.like.snapshots)

    @cached_property
    def files(self) -> Files:
        """The files that the job itself wrote and read."""
        like = None if self.like is None else self.like.files
        return Files(self.history, self.attempts, like)

    @property
    def keeps_own_files(self) -> bool:
        """Whether the job saves files and never gives Ray a checkpoint."""
        return bool(self.files.saves) and self.gives_no_checkpoint

    @property
    def gives_no_checkpoint(self) -> bool:
        """Whether the job keeps what it resumes from itself, if it does: nothing was Ray's."""
        handed = any(s.checkpoint for a in self.attempts for s in a.starts.values())
        return not self.committed and not handed

    @cached_property
    def reports_nothing(self) -> bool:
        """Whether its epochs end with saves of the job's own: torchrun starts such jobs."""
        is_like = self.like is not None and self.like.reports_nothing
        return is_like or self.history.count(EpochEnded) > 0  # a fault may come before any end

    @property
    def epochs_done(self) -> int:
        """The number of epochs that survived: committed ones, or those trained without reports."""
        trained = {epoch for _, epoch in self.lineage.steps}
        return len(trained if self.reports_nothing else self.lineage.commits)

    @cached_property
    def ending(self) -> Ending:
        return ending(self.history)


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
            history, hidden = self.history, self.drivers.hidden
            shown = History(history.entries, torn=history.torn, hidden=hidden)
            object.__setattr__(self, "history", shown)
        if not self.is_by_steps and self.reference is not None:
            history, found = placed(self.history, self.reference.history)
            object.__setattr__(self, "history", history)
            object.__setattr__(self, "_found", found)
        if self.reference is not None:
            whole = complete_first_steps(self.history, self.reference.lineage)
            object.__setattr__(self, "history", whole)

    @cached_property
    def drivers(self) -> TwoDrivers | None:
        """The two drivers of the run, where a fault started a second one."""
        return two_drivers(self.plan, self.history)

    @cached_property
    def run(self) -> RunTables:
        """The tables of the run that is judged."""
        found: Found = getattr(self, "_found", {})
        return RunTables(self.history, self.reference, self.is_by_steps, found)

    @property
    def terms(self) -> LauncherWords:
        return self.plan.job.facts.words

    @property
    def is_by_steps(self) -> bool:
        """Whether the run is compared with its baseline by steps, wherever its reports fall."""
        return self.plan.expect.align == "steps"

    @cached_property
    def counterpart(self) -> History | None:
        """The baseline, with its steps at the places that they have in this run."""
        if self.baseline is None or not self.is_by_steps:
            return self.baseline
        return relaid(self.baseline, self.history)

    @cached_property
    def reference(self) -> RunTables | None:
        """The baseline, if it is whole: a gap in one that was cut short proves nothing."""
        # The tables of a baseline are kept with it, as an audit compares hundreds of runs with one.
        if self.counterpart is None:
            return None
        tables = self.counterpart.once("tables", partial(RunTables, self.counterpart))
        return tables if tables.ending.is_finished and tables.ending.is_over else None

    @property
    def no_reference(self) -> str:
        """The reason why there is no baseline to compare with."""
        if self.baseline is None:
            return "there is no baseline"
        return "the baseline is cut short, and there is no other"

    @cached_property
    def injections(self) -> tuple[Injection, ...]:
        """One row per op of the plan, and per attempt for an op that is repeated."""
        run = self.run
        return injections(self.plan, self.history, run.attempts, run.ending, self.drivers)

    @cached_property
    def unsaved(self) -> frozenset[int]:
        """The epochs that lack the baseline's checkpoint where a save failed and the job went on.

        A job may do without it, as long as it reports none.
        """
        failed = any(s.spares and s.op.fault.fails_save for s in self.injections)
        if self.reference is None or not failed:
            return frozenset()
        due, mine = (
            {c.epoch for c in tables.lineage.commits if c.checkpoint is not None}
            for tables in (self.reference, self.run)
        )
        return frozenset(due - mine)

    @cached_property
    def hits(self) -> dict[int, tuple[Injection, ...]]:
        """The injections that took workers from an attempt, by the attempt's index."""
        found: dict[int, tuple[Injection, ...]] = {}
        for injection in self.injections:
            for attempt in injection.hits:
                found[attempt] = (*found.get(attempt, ()), injection)
        return found

    @cached_property
    def doubtful(self) -> frozenset[int]:
        """The attempts that a fault was injected into of which it is not known what it did."""
        struck = (s.invoked[0][1].attempt for s in self.injections if s.is_in_doubt and s.invoked)
        return frozenset(struck)

    def is_cut_short(self, attempt: Attempt) -> bool:
        """Return whether chaos ended the run, at its limit, within an attempt.

        What is missing of such an attempt may still have come.
        """
        is_last = attempt is self.run.attempts[-1]
        return self.run.ending.deadline is not None and is_last and not attempt.decisions

    @cached_property
    def joined(self) -> frozenset[int]:
        """The attempts that torchrun ended for nodes that waited to join, without a charge."""
        return frozenset(event.attempt for _, event in self.history.of(MembershipChanged))

    @property
    def excuse(self) -> str | None:
        """A sentence on a fault that failed: what the plan expects of it may rightly be missing."""
        failed = (s.op for s in self.injections if not s.landed or s.came_too_late)
        return next((f"{op} did not do what was planned" for op in failed), None)

    @property
    def unmet(self) -> str | None:
        """A sentence on agents of torchrun's that waited in vain: how long is chaos's choice."""
        raised = self.run.ending.raised
        # An agent may wait 30 s for workers that it has sent SIGTERM. Another one gave up its
        # rendezvous meanwhile, after the time that chaos allowed, and a right job was blamed: such
        # an end is a doubt.
        waited = any(e.error == WAITED_IN_VAIN for _, e in self.history.of(AgentEnded))
        if raised is None or raised[1].error not in (WAITED_IN_VAIN, CLOSED) or not waited:
            return None
        return "torchrun's agents did not meet again within the time that chaos gives them"

    @cached_property
    def restarts(self) -> tuple[Restart, ...]:
        """One row per attempt after the first."""
        return restarts(self.history, self.run.attempts, self.run.lineage, self.injections)

    @cached_property
    def resized(self) -> frozenset[int]:
        """The attempts whose number of workers is not the baseline's, and those after them.

        Their ranks see other data than the baseline's ranks of the same number, so none of their
        steps has a counterpart. An attempt that is grown again continues from their state.
        """
        return frozenset(attempt.index for attempt in self._of_other_size) | self.descended

    @cached_property
    def descended(self) -> frozenset[int]:
        """The attempts that continue from the state of one with another number of workers."""
        # One that ended before its first step has left no state behind.
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
        """The tolerance of all comparisons with the baseline."""
        expect = self.plan.expect
        if expect.band is None or self.too_few_for_a_band is not None:
            return Allowance(expect.loss_tolerance)
        assert self.counterpart is not None
        clean = [(tables.lineage, tables.snapshots) for tables in self._clean]
        learn = partial(Bands.of, expect.band, clean)
        bands = self.counterpart.once(f"bands {expect.band}", learn)
        firsts = (n for r in self.restarts for n in r.attempt.first_steps.values())
        return Allowance(bands=bands, firsts=frozenset(firsts))

    @property
    def too_few_for_a_band(self) -> str | None:
        """The reason why no band can be learnt; None if one can be, or none is expected."""
        if self.plan.expect.band is None or len(self._clean) >= RUNS_MIN:
            return None
        return f"a band takes {RUNS_MIN} baselines, and there are {len(self._clean)}"

    @cached_property
    def _clean(self) -> tuple[RunTables, ...]:
        """The whole clean runs, of which a band can be learnt; the baseline is the first."""
        if self.reference is None:
            return ()
        others = (c for c in self.repeats if c.ending.is_finished and c.ending.is_over)
        return self.reference, *others

    @cached_property
    def repeats(self) -> tuple[RunTables, ...]:
        """The further clean runs, whole or not; they are kept with the baseline."""
        first, baseline = self.reference, self.counterpart
        if first is None or not isinstance(baseline, Baseline):
            return ()
        return baseline.once(
            "repeats", lambda: tuple(RunTables(h, first) for h in baseline.repeats)
        )

    @cached_property
    def epochs_vary(self) -> bool:
        """Whether clean runs differ in their number of epochs, as with early stopping."""
        return len({len(tables.lineage.commits) for tables in self._clean}) > 1

    @cached_property
    def comparison(self) -> NumberComparison | None:
        """All losses and metrics, compared with the baseline's; None without a whole baseline."""
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
        """The event number of the first fault; the events before it are the control."""
        return min((n for n, _ in self.history.of(FaultInvoked)), default=len(self.history))

    @cached_property
    def aligned(self) -> tuple[Aligned, ...]:
        """The surviving steps that have a counterpart, with it; empty without a whole baseline."""
        if self.reference is None:
            return ()
        return surviving(self.run.lineage, self.reference.lineage, without=self.resized)

    @cached_property
    def aligned_before(self) -> tuple[Aligned, ...]:
        """The control: the steps before the first fault, with their counterparts."""
        if self.reference is None:
            return ()
        return before(self.run.attempts, self.reference.lineage, began=self.began)

    @cached_property
    def unstable(self) -> frozenset[str]:
        """The components that differ from the baseline's already before the first fault."""
        if self.reference is None:
            return frozenset()
        run, due = self.run.snapshots, self.reference.snapshots
        found = unstable(run, due, began=self.began, allowance=self.allowance)
        # Reports fall after other steps in every run, so parts that follow them, such as a count
        # of saves, differ at equal steps. Further clean runs show which parts these are.
        others = self._clean[1:] if self.is_by_steps else ()
        ends = ((o.snapshots, len(o.history)) for o in others)
        return found.union(*(unstable(o, due, began=n, allowance=EXACT) for o, n in ends))

    @cached_property
    def components(self) -> tuple[Row, ...]:
        """The parts of the job's state at each resume; empty without a whole baseline."""
        if self.reference is None:
            return ()
        run, due = self.run.snapshots, self.reference.snapshots
        beside = Beside(run, due, self.unstable, self.allowance, self.resized, self.descended)
        return beside.rows(self.restarts)

    @cached_property
    def inputs(self) -> InputComparison | None:
        """The model's inputs, compared with the baseline's; None without a whole baseline."""
        if self.reference is None:
            return None
        ours, theirs = self.run.lineage, self.reference.lineage
        return InputComparison(
            ours, theirs, self.aligned, self.aligned_before, not self.is_by_steps
        )

    @cached_property
    def input_offsets(self) -> Mapping[int, int]:
        """The attempts that continued at another place of the inputs, with the offset in steps."""
        if self.inputs is None or not self.inputs.repeat or not self.run.ending.is_finished:
            return {}
        return input_offsets(self.restarts, self.inputs)

    @cached_property
    def repeated_steps(self) -> tuple[RepeatedSteps, ...]:
        """The steps trained a second time, as `expect.sampling: at_least_once` allows."""
        if self.plan.expect.sampling != "at_least_once" or self.reference is None:
            return ()
        alike = (r for r in self.restarts if r.attempt.index not in self.resized)
        return tuple(repeated_steps(alike, self.reference.lineage))

    @cached_property
    def unplaced(self) -> Mapping[int, str]:
        """The attempts whose place is not known, each with the reason."""
        found: dict[int, str] = {}
        for restart in self.restarts:
            attempt = restart.attempt
            for start in attempt.starts.values() if attempt.steps else ():
                who = f"rank {start.rank} of attempt {attempt.index}"
                if start.others:
                    places = " or ".join(map(str, (*start.others, start.place)))
                    found[attempt.index] = (
                        f"{who} may have resumed at {places}: what its steps show fits each"
                    )
                elif self._read_unseen(start, attempt.index) or (
                    start.by == "inputs" and self._had_left(attempt)
                ):
                    found[attempt.index] = (
                        f"{who} began with a model that neither the baseline nor an earlier "
                        "attempt has, and what it read was not seen: where it resumed is not known"
                    )
        return found

    def _had_left(self, attempt: Attempt) -> bool:
        """Return whether an earlier attempt's losses were not the baseline's."""
        assert self.reference is not None
        due = self.reference.lineage
        return any(
            step.losses != theirs.losses
            for before in self.run.attempts[: attempt.index]
            for step in before.steps
            if (theirs := due.at(step.rank, step.epoch, step.step)) is not None
        )

    def _read_unseen(self, start: Start, attempt: int) -> bool:
        """Return whether a rank continues from what was kept where no save is seen."""
        run = self.run
        if start.by not in (None, "nothing") or start.checkpoint is not None or run.files.saves:
            return False
        fresh = run.snapshots.fresh(start.rank)
        _, entered = run.snapshots.entries.get(AttemptRank(attempt, start.rank), (0, None))
        models = {n: p.digest for n, p in fresh.items() if group_of(n) == "model"}
        ours = {n: p.digest for n, p in parts_of(entered).items() if n in models}
        return bool(models) and bool(ours) and ours != models and not models.keys() & self.unstable

    @cached_property
    def began_anew(self) -> frozenset[int]:
        """The indexes of the attempts that trained from scratch though they had to resume."""
        theirs = None if self.reference is None else self.reference.lineage
        rows, run = self.components, self.run.snapshots
        anew = (r for r in self.restarts if began_anew(r, rows, run, theirs))
        return frozenset(restart.attempt.index for restart in anew)

    @property
    def error_was_expected(self) -> bool:
        """Whether `fit()` raised as the plan expects it to."""
        return self.plan.expect.outcome == "error" and self.run.ending.raised is not None

    @property
    def why_nothing_restarted(self) -> str | None:
        """The reason why no restart was due; None if one was due, or that is not known."""
        if not self.plan.ops:
            return "no fault was planned, and nothing restarted"
        if not all(injection.landed for injection in self.injections):
            return None
        if self.error_was_expected:
            return f"{self.terms.call} failed, as expected, and nothing restarted"
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
        """Whether the job makes steps that can be watched; true where nothing is known."""
        if self.reference is None:
            return True
        return any(a.steps for tables in (self.reference, self.run) for a in tables.attempts)

    @property
    def why_no_step_was_due(self) -> str | None:
        """The reason why no resumed attempt owes a step; None if one does, or made one."""
        if not self.sees_steps and self.run.ending.is_finished:
            return NO_STEPS
        if self.run.ending.is_finished and not any(r.attempt.steps for r in self.restarts):
            return "the restart had no step left to make"
        return None
