"""Places of one group, epoch and rank, from which a sample is drawn.

Such a place group has the number of its places, and makes them one by one, so that a job
of a million steps costs no more than one of a hundred.
"""

import random
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Any, TypeAlias

from chaos.audit.job_profile import JobProfile
from chaos.audit.site_category import (
    INSIDE_LOAD,
    INSIDE_SAVE,
    PREEMPTED_AT_ONCE,
    PUT_ANSWER_LOST,
    SEVERAL_FAULTS,
    SiteCategory,
    find_initial_category,
    is_available,
)
from chaos.faults.fail_save import FailSave
from chaos.faults.kill_loader import KillLoader
from chaos.faults.kill_node import KillNode
from chaos.faults.kill_worker import KillWorker
from chaos.faults.lose_answer import LoseAnswer
from chaos.faults.preempt_node import PreemptNode
from chaos.faults.return_capacity import ReturnCapacity
from chaos.model.fault_entry import FAULTS
from chaos.model.places import EpochRank, SortablePlace, TrainingPlace
from chaos.model.plan import Op
from chaos.model.trigger import (
    MOMENTS,
    OBJECT_MOMENTS,
    SAVE_MOMENTS,
    AtMoment,
    AtRecovery,
    AtStep,
    Moment,
    Stage,
    Trigger,
)
from chaos.plan.draw import COMES_AFTER_S

# The kind of each fault and where it is injected, by which another audit of the job knows a place.
# How long a notice is follows from how fast a clean run was, and the group from the job's length.
PlaceKey: TypeAlias = tuple[tuple[str, Trigger], ...]


# A group, and of one that is inside a save, or of its answer, the moment and the files.
SiteSubgroup: TypeAlias = tuple[SiteCategory, str, str]


def find_subgroup(group: SiteCategory, ops: tuple[Op, ...]) -> SiteSubgroup:
    """Return the unit of places to which ops belong."""
    trigger = ops[0].at
    if group not in (INSIDE_SAVE, PUT_ANSWER_LOST) or not isinstance(trigger, AtMoment):
        return group, "", ""
    return group, trigger.moment, trigger.path or ""


@dataclass(frozen=True)
class FaultSite:
    """A place with a name and a group, and the ops with a fault there."""

    name: str
    group: SiteCategory
    ops: tuple[Op, ...]

    @property
    def order(self) -> tuple[int, int, int, int, int]:
        """Numbers to sort by: those of an earlier place in training are smaller."""
        return build_sort_key(self.ops[0])

    @property
    def key(self) -> PlaceKey:
        """Its name in other audits of the job."""
        return tuple((op.kind, op.at) for op in self.ops)

    @property
    def epoch(self) -> int:
        """The epoch of its first op."""
        return self.ops[0].at.epoch

    @property
    def subgroup(self) -> SiteSubgroup:
        """Its group and, inside a save, the operation: an answer needs a place of each."""
        return find_subgroup(self.group, self.ops)

    @property
    def ends_attempts(self) -> bool:
        """Whether each of its faults surely ends an attempt, and does so at its place."""
        faults = [op.fault for op in self.ops]
        return all(f.ends_attempt == "always" and not f.is_announced for f in faults)


def build_sort_key(op: Op) -> tuple[int, int, int, int, int]:
    """Return a place as numbers to sort by: an epoch's moments come after its steps."""
    trigger = op.at
    rank = -1 if trigger.rank is None else trigger.rank
    if isinstance(trigger, AtMoment):
        return trigger.epoch, 1, MOMENTS.index(trigger.moment), rank, op.index
    return trigger.epoch, 0, trigger.step, rank, op.index


def find_resume_point(op: Op, profile: JobProfile) -> TrainingPlace | None:
    """Return the last point before an op that has training left after it."""
    points = profile.resume_places_before_end
    if isinstance(op.at, AtRecovery) or not points:
        return None
    training_place = find_training_place(op, profile)
    point_count = bisect_left(profile.resume_places, training_place)
    # The last ones may have no training left after them.
    return profile.resume_places[point_count - 1] if 0 < point_count <= len(points) else None


def find_training_place(op: Op, profile: JobProfile) -> SortablePlace:
    """Return an op's place, in a form in which the points before it are smaller."""
    trigger = op.at
    if isinstance(trigger, AtStep):
        return SortablePlace(trigger.epoch, trigger.step)
    if isinstance(trigger, AtMoment) and trigger.moment == "committed":
        return SortablePlace(trigger.epoch + 1, 0.5)
    step = inf
    if isinstance(trigger, AtMoment):
        step = min(_find_step_counts(trigger, profile), default=inf)
    return SortablePlace(trigger.epoch, step)


