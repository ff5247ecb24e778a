"""Plans of one to six faults, as a Hypothesis strategy over the places that a job has."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from hypothesis import strategies as st

from chaos.audit.job_profile import JobProfile
from chaos.audit.site_groups import build_sort_key
from chaos.errors import UsageError
from chaos.extensions.lab.search import FAULTS_MAX
from chaos.faults.base import SecondsRange
from chaos.faults.kill_worker import KillWorker
from chaos.model.fault_entry import FAULTS, FaultEntry, PlacedFault
from chaos.model.launcher import DEFAULT_LAUNCHER, LAUNCHER_FACTS, Launcher
from chaos.model.places import EpochRank
from chaos.model.plan import Op
from chaos.model.trigger import STAGES, AtMoment, AtRecovery, AtStep, Moment, Stage, Trigger
from chaos.plan.draw import DRAWN, can_be_drawn

# A setting that is drawn from a range of seconds is drawn in so many parts of it.
PARTS = 10

Variant: TypeAlias = tuple[str, Mapping[str, object]]


@dataclass(frozen=True)
class JobFaultSites:
    """The places of a job at which a fault is drawn."""

    #: the number of optimizer steps
    steps: Mapping[EpochRank, int]
    #: the places of each moment
    moments: Mapping[Moment, Sequence[EpochRank]]
    launcher: Launcher = DEFAULT_LAUNCHER

    @classmethod
    def from_profile(cls, profile: JobProfile) -> "JobFaultSites":
        """Return the places that a run without faults has shown."""
        return cls(profile.steps, profile.moments, profile.launcher)

    @classmethod
    def from_counts(
        cls, *, epochs: int, steps: int, workers: int, launcher: Launcher
    ) -> "JobFaultSites":
        """Return the places of a job whose epochs and ranks are all alike."""
        points = [EpochRank(epoch, rank) for epoch in range(epochs) for rank in range(workers)]
        report_moments: tuple[Moment, ...] = ("reported", "committed")
        launcher_moments = LAUNCHER_FACTS[launcher].sites.moments
        moments = {moment: points for moment in report_moments if moment in launcher_moments}
        return cls(dict.fromkeys(points, steps), moments, launcher)

    @property
    def epochs(self) -> list[int]:
        """The epochs with a place."""
        points = [point for moment_points in self.moments.values() for point in moment_points]
        return sorted({epoch for epoch, _ in (*self.steps, *points)})

    @property
    def ranks(self) -> list[int]:
        """The ranks with a place."""
        points = [point for moment_points in self.moments.values() for point in moment_points]
        return sorted({rank for _, rank in (*self.steps, *points)})

    def list_options(self, epoch: int) -> list[tuple[Moment | None, int]]:
        """Return the moments of an epoch with their ranks, its steps (None) before all others."""
        options: list[tuple[Moment | None, int]] = [
            (None, rank) for site_epoch, rank in sorted(self.steps) if site_epoch == epoch
        ]
        for moment, points in self.moments.items():
            options += [(moment, rank) for site_epoch, rank in points if site_epoch == epoch]
        return options

    def find_upload_step(self, epoch: int) -> AtStep:
        """Return the last step before the next upload, on the rank that makes it."""
        uploads = sorted(point for point in self.moments["upload_begin"] if self.steps.get(point))
        upload_epoch, rank = next((point for point in uploads if point[0] >= epoch), uploads[-1])
        return AtStep(epoch=upload_epoch, step=self.steps[EpochRank(upload_epoch, rank)], rank=rank)

    def find_early_site(self, epoch: int, step: int) -> AtStep | AtMoment:
        """Return a place in the first half of training, on the lowest rank with a place there."""
        first_half = self.epochs[: max(1, len(self.epochs) // 2)]
        early_epoch = first_half[self.epochs.index(epoch) % len(first_half)]
        moment, rank = self.list_options(early_epoch)[0]
        if moment is not None:
            return AtMoment(epoch=early_epoch, moment=moment, rank=rank)
        return AtStep(
            epoch=early_epoch, step=min(step, self.steps[EpochRank(early_epoch, rank)]), rank=rank
        )

    def select_variants(self, kinds: Sequence[str] | None = None) -> list[Variant]:
        """Return the faults that are safe to draw for the job, of these kinds; the plainest first.

        Raises `UsageError` for a kind that is never drawn, or not for this job.
        """
        has_uploads = any(self.steps.get(point) for point in self.moments.get("upload_begin", ()))
        suitable_variants = [
            (name, settings)
            for name, settings in DRAWN
            if can_be_drawn((name, settings), LAUNCHER_FACTS[self.launcher])
            and (FAULTS[name].family != "storage" or has_uploads)
        ]
        possible_kinds = list(dict.fromkeys(name for name, _ in suitable_variants))
        for kind in kinds or ():
            if kind not in possible_kinds:
                raise UsageError(
                    f"{kind} is not drawn for this job",
                    f"Those drawn are {', '.join(possible_kinds)}.",
                )
        selected_variants = [
            variant for variant in suitable_variants if kinds is None or variant[0] in kinds
        ]
        # Hypothesis shrinks towards the first of a choice, so a plan that fails becomes one of
        # killed workers where these do it, too.
        return sorted(selected_variants, key=lambda variant: variant[0] != "kill_worker")


@dataclass(frozen=True)
class DrawnFault:
    """One drawn fault at its place."""

    entry: FaultEntry
    #: the restart after it is hit as well, at this stage
    restart_hit_at: Stage | None = None
    rank: int = 0


def build_ops(drawn_faults: Sequence[DrawnFault]) -> tuple[Op, ...]:
    """Return drawn faults as ops, in the order of training, those of a restart after its cause."""
    ops: list[Op] = []
    for drawn_fault in sorted(
        drawn_faults, key=lambda drawn_fault: build_sort_key(Op.from_entry(0, drawn_fault.entry))
    ):
        ops.append(Op.from_entry(len(ops), drawn_fault.entry))
        if drawn_fault.restart_hit_at is not None:
            cause = len(ops) - 1
            trigger = AtRecovery(
                recovering_from=cause, stage=drawn_fault.restart_hit_at, rank=drawn_fault.rank
            )
            ops.append(Op(index=len(ops), at=trigger, kill_worker=KillWorker()))
    return tuple(ops[:FAULTS_MAX])


def build_plan_strategy(
    fault_sites: JobFaultSites, *, max_faults: int = FAULTS_MAX, kinds: Sequence[str] | None = None
) -> st.SearchStrategy[tuple[Op, ...]]:
    """Return a strategy of the ops of a plan: one to `max_faults` faults at any places of a job.

    It shrinks to fewer faults, to killed workers, and to earlier places.
    """
    variants = fault_sites.select_variants(kinds)
    return st.lists(_draw_fault(fault_sites, variants), min_size=1, max_size=max_faults).map(
        build_ops
    )


@st.composite
def _draw_fault(
    draw: Callable[..., Any], fault_sites: JobFaultSites, variants: Sequence[Variant]
) -> DrawnFault:
    """Draw a place, and then a fault for it: another fault leaves the other choices as they are."""
    epoch = draw(st.sampled_from(fault_sites.epochs))
    # The place is drawn before the fault, and always all of it, needed or not: with another fault
    # the later choices keep their meaning, and a plan can shrink to killed workers at the same
    # places.
    moment, rank = draw(st.sampled_from(fault_sites.list_options(epoch)))
    step = draw(st.integers(1, fault_sites.steps[EpochRank(epoch, rank)] if moment is None else 1))
    restart_hit_at = draw(st.sampled_from((None, *STAGES)))
    recovery_rank = draw(st.sampled_from(fault_sites.ranks))
    name, settings = draw(st.sampled_from(variants))
    fault = FAULTS[name](
        **{
            key: value.interpolate(draw(st.integers(0, PARTS)) / PARTS)
            if isinstance(value, SecondsRange)
            else value
            for key, value in settings.items()
        }
    )
    trigger: Trigger = AtStep(epoch=epoch, step=step, rank=rank)
    if fault.family == "storage":
        trigger = fault_sites.find_upload_step(epoch)
    elif fault.is_announced:  # the notice is to run out while there is training left
        trigger = fault_sites.find_early_site(epoch, step)
    elif moment is not None:
        trigger = AtMoment(epoch=epoch, moment=moment, rank=rank)
    # There is no restart to hit after a fault that ends nothing. One that is announced ends its
    # attempt at an unknown time.
    can_be_hit = fault.ends_attempt == "always" and not fault.is_announced
    entry = FaultEntry.model_validate({"at": trigger, name: fault})
    return DrawnFault(entry, restart_hit_at if can_be_hit else None, recovery_rank)


def plans(
    *,
    epochs: int,
    steps: int,
    workers: int = 1,
    launcher: Launcher = DEFAULT_LAUNCHER,
    most: int = FAULTS_MAX,
    kinds: Sequence[str] | None = None,
) -> st.SearchStrategy[list[FaultEntry]]:
    """Return a strategy of `faults=` for `chaos_run`, or for a `Scenario`.

    The job has `epochs` epochs of `steps` optimizer steps on each of `workers` ranks. A plan has
    one to `most` faults, of `kinds`, or of all that are safe to draw. It needs a job that may fail
    `most` times: `failure={"max_failures": most}`.

        @given(faults=chaos.plans(epochs=4, steps=6, workers=2))
        def test_survives(chaos_run, faults):
            chaos_run(script="train.py", workers=2, faults=faults, failure={"max_failures": 6})
    """
    fault_sites = JobFaultSites.from_counts(
        epochs=epochs, steps=steps, workers=workers, launcher=launcher
    )
    fields = PlacedFault.model_fields
    return build_plan_strategy(fault_sites, max_faults=most, kinds=kinds).map(
        lambda ops: [FaultEntry(**{name: getattr(op, name) for name in fields}) for op in ops]
    )
