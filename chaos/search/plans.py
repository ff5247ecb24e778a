"""Plans of one to six faults, as a Hypothesis strategy over the places that a job has."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from hypothesis import strategies as st

from chaos.audit.job_profile import JobProfile
from chaos.audit.place_groups import order_of
from chaos.errors import UsageError
from chaos.faults.base import Between
from chaos.faults.kill_worker import KillWorker
from chaos.model.fault_entry import FAULTS, FaultEntry, PlacedFault
from chaos.model.launcher import FACTS, USUAL, Launcher
from chaos.model.places import EpochRank
from chaos.model.plan import Op
from chaos.model.trigger import STAGES, AtMoment, AtRecovery, AtStep, Moment, Stage, Trigger
from chaos.plan.draw import DRAWN, suits
from chaos.search import FAULTS_MAX

# A setting that is drawn from a range of seconds is drawn in so many parts of it.
PARTS = 10

Variant: TypeAlias = tuple[str, Mapping[str, object]]


@dataclass(frozen=True)
class JobPlaces:
    """The places of a job at which a fault is drawn."""

    #: the number of optimizer steps
    steps: Mapping[EpochRank, int]
    #: the places of each moment
    moments: Mapping[Moment, Sequence[EpochRank]]
    launcher: Launcher = USUAL

    @classmethod
    def of(cls, profile: JobProfile) -> "JobPlaces":
        """Return the places that a run without faults has shown."""
        return cls(profile.steps, profile.moments, profile.launcher)

    @classmethod
    def even(cls, *, epochs: int, steps: int, workers: int, launcher: Launcher) -> "JobPlaces":
        """Return the places of a job whose epochs and ranks are all alike."""
        points = [EpochRank(epoch, rank) for epoch in range(epochs) for rank in range(workers)]
        moments: dict[Moment, Sequence[EpochRank]] = {}
        if "reports" in FACTS[launcher].has:
            moments = {"reported": points, "committed": points}
        return cls(dict.fromkeys(points, steps), moments, launcher)

    @property
    def epochs(self) -> list[int]:
        """The epochs with a place."""
        points = [point for of in self.moments.values() for point in of]
        return sorted({epoch for epoch, _ in (*self.steps, *points)})

    @property
    def ranks(self) -> list[int]:
        """The ranks with a place."""
        points = [point for of in self.moments.values() for point in of]
        return sorted({rank for _, rank in (*self.steps, *points)})

    def options(self, epoch: int) -> list[tuple[Moment | None, int]]:
        """Return the moments of an epoch with their ranks, its steps (None) before all others."""
        found: list[tuple[Moment | None, int]] = [
            (None, rank) for of, rank in sorted(self.steps) if of == epoch
        ]
        for moment, points in self.moments.items():
            found += [(moment, rank) for of, rank in points if of == epoch]
        return found

    def before_upload(self, epoch: int) -> AtStep:
        """Return the last step before the next upload, on the rank that makes it."""
        uploads = sorted(point for point in self.moments["upload_begin"] if self.steps.get(point))
        at, rank = next((point for point in uploads if point[0] >= epoch), uploads[-1])
        return AtStep(epoch=at, step=self.steps[EpochRank(at, rank)], rank=rank)

    def early(self, epoch: int, step: int) -> AtStep | AtMoment:
        """Return a place in the first half of training, on the lowest rank with a place there."""
        half = self.epochs[: max(1, len(self.epochs) // 2)]
        at = half[self.epochs.index(epoch) % len(half)]
        moment, rank = self.options(at)[0]
        if moment is not None:
            return AtMoment(epoch=at, moment=moment, rank=rank)
        return AtStep(epoch=at, step=min(step, self.steps[EpochRank(at, rank)]), rank=rank)

    def variants(self, kinds: Sequence[str] | None = None) -> list[Variant]:
        """Return the faults that are safe to draw for the job, of these kinds; the plainest first.

        Raises `UsageError` for a kind that is never drawn, or not for this job.
        """
        uploads = any(self.steps.get(point) for point in self.moments.get("upload_begin", ()))
        found = [
            (name, settings)
            for name, settings in DRAWN
            if suits((name, settings), FACTS[self.launcher])
            and (FAULTS[name].family != "storage" or uploads)
        ]
        possible = list(dict.fromkeys(name for name, _ in found))
        for kind in kinds or ():
            if kind not in possible:
                raise UsageError(
                    f"{kind} is not drawn for this job", f"Those drawn are {', '.join(possible)}."
                )
        chosen = [variant for variant in found if kinds is None or variant[0] in kinds]
        # Hypothesis shrinks towards the first of a choice, so a plan that fails becomes one of
        # killed workers where these do it, too.
        return sorted(chosen, key=lambda variant: variant[0] != "kill_worker")


@dataclass(frozen=True)
class Drawn:
    """One drawn fault at its place."""

    entry: FaultEntry
    #: the restart after it is hit as well, at this stage
    restart_hit_at: Stage | None = None
    rank: int = 0


def ops_of(drawn: Sequence[Drawn]) -> tuple[Op, ...]:
    """Return drawn faults as ops, in the order of training, those of a restart after its cause."""
    ops: list[Op] = []
    for one in sorted(drawn, key=lambda one: order_of(Op.of(0, one.entry))):
        ops.append(Op.of(len(ops), one.entry))
        if one.restart_hit_at is not None:
            cause = len(ops) - 1
            at = AtRecovery(recovering_from=cause, stage=one.restart_hit_at, rank=one.rank)
            ops.append(Op(index=len(ops), at=at, kill_worker=KillWorker()))
    return tuple(ops[:FAULTS_MAX])


def drawn_plans(
    places: JobPlaces, *, most: int = FAULTS_MAX, kinds: Sequence[str] | None = None
) -> st.SearchStrategy[tuple[Op, ...]]:
    """Return a strategy of the ops of a plan: one to `most` faults at any places of a job.

    It shrinks to fewer faults, to killed workers, and to earlier places.
    """
    variants = places.variants(kinds)
    return st.lists(_drawn(places, variants), min_size=1, max_size=most).map(ops_of)


@st.composite
def _drawn(draw: Callable[..., Any], places: JobPlaces, variants: Sequence[Variant]) -> Drawn:
    """Draw a place, and then a fault for it: another fault leaves the other choices as they are."""
    epoch = draw(st.sampled_from(places.epochs))
    # The place is drawn before the fault, and always all of it, needed or not: with another fault
    # the later choices keep their meaning, and a plan can shrink to killed workers at the same
    # places.
    moment, rank = draw(st.sampled_from(places.options(epoch)))
    step = draw(st.integers(1, places.steps[EpochRank(epoch, rank)] if moment is None else 1))
    restart_hit_at = draw(st.sampled_from((None, *STAGES)))
    beside = draw(st.sampled_from(places.ranks))
    name, settings = draw(st.sampled_from(variants))
    fault = FAULTS[name](
        **{
            key: value.drawn(draw(st.integers(0, PARTS)) / PARTS)
            if isinstance(value, Between)
            else value
            for key, value in settings.items()
        }
    )
    at: Trigger = AtStep(epoch=epoch, step=step, rank=rank)
    if fault.family == "storage":
        at = places.before_upload(epoch)
    elif fault.is_announced:  # the notice is to run out while there is training left
        at = places.early(epoch, step)
    elif moment is not None:
        at = AtMoment(epoch=epoch, moment=moment, rank=rank)
    # There is no restart to hit after a fault that ends nothing. One that is announced ends its
    # attempt at an unknown time.
    can_be_hit = fault.ends_attempt == "always" and not fault.is_announced
    entry = FaultEntry.model_validate({"at": at, name: fault})
    return Drawn(entry, restart_hit_at if can_be_hit else None, beside)


def plans(
    *,
    epochs: int,
    steps: int,
    workers: int = 1,
    launcher: Launcher = USUAL,
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
    places = JobPlaces.even(epochs=epochs, steps=steps, workers=workers, launcher=launcher)
    fields = PlacedFault.model_fields
    return drawn_plans(places, most=most, kinds=kinds).map(
        lambda ops: [FaultEntry(**{name: getattr(op, name) for name in fields}) for op in ops]
    )