def _find_step_counts(trigger: AtMoment, profile: JobProfile) -> Iterator[float]:
    """Yield the steps of its epoch before a moment of validation or of a save, if it comes."""
    epoch_rank = EpochRank(trigger.epoch, trigger.rank or 0)
    if trigger.moment == "validating" and epoch_rank in profile.validations:
        yield profile.validations[epoch_rank]
    for operation in profile.operations:
        if (
            operation.moment == trigger.moment
            and trigger.path in (None, operation.trigger_path)
            and epoch_rank in operation.places
        ):
            yield operation.places[epoch_rank]


# A notice takes this share of the time that training has left, within bounds (seconds).
NOTICE_PART, NOTICE_MIN_S, NOTICE_MAX_S = 0.4, 0.1, 5.0

_THRICE = 3
_MOMENTS: dict[Moment, SiteCategory] = {
    "validating": "during validation",
    "saving": "inside a save",
    "making": "inside a save",
    "renaming": "inside a save",
    "linking": "inside a save",
    "opening": "inside a save",
    "removing": "inside a save",
    "putting": "inside a save",
    "completing": "inside a save",
    "upload_begin": "upload begins",
    "upload_end": "upload ends",
    "reported": "after report, before commit",
    "committed": "just after commit",
}
_STAGES: dict[Stage, str] = {
    "start": "as it recovers",
    "loading": "as it loads",
    "first_step": "as its first step begins",
}


@dataclass(frozen=True)
class SiteGroup:
    """The places of one kind."""

    category: SiteCategory
    #: that of the first op
    epoch: int
    size: int
    #: returns the ops of the n-th place, counted from 0
    make_ops: Callable[[int], tuple[Op, ...]]

    @property
    def subgroup(self) -> SiteSubgroup:
        """That of its places."""
        return find_subgroup(self.category, self.make_ops(0))

    def make_site(self, number: int) -> FaultSite:
        """Return one of its places with its ops."""
        ops = self.make_ops(number)
        return FaultSite(name=_describe_ops(ops), group=self.category, ops=ops)


def build_place_groups(profile: JobProfile, *, seed: int) -> tuple[SiteGroup, ...]:
    """Return all place groups of a job; those of several ops draw their steps from the seed."""
    draws = random.Random(f"{seed}:places")  # noqa: S311 (repeatable is the point)
    groups = [
        *_build_step_groups(profile),
        *_build_moment_groups(profile),
        *_build_epoch_groups(profile, draws),
    ]
    groups += (
        *_build_triple_faults(profile, draws),
        *_build_loader_losses(profile),
        *_build_save_failures(profile),
    )
    groups += _build_answer_losses(profile)
    groups += _build_recovery_groups(profile, seed=seed)
    groups = [group for group in groups if is_available(group.category, profile.facts)]
    if (fault_limit := profile.most_faults) is not None:
        groups = [group for group in groups if len(group.make_ops(0)) <= fault_limit]
    if not profile.remote_ranks or profile.facts.nodes.restarts_ended_workers:
        return tuple(groups)
    return tuple(
        group for group in groups if not (group.size == 1 and _comes_too_late(group, profile))
    )


def _comes_too_late(group: SiteGroup, profile: JobProfile) -> bool:
    """Return whether a place comes when workers on other nodes may have ended well.

    torchelastic restarts these no more, and the agents of the others wait for theirs in vain. A
    notice takes a moment to reach a worker, which trains on meanwhile.
    """
    last_epoch = profile.epoch_last
    last_place = (
        last_epoch,
        max((n for (epoch, _), n in profile.steps.items() if epoch == last_epoch), default=0),
    )
    ops = [op for op in group.make_ops(0) if not isinstance(op.at, AtRecovery)]
    is_notice = group.category == "notice before the loss" and last_epoch > 0
    return any(
        find_training_place(op, profile) >= last_place or (is_notice and op.at.epoch == last_epoch)
        for op in ops
    )


