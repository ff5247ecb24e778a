"""Places of one group, epoch and rank, from which a sample is drawn.

Such a place group has the number of its places, and makes them one by one, so that a job
of a million steps costs no more than one of a hundred.
"""

import random
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from typing import TypeAlias

from chaos.audit.group import (
    ANSWERS,
    IN_SAVES,
    LOADS,
    PREEMPTED,
    SEVERAL,
    Group,
    before_first,
    is_had,
)
from chaos.audit.job_profile import JobProfile
from chaos.faults.fail_save import FailSave
from chaos.faults.kill_loader import KillLoader
from chaos.faults.kill_node import KillNode
from chaos.faults.kill_worker import KillWorker
from chaos.faults.lose_answer import LoseAnswer
from chaos.faults.preempt_node import PreemptNode
from chaos.faults.requeue_job import RequeueJob
from chaos.faults.return_capacity import ReturnCapacity
from chaos.model.places import EpochRank, FloatPlace, Place
from chaos.model.plan import Op
from chaos.model.trigger import (
    IN_A_SAVE,
    MOMENTS,
    OF_AN_OBJECT,
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
Unit: TypeAlias = tuple[Group, str, str]


def unit_of(group: Group, ops: tuple[Op, ...]) -> Unit:
    """Return the unit of places to which ops belong."""
    at = ops[0].at
    if group not in (IN_SAVES, ANSWERS) or not isinstance(at, AtMoment):
        return group, "", ""
    return group, at.moment, at.path or ""


@dataclass(frozen=True)
class FaultPlace:
    """A place with a name and a group, and the ops with a fault there."""

    name: str
    group: Group
    ops: tuple[Op, ...]

    @property
    def order(self) -> tuple[int, int, int, int, int]:
        """Numbers to sort by: those of an earlier place in training are smaller."""
        return order_of(self.ops[0])

    @property
    def key(self) -> PlaceKey:
        """Its name in other audits of the job."""
        return tuple((op.kind, op.at) for op in self.ops)

    @property
    def epoch(self) -> int:
        """The epoch of its first op."""
        return self.ops[0].at.epoch

    @property
    def unit(self) -> Unit:
        """Its group and, inside a save, the operation: an answer needs a place of each."""
        return unit_of(self.group, self.ops)

    @property
    def ends_attempts(self) -> bool:
        """Whether each of its faults surely ends an attempt, and does so at its place."""
        faults = [op.fault for op in self.ops]
        return all(f.ends_attempt == "always" and not f.is_announced for f in faults)


def order_of(op: Op) -> tuple[int, int, int, int, int]:
    """Return a place as numbers to sort by: an epoch's moments come after its steps."""
    at = op.at
    rank = -1 if at.rank is None else at.rank
    if isinstance(at, AtMoment):
        return at.epoch, 1, MOMENTS.index(at.moment), rank, op.index
    return at.epoch, 0, at.step, rank, op.index


def point_before(op: Op, profile: JobProfile) -> Place | None:
    """Return the last point before an op that has training left after it."""
    points = profile.resume_points
    if isinstance(op.at, AtRecovery) or not points:
        return None
    place = place_in_training(op, profile)
    known = bisect_left(profile.points, place)
    # The last ones may have no training left after them.
    return profile.points[known - 1] if 0 < known <= len(points) else None


def place_in_training(op: Op, profile: JobProfile) -> FloatPlace:
    """Return an op's place, in a form in which the points before it are smaller."""
    at = op.at
    if isinstance(at, AtStep):
        return FloatPlace(at.epoch, at.step)
    if isinstance(at, AtMoment) and at.moment == "committed":
        return FloatPlace(at.epoch + 1, 0.5)
    after = inf
    if isinstance(at, AtMoment):
        after = min(_steps_before(at, profile), default=inf)
    return FloatPlace(at.epoch, after)


def _steps_before(at: AtMoment, profile: JobProfile) -> Iterator[float]:
    """Yield the steps of its epoch before a moment of validation or of a save, if it comes."""
    place = EpochRank(at.epoch, at.rank or 0)
    if at.moment == "validating" and place in profile.validations:
        yield profile.validations[place]
    for one in profile.operations:
        if one.moment == at.moment and at.path in (None, one.asked) and place in one.places:
            yield one.places[place]


# A notice takes this share of the time that training has left, within bounds (seconds).
NOTICE_PART, NOTICE_MIN_S, NOTICE_MAX_S = 0.4, 0.1, 5.0

_THRICE = 3
_MOMENTS: dict[Moment, Group] = {
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
class PlaceGroup:
    """The places of one kind."""

    group: Group
    #: that of the first op
    epoch: int
    size: int
    #: returns the ops of the n-th place, counted from 0
    ops: Callable[[int], tuple[Op, ...]]

    @property
    def unit(self) -> Unit:
        """That of its places."""
        return unit_of(self.group, self.ops(0))

    def place(self, number: int) -> FaultPlace:
        """Return one of its places with its ops."""
        ops = self.ops(number)
        return FaultPlace(name=_name(ops), group=self.group, ops=ops)


def place_groups(profile: JobProfile, *, seed: int) -> tuple[PlaceGroup, ...]:
    """Return all place groups of a job; those of several ops draw their steps from the seed."""
    draws = random.Random(f"{seed}:places")  # noqa: S311 (repeatable is the point)
    found = [*_single_steps(profile), *_moments(profile), *_in_epochs(profile, draws)]
    found += (*_thrice(profile, draws), *_loader_losses(profile), *_failing_saves(profile))
    found += _lost_answers(profile)
    found += _recoveries(profile, seed=seed)
    found = [group for group in found if is_had(group.group, profile.facts)]
    if (most := profile.most_faults) is not None:
        found = [group for group in found if len(group.ops(0)) <= most]
    if not profile.away or not profile.facts.lacks_part("queue"):
        return tuple(found)
    return tuple(group for group in found if not (group.size == 1 and _is_late(group, profile)))


def _is_late(group: PlaceGroup, profile: JobProfile) -> bool:
    """Return whether a place comes when workers on other nodes may have ended well.

    torchelastic restarts these no more, and the agents of the others wait for theirs in vain. A
    notice takes a moment to reach a worker, which trains on meanwhile.
    """
    last = profile.epoch_last
    end = last, max((n for (epoch, _), n in profile.steps.items() if epoch == last), default=0)
    ops = [op for op in group.ops(0) if not isinstance(op.at, AtRecovery)]
    is_notice = group.group == "notice before the loss" and last > 0
    return any(
        place_in_training(op, profile) >= end or (is_notice and op.at.epoch == last) for op in ops
    )


def _single_steps(profile: JobProfile) -> Iterator[PlaceGroup]:
    """Yield every step of every rank, each in one group.

    In a job that reports by the clock, no step is known to be the last of its epoch.
    """
    first = profile.points[0] if profile.points else (1, 0)
    before = before_first(profile.facts)
    for (epoch, rank), steps in profile.steps.items():
        if profile.by_clock:
            within: Group = before if epoch < first[0] else "mid-epoch"
            yield PlaceGroup(within, epoch, steps, _ender(profile, epoch, 1, rank))
            continue
        yield PlaceGroup("epoch boundary", epoch, 1, _ender(profile, epoch, steps, rank))
        inner = steps - 1
        early = inner if epoch < first[0] else min(first[1], inner) if epoch == first[0] else 0
        late: Group = "last epoch" if epoch == profile.epoch_last else "mid-epoch"
        if early:
            yield PlaceGroup(before, epoch, early, _ender(profile, epoch, 1, rank))
        if inner > early:
            yield PlaceGroup(late, epoch, inner - early, _ender(profile, epoch, 1 + early, rank))


def _ender(
    profile: JobProfile, epoch: int, first: int, rank: int
) -> Callable[[int], tuple[Op, ...]]:
    return lambda n: _ends(profile, AtStep(epoch=epoch, step=first + n, rank=rank))


def _moments(profile: JobProfile) -> Iterator[PlaceGroup]:
    for moment, group in _MOMENTS.items():
        for epoch, rank in profile.moments[moment] if moment not in IN_A_SAVE else ():
            at = AtMoment(epoch=epoch, moment=moment, rank=rank)
            yield _single(group, _ends(profile, at))
    for one in profile.operations:
        for epoch, rank in one.places:
            at = AtMoment(epoch=epoch, moment=one.moment, path=one.asked, rank=rank)
            # After the end of the process alone the job goes on from the node's disk, and never
            # looks at what is half done elsewhere.
            is_lost = one.outlives_node and profile.loses_node_of(rank)
            yield _single(
                _MOMENTS[one.moment], _loss(at, profile) if is_lost else _ends(profile, at)
            )


def _in_epochs(profile: JobProfile, draws: random.Random) -> Iterator[PlaceGroup]:
    """Yield a place per epoch for faults of several ops or of a node, at a drawn rank and step.

    If no step is seen, the place is the return of a report.
    """
    for epoch in _tried_epochs(profile):
        # Drawn for every epoch, used or not, so that an epoch's length affects no other's place.
        rank = int(draws.random() * len(profile.ranks))
        one, other, third = draws.random(), draws.random(), draws.random()
        steps = profile.steps.get(EpochRank(epoch, rank), 0)
        at = _within(profile, epoch, rank, one)
        if at is None:
            continue
        if isinstance(at, AtStep) and steps > 1:
            early = 1 + int(other * (steps - 1))
            late = early + 1 + int(third * (steps - early))
            # On one rank, which arrives at the places in their order, attempt after attempt.
            pair = (at.model_copy(update={"step": step}) for step in (early, late))
            yield _single("twice in one epoch", _ends(profile, *pair))
        # An op fires once per run, so the second of two at one place waits for the next attempt.
        yield _single("same place in two attempts", _ends(profile, at, at))
        yield from _preemptions(profile, epoch, at)
        yield from _lost_nodes(profile, epoch, at, rank)


def _preemptions(profile: JobProfile, epoch: int, at: AtStep | AtMoment) -> Iterator[PlaceGroup]:
    """Yield the preemptions of a job that comes back into its queue, with the grace that it has.

    In the last epoch training may be over before the job has heard of it.
    """
    if profile.facts.lacks_part("queue"):
        return
    yield _single(PREEMPTED, (Op(index=0, at=at, preempt_node=PreemptNode(notice_s=0.0)),))
    if profile.grace_s and epoch < max(1, profile.epoch_last):
        notice = PreemptNode(notice_s=profile.grace_s)
        yield _single("notice before the loss", (Op(index=0, at=at, preempt_node=notice),))


def _lost_nodes(
    profile: JobProfile, epoch: int, at: AtStep | AtMoment, rank: int
) -> Iterator[PlaceGroup]:
    """Yield the losses of a node at a place, or without spares at that step of a rank that may go.

    There is a spare node from the start, or the next start is on another one; else another one
    comes, while the others wait, or where fewer may go on, once they do.
    """
    if not profile.facts.loses_nodes:
        if not profile.away:
            return
        at = at.model_copy(update={"rank": profile.away[rank % len(profile.away)]})
    lost = _loss(at, profile)
    yield _single("node lost", lost)
    if profile.is_elastic:
        yield _single("fewer workers after it", lost[:1])
    if not profile.facts.lacks_part("queue"):
        return
    if (notice_s := _notice_s(profile.left_s.get(epoch, 0.0))) is not None:
        notice = Op(index=0, at=at, preempt_node=PreemptNode(notice_s=notice_s))
        yield _single("notice before the loss", (notice, *_return(notice, profile)))


def _loss(at: AtStep | AtMoment, profile: JobProfile) -> tuple[Op, ...]:
    lost = Op(index=0, at=at, kill_node=KillNode())
    return lost, *_return(lost, profile)


def _return(lost: Op, profile: JobProfile) -> tuple[Op, ...]:
    """Return the op by which a node comes back, at a place of one that stays; none with spares."""
    if profile.facts.loses_nodes:
        return ()
    if profile.is_elastic:
        at = AtRecovery(recovering_from=lost.index, stage="first_step", rank=0)
        return (Op(index=1, at=at, return_capacity=ReturnCapacity(nodes=1, hold=True)),)
    notice_s = lost.fault.notice_s if isinstance(lost.fault, PreemptNode) else 0.0
    comes = ReturnCapacity(nodes=1, after_s=notice_s + COMES_AFTER_S)
    return (Op(index=1, at=lost.at.model_copy(update={"rank": 0}), return_capacity=comes),)


def _failing_saves(profile: JobProfile) -> Iterator[PlaceGroup]:
    """Yield the saves beside training, of which a job may not notice that they fail.

    Any other raises in the training itself, which ends the attempt as a kill does.
    """
    for epoch, rank in profile.beside:
        at = AtMoment(epoch=epoch, moment="saving", rank=rank)
        yield _single("save fails beside training", (Op(index=0, at=at, fail_save=FailSave()),))


def _lost_answers(profile: JobProfile) -> Iterator[PlaceGroup]:
    """Yield the objects that are put: the store has them, and the client hears nothing of it.

    By itself that ends no attempt: a kill in the next epoch shows what a restart makes of it.
    """
    for one in profile.operations:
        for epoch, rank in one.places if one.moment in OF_AN_OBJECT else ():
            at = AtMoment(epoch=epoch, moment=one.moment, path=one.asked, rank=rank)
            lost = Op(index=0, at=at, lose_answer=LoseAnswer())
            if EpochRank(epoch + 1, rank) in profile.steps:
                then = AtStep(epoch=epoch + 1, step=1, rank=rank)
                yield _single(ANSWERS, (lost, Op(index=1, at=then, kill_worker=KillWorker())))


def _thrice(profile: JobProfile, draws: random.Random) -> Iterator[PlaceGroup]:
    for rank in profile.ranks:
        epochs = [e for e in _tried_epochs(profile) if _within(profile, e, rank, 0.0) is not None]
        shares = [draws.random() for _ in range(_THRICE)]
        if len(epochs) < _THRICE:
            continue
        chosen = sorted(draws.sample(epochs, _THRICE))
        places = [
            at
            for epoch, share in zip(chosen, shares, strict=True)
            if (at := _within(profile, epoch, rank, share)) is not None
        ]
        yield _single(SEVERAL, _ends(profile, *places))


def _loader_losses(profile: JobProfile) -> Iterator[PlaceGroup]:
    """Yield the first step of each epoch and rank at which a data loader has processes.

    Most of its batches are still to come then, so that the loss is noticed.
    """
    for (epoch, rank), step in profile.loaders.items():
        at = AtStep(epoch=epoch, step=step, rank=rank)
        yield _single("loader process lost", (Op(index=0, at=at, kill_loader=KillLoader()),))


def _recoveries(profile: JobProfile, *, seed: int) -> Iterator[PlaceGroup]:
    """Yield a kill at a drawn place of each epoch, and one as the group recovers from it.

    The latter is also inside a load, if a run with a fault has shown which ranks load, and
    only after the first save.
    """
    draws = random.Random(f"{seed}:recoveries")  # noqa: S311 (repeatable is the point)
    stages: tuple[Stage, ...] = ("start", "first_step") if profile.steps else ("start",)
    for epoch in _tried_epochs(profile):
        first, again = (int(draws.random() * len(profile.ranks)) for _ in range(2))
        at = _within(profile, epoch, first, draws.random())
        if at is None:
            continue
        for stage in stages:
            yield _single("during the recovery", _again(profile, at, stage, profile.ranks[again]))
        after = at.step if isinstance(at, AtStep) else inf
        follows_a_save = profile.points and (epoch, after) > profile.points[0]
        for rank in profile.loads if follows_a_save else ():
            yield _single(LOADS, _again(profile, at, "loading", rank))


def _again(profile: JobProfile, at: Trigger, stage: Stage, rank: int) -> tuple[Op, ...]:
    return _ends(profile, at, AtRecovery(recovering_from=0, stage=stage, rank=rank))


def _tried_epochs(profile: JobProfile) -> list[int]:
    return sorted({epoch for epoch, _ in profile.steps}) or list(profile.epochs)


def _within(profile: JobProfile, epoch: int, rank: int, share: float) -> AtStep | AtMoment | None:
    """Return the place of one rank at this share of an epoch's steps, None if it has no step.

    If no step is seen at all, the place is the return of the report.
    """
    if not profile.steps:
        return AtMoment(epoch=epoch, moment="reported", rank=rank)
    steps = profile.steps.get(EpochRank(epoch, rank), 0)
    return AtStep(epoch=epoch, step=1 + int(share * steps), rank=rank) if steps else None


def _notice_s(left_s: float) -> float | None:
    """Return a notice that ends while the job still trains; None if there is no time."""
    notice_s = round(min(NOTICE_PART * left_s, NOTICE_MAX_S), 3)
    return notice_s if notice_s >= NOTICE_MIN_S else None


def _single(group: Group, ops: tuple[Op, ...]) -> PlaceGroup:
    return PlaceGroup(group, ops[0].at.epoch, 1, lambda _: ops)


def _ends(profile: JobProfile, *places: Trigger) -> tuple[Op, ...]:
    """Return ops that end an attempt each, after which the launcher begins another by itself."""
    if profile.facts.begins_again_by_requeue:
        return tuple(Op(index=n, at=at, requeue_job=RequeueJob()) for n, at in enumerate(places))
    return tuple(Op(index=n, at=at, kill_worker=KillWorker()) for n, at in enumerate(places))


def _name(ops: tuple[Op, ...]) -> str:
    name = ", then ".join(_place_name(op.at) for op in ops if not op.fault.nodes_added)
    fault, at = ops[0].fault, ops[0].at
    if isinstance(fault, KillNode) and isinstance(at, AtMoment) and at.moment in IN_A_SAVE:
        return f"{name}, its node is lost"
    if isinstance(fault, PreemptNode) and fault.notice_s:
        return f"{name}, {fault.notice_s:g} s notice"
    return name


def _place_name(at: Trigger) -> str:
    if isinstance(at, AtRecovery):
        return f"{_STAGES[at.stage]}, rank {at.rank}"
    return str(at).replace("_", " ")