def _build_step_groups(profile: JobProfile) -> Iterator[SiteGroup]:
    """Yield every step of every rank, each in one group.

    In a job that reports by the clock, no step is known to be the last of its epoch.
    """
    first_point = profile.resume_places[0] if profile.resume_places else (1, 0)
    initial_group = find_initial_category(profile.facts)
    for (epoch, rank), steps in profile.steps.items():
        if profile.reports_by_clock:
            clock_group: SiteCategory = initial_group if epoch < first_point[0] else "mid-epoch"
            yield SiteGroup(clock_group, epoch, steps, _build_ops_maker(profile, epoch, 1, rank))
            continue
        yield SiteGroup("epoch boundary", epoch, 1, _build_ops_maker(profile, epoch, steps, rank))
        inner_count = steps - 1
        early_count = _count_early_steps(epoch, inner_count, first_point)
        late_group: SiteCategory = "last epoch" if epoch == profile.epoch_last else "mid-epoch"
        if early_count:
            yield SiteGroup(
                initial_group, epoch, early_count, _build_ops_maker(profile, epoch, 1, rank)
            )
        if inner_count > early_count:
            yield SiteGroup(
                late_group,
                epoch,
                inner_count - early_count,
                _build_ops_maker(profile, epoch, 1 + early_count, rank),
            )


def _count_early_steps(epoch: int, inner_count: int, first_point: tuple[int, int]) -> int:
    """Return how many of an epoch's inner steps come before the first point."""
    if epoch < first_point[0]:
        return inner_count
    return min(first_point[1], inner_count) if epoch == first_point[0] else 0


def _build_ops_maker(
    profile: JobProfile, epoch: int, first_step: int, rank: int
) -> Callable[[int], tuple[Op, ...]]:
    return lambda n: _build_ending_ops(profile, AtStep(epoch=epoch, step=first_step + n, rank=rank))


def _build_moment_groups(profile: JobProfile) -> Iterator[SiteGroup]:
    for moment, group in _MOMENTS.items():
        for epoch, rank in profile.moments[moment] if moment not in SAVE_MOMENTS else ():
            trigger = AtMoment(epoch=epoch, moment=moment, rank=rank)
            yield _build_single_group(group, _build_ending_ops(profile, trigger))
    for operation in profile.operations:
        for epoch, rank in operation.places:
            trigger = AtMoment(
                epoch=epoch, moment=operation.moment, path=operation.trigger_path, rank=rank
            )
            # After the end of the process alone the job goes on from the node's disk, and never
            # looks at what is half done elsewhere.
            is_lost = operation.outlives_node and profile.can_lose_node(rank)
            yield _build_single_group(
                _MOMENTS[operation.moment],
                _build_loss_ops(trigger, profile)
                if is_lost
                else _build_ending_ops(profile, trigger),
            )


def _build_epoch_groups(profile: JobProfile, draws: random.Random) -> Iterator[SiteGroup]:
    """Yield a place per epoch for faults of several ops or of a node, at a drawn rank and step.

    If no step is seen, the place is the return of a report.
    """
    for epoch in _find_fault_epochs(profile):
        # Drawn for every epoch, used or not, so that an epoch's length affects no other's place.
        rank = int(draws.random() * len(profile.ranks))
        first_draw, second_draw, third_draw = draws.random(), draws.random(), draws.random()
        steps = profile.steps.get(EpochRank(epoch, rank), 0)
        trigger = _find_trigger(profile, epoch, rank, first_draw)
        if trigger is None:
            continue
        if isinstance(trigger, AtStep) and steps > 1:
            first_step = 1 + int(second_draw * (steps - 1))
            second_step = first_step + 1 + int(third_draw * (steps - first_step))
            # On one rank, which arrives at the places in their order, attempt after attempt.
            triggers = (trigger.replace(step=step) for step in (first_step, second_step))
            yield _build_single_group("twice in one epoch", _build_ending_ops(profile, *triggers))
        # An op fires once per run, so the second of two at one place waits for the next attempt.
        yield _build_single_group(
            "same place in two attempts", _build_ending_ops(profile, trigger, trigger)
        )
        yield from _build_preemptions(profile, epoch, trigger)
        yield from _build_node_losses(profile, epoch, trigger, rank)


def _build_preemptions(
    profile: JobProfile, epoch: int, trigger: AtStep | AtMoment
) -> Iterator[SiteGroup]:
    """Yield the preemptions of a job that comes back into its queue, with the grace that it has.

    In the last epoch training may be over before the job has heard of it.
    """
    if not profile.facts.nodes.returns_preempted:
        return
    yield _build_single_group(
        PREEMPTED_AT_ONCE, (Op(index=0, at=trigger, preempt_node=PreemptNode(notice_s=0.0)),)
    )
    if profile.grace_s and epoch < max(1, profile.epoch_last):
        notice = PreemptNode(notice_s=profile.grace_s)
        yield _build_single_group(
            "notice before the loss", (Op(index=0, at=trigger, preempt_node=notice),)
        )


def _build_node_losses(
    profile: JobProfile, epoch: int, trigger: AtStep | AtMoment, rank: int
) -> Iterator[SiteGroup]:
    """Yield the losses of a node at a place, or without spares at that step of a rank that may go.

    There is a spare node from the start, or the next start is on another one; else another one
    comes, while the others wait, or where fewer may go on, once they do.
    """
    if not profile.facts.replaces_lost_nodes:
        if not profile.remote_ranks:
            return
        trigger = trigger.replace(rank=profile.remote_ranks[rank % len(profile.remote_ranks)])
    loss_ops = _build_loss_ops(trigger, profile)
    yield _build_single_group("node lost", loss_ops)
    if profile.is_elastic:
        yield _build_single_group("fewer workers after it", loss_ops[:1])
    if profile.facts.nodes.returns_preempted:
        return
    if (notice_s := _choose_notice_s(profile.remaining_s.get(epoch, 0.0))) is not None:
        notice = Op(index=0, at=trigger, preempt_node=PreemptNode(notice_s=notice_s))
        yield _build_single_group(
            "notice before the loss", (notice, *_build_return_ops(notice, profile))
        )


def _build_loss_ops(trigger: AtStep | AtMoment, profile: JobProfile) -> tuple[Op, ...]:
    loss_op = Op(index=0, at=trigger, kill_node=KillNode())
    return loss_op, *_build_return_ops(loss_op, profile)


def _build_return_ops(loss_op: Op, profile: JobProfile) -> tuple[Op, ...]:
    """Return the op by which a node comes back, at a place of one that stays; none with spares."""
    if profile.facts.replaces_lost_nodes:
        return ()
    if profile.is_elastic:
        trigger = AtRecovery(recovering_from=loss_op.index, stage="first_step", rank=0)
        return (Op(index=1, at=trigger, return_capacity=ReturnCapacity(nodes=1, hold=True)),)
    notice_s = loss_op.fault.notice_s if isinstance(loss_op.fault, PreemptNode) else 0.0
    node_return = ReturnCapacity(nodes=1, after_s=notice_s + COMES_AFTER_S)
    return (Op(index=1, at=loss_op.at.replace(rank=0), return_capacity=node_return),)


def _build_save_failures(profile: JobProfile) -> Iterator[SiteGroup]:
    """Yield the saves beside training, of which a job may not notice that they fail.

    Any other raises in the training itself, which ends the attempt as a kill does.
    """
    for epoch, rank in profile.background_saves:
        trigger = AtMoment(epoch=epoch, moment="saving", rank=rank)
        yield _build_single_group(
            "save fails beside training", (Op(index=0, at=trigger, fail_save=FailSave()),)
        )


def _build_answer_losses(profile: JobProfile) -> Iterator[SiteGroup]:
    """Yield the objects that are put: the store has them, and the client hears nothing of it.

    By itself that ends no attempt: a kill in the next epoch shows what a restart makes of it.
    """
    for operation in profile.operations:
        for epoch, rank in operation.places if operation.moment in OBJECT_MOMENTS else ():
            trigger = AtMoment(
                epoch=epoch, moment=operation.moment, path=operation.trigger_path, rank=rank
            )
            loss_op = Op(index=0, at=trigger, lose_answer=LoseAnswer())
            if EpochRank(epoch + 1, rank) in profile.steps:
                kill_trigger = AtStep(epoch=epoch + 1, step=1, rank=rank)
                yield _build_single_group(
                    PUT_ANSWER_LOST,
                    (loss_op, Op(index=1, at=kill_trigger, kill_worker=KillWorker())),
                )


def _build_triple_faults(profile: JobProfile, draws: random.Random) -> Iterator[SiteGroup]:
    for rank in profile.ranks:
        epochs = [
            e
            for e in _find_fault_epochs(profile)
            if _find_trigger(profile, e, rank, 0.0) is not None
        ]
        shares = [draws.random() for _ in range(_THRICE)]
        if len(epochs) < _THRICE:
            continue
        chosen_epochs = sorted(draws.sample(epochs, _THRICE))
        triggers = [
            trigger
            for epoch, share in zip(chosen_epochs, shares, strict=True)
            if (trigger := _find_trigger(profile, epoch, rank, share)) is not None
        ]
        yield _build_single_group(SEVERAL_FAULTS, _build_ending_ops(profile, *triggers))


def _build_loader_losses(profile: JobProfile) -> Iterator[SiteGroup]:
    """Yield the first step of each epoch and rank at which a data loader has processes.

    Most of its batches are still to come then, so that the loss is noticed.
    """
    for (epoch, rank), step in profile.loaders.items():
        trigger = AtStep(epoch=epoch, step=step, rank=rank)
        yield _build_single_group(
            "loader process lost", (Op(index=0, at=trigger, kill_loader=KillLoader()),)
        )


def _build_recovery_groups(profile: JobProfile, *, seed: int) -> Iterator[SiteGroup]:
    """Yield a kill at a drawn place of each epoch, and one as the group recovers from it.

    The latter is also inside a load, if a run with a fault has shown which ranks load, and
    only after the first save.
    """
    draws = random.Random(f"{seed}:recoveries")  # noqa: S311 (repeatable is the point)
    stages: tuple[Stage, ...] = ("start", "first_step") if profile.steps else ("start",)
    for epoch in _find_fault_epochs(profile):
        fault_rank, recovery_rank = (int(draws.random() * len(profile.ranks)) for _ in range(2))
        trigger = _find_trigger(profile, epoch, fault_rank, draws.random())
        if trigger is None:
            continue
        for stage in stages:
            yield _build_single_group(
                "during the recovery",
                _build_recovery_ops(profile, trigger, stage, profile.ranks[recovery_rank]),
            )
        fault_step = trigger.step if isinstance(trigger, AtStep) else inf
        follows_save = profile.resume_places and (epoch, fault_step) > profile.resume_places[0]
        for rank in profile.loading_ranks if follows_save else ():
            yield _build_single_group(
                INSIDE_LOAD, _build_recovery_ops(profile, trigger, "loading", rank)
            )


def _build_recovery_ops(
    profile: JobProfile, trigger: Trigger, stage: Stage, rank: int
) -> tuple[Op, ...]:
    return _build_ending_ops(
        profile, trigger, AtRecovery(recovering_from=0, stage=stage, rank=rank)
    )


def _find_fault_epochs(profile: JobProfile) -> list[int]:
    return sorted({epoch for epoch, _ in profile.steps}) or list(profile.epochs)


def _find_trigger(
    profile: JobProfile, epoch: int, rank: int, share: float
) -> AtStep | AtMoment | None:
    """Return the place of one rank at this share of an epoch's steps, None if it has no step.

    If no step is seen at all, the place is the return of the report.
    """
    if not profile.steps:
        return AtMoment(epoch=epoch, moment="reported", rank=rank)
    steps = profile.steps.get(EpochRank(epoch, rank), 0)
    return AtStep(epoch=epoch, step=1 + int(share * steps), rank=rank) if steps else None


def _choose_notice_s(left_s: float) -> float | None:
    """Return a notice that ends while the job still trains; None if there is no time."""
    notice_s = round(min(NOTICE_PART * left_s, NOTICE_MAX_S), 3)
    return notice_s if notice_s >= NOTICE_MIN_S else None


def _build_single_group(group: SiteCategory, ops: tuple[Op, ...]) -> SiteGroup:
    return SiteGroup(group, ops[0].at.epoch, 1, lambda _: ops)


def _build_ending_ops(profile: JobProfile, *triggers: Trigger) -> tuple[Op, ...]:
    """Return ops that end an attempt each, after which the launcher begins another by itself."""
    name = profile.facts.sites.ending_fault
    fault: dict[str, Any] = {name: FAULTS[name]()}
    return tuple(Op(index=n, at=trigger, **fault) for n, trigger in enumerate(triggers))


def _describe_ops(ops: tuple[Op, ...]) -> str:
    name = ", then ".join(_describe_trigger(op.at) for op in ops if not op.fault.nodes_added)
    fault, trigger = ops[0].fault, ops[0].at
    if (
        isinstance(fault, KillNode)
        and isinstance(trigger, AtMoment)
        and trigger.moment in SAVE_MOMENTS
    ):
        return f"{name}, its node is lost"
    if isinstance(fault, PreemptNode) and fault.notice_s:
        return f"{name}, {fault.notice_s:g} s notice"
    return name


def _describe_trigger(trigger: Trigger) -> str:
    if isinstance(trigger, AtRecovery):
        return f"{_STAGES[trigger.stage]}, rank {trigger.rank}"
    return str(trigger).replace("_", " ")
