"""The injections as rows: one per op of the plan, and per attempt that a repeated op hit."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, TypeAlias

from chaos.check.attempt import Attempt
from chaos.check.drivers import TwoDrivers
from chaos.check.ending import Ending
from chaos.faults.world import Status
from chaos.model.causes import is_own_error
from chaos.model.event import (
    ControllerState,
    FaultEnded,
    FaultInvoked,
    GateReached,
    GateReleased,
    MembershipChanged,
    NodeReclaimed,
    NoticeGiven,
    StorageFaulted,
    TrainFnEnded,
)
from chaos.model.history import History
from chaos.model.plan import Op, Plan
from chaos.model.trigger import AtState

Budget: TypeAlias = Literal["failures", "preemptions"]

# Ray 2.60 ends a preempted group itself at the deadline, by its own clock.
EARLY_NS = 1_000_000_000


@dataclass(frozen=True)
class Injection:
    """One op with all events of it, in one attempt if the fault is repeated."""

    op: Op
    gates: tuple[int, ...]
    invoked: tuple[tuple[int, FaultInvoked], ...]
    ended: tuple[tuple[int, FaultEnded], ...]
    #: the time at which the harm was due: at once, or at the notice's deadline
    harm_ns: int | None
    ended_ns: int | None
    #: the attempt that it took workers from; None where it did not land, or hit no worker
    hit: int | None = None
    #: it was begun, and may have done harm that was not seen
    is_in_doubt: bool = False
    #: training was over before the harm was done, and the op was not meant for that
    came_too_late: bool = False
    #: the events of the run's storage, for a storage fault
    effects: tuple[tuple[int, StorageFaulted], ...] = ()
    #: the further attempts that it took workers from, each with the time
    also_hit: tuple[tuple[int, int], ...] = ()
    #: a platform announced and took the node
    is_reclaimed: bool = False
    #: the cluster was seen to hear of a platform's announcement
    is_announced: bool = False
    #: it was announced to Ray, and came by the clock; torchrun knows SIGTERM alone, which ends its
    #: workers at once
    is_preemption: bool = False
    #: the rank trained on before the harm was done
    is_released_first: bool = False
    #: the process lived on when its end was waited for, and the signal ended it later: what its
    #: attempt failed of
    later_end: str = ""

    @property
    def hits(self) -> dict[int, int | None]:
        """The attempts that it took workers from, each with the time of the harm."""
        return {} if self.hit is None else {self.hit: self.harm_ns, **dict(self.also_hit)}

    @property
    def is_in_storage(self) -> bool:
        """Whether it takes effect in the run's storage, and takes no process by itself."""
        return self.op.fault.family == "storage"

    @property
    def landed(self) -> bool:
        """Whether its effect was seen."""
        return bool(self.invoked) and self.status == "ok"

    @property
    def failed(self) -> bool:
        """Whether it certainly did no harm."""
        return self.status == "fail"

    @property
    def status(self) -> Status | None:
        """The outcome of its one injection; None where that is not known, or there are several."""
        if self.later_end:
            return "ok"
        return self.ended[0][1].status if len(self.ended) == 1 else None

    @property
    def detail(self) -> str:
        """Its outcome in words."""
        words = self.ended[-1][1].detail if self.ended else ""
        return (
            f"{words}, and its attempt failed later: {self.later_end}" if self.later_end else words
        )

    @property
    def spares(self) -> bool:
        """Whether it landed and ended no attempt, as is usual for its kind."""
        return self.landed and self.hit is None and _is_sparing(self.op)

    @property
    def budget(self) -> Budget | None:
        """The budget that Ray charges; None where it is no failure of a worker group."""
        if not self.op.fault.needs_worker:
            return None
        return "preemptions" if self.is_preemption else "failures"

    @property
    def is_exact(self) -> bool:
        """Whether the harm was done while a rank was held, with all earlier epochs committed."""
        is_held = self.op.holds_a_worker and not (self.is_released_first or self.later_end)
        return is_held and not (self.is_announced or self.is_reclaimed)

    @property
    def rank(self) -> int | None:
        """The target's rank, hit or planned."""
        return self.invoked[0][1].rank if self.invoked else self.op.target_rank

    @property
    def events(self) -> tuple[int, ...]:
        return tuple(number for number, _ in (*self.invoked, *self.ended))


def _is_sparing(op: Op) -> bool:
    """Return whether a fault usually leaves its attempt alive; for storage the history decides.

    Ray 2.60 watches no progress. So a hang or a long pause ends an attempt only where the job's own
    time-outs, its peers', or those of a node's health end it.
    """
    return op.fault.family != "storage" and op.fault.ends_attempt != "always"


def injections(
    plan: Plan,
    history: History,
    attempts: Sequence[Attempt],
    ending: Ending,
    drivers: TwoDrivers | None = None,
) -> tuple[Injection, ...]:
    """Return the events of every op of the plan, joined, in plan order.

    `drivers`: the drivers of the run, if a fault started a second one.
    """
    notices = {notice.op: notice.deadline_ns for _, notice in history.of(NoticeGiven)}
    reclaimed = [(history.time_ns(n), e) for n, e in history.of(NodeReclaimed)]
    by_platform = {e.node_id for _, e in reclaimed if e.stage == "announced"}
    gone = {e.node_id: time_ns for time_ns, e in reclaimed if e.stage == "gone"}
    found = []
    for op in plan.ops:
        for gates, mine, over in _turns(op, history):
            began_ns = history.time_ns(mine[0][0]) if mine else None
            node_id = mine[0][1].node_id if mine else ""
            is_reclaimed = node_id in by_platform
            is_announced = op.index in notices if is_reclaimed else op.fault.is_announced
            is_preemption = is_announced and "preemptions" in plan.job.facts.budgets
            injection = Injection(
                op=op,
                is_reclaimed=is_reclaimed,
                is_announced=is_announced,
                is_preemption=is_preemption,
                gates=gates,
                invoked=mine,
                ended=over,
                harm_ns=_harm_ns(
                    op,
                    began_ns,
                    notices.get(op.index) if is_preemption else None,
                    gone.get(node_id),
                ),
                ended_ns=history.time_ns(over[0][0]) if over else None,
                is_in_doubt=bool(mine) and op.absent is not None,
                is_released_first=_is_released_first(op, mine, over, history),
                effects=tuple((n, e) for n, e in history.of(StorageFaulted) if e.op == op.index),
            )
            found.append(_with_effect(injection, history, attempts, ending))
            if drivers is not None and op.fault.starts_driver and found[-1].landed:
                hit = _followed(attempts, drivers.second)
                found[-1] = replace(found[-1], hit=hit, is_in_doubt=not drivers.has_begun)
    return tuple(_forestalled(injection, found, history, attempts) for injection in found)


def _followed(attempts: Sequence[Attempt], second: frozenset[int]) -> int | None:
    """Return the last attempt of the first driver that one of the second driver follows."""
    begun = min((a.index for a in attempts if a.index in second), default=0)
    return max((a.index for a in attempts if a.index < begun), default=None)


def _harm_ns(
    op: Op, began_ns: int | None, deadline_ns: int | None, gone_ns: int | None
) -> int | None:
    """Return the time of the harm: a node that stays past its deadline is given up at it.

    `gone_ns`: when a node that a platform had announced was seen to be gone.
    """
    if gone_ns is not None and op.fault.nodes_lost:
        return gone_ns if deadline_ns is None else min(deadline_ns, gone_ns)
    if deadline_ns is None:
        return began_ns
    loss_ns = op.fault.loss_ns(deadline_ns)
    return deadline_ns if loss_ns is None else min(loss_ns, deadline_ns)


_Invoked = tuple[tuple[int, FaultInvoked], ...]
_Ended = tuple[tuple[int, FaultEnded], ...]


def _turns(op: Op, history: History) -> Iterator[tuple[tuple[int, ...], _Invoked, _Ended]]:
    """Yield an op's events: all at once, or attempt by attempt if the fault is repeated.

    A turn is over before the next begins: the outcome of an injection is recorded before another
    attempt can start.
    """
    gates = tuple(n for n, e in history.of(GateReached) if e.op == op.index)
    invoked = tuple((n, e) for n, e in history.of(FaultInvoked) if e.op == op.index)
    ended = tuple((n, e) for n, e in history.of(FaultEnded) if e.op == op.index)
    if not op.fault.is_repeated or len(invoked) < 2:  # noqa: PLR2004 - one turn, or none
        yield gates, invoked, ended
        return
    begins = (max((g for g in gates if g < n), default=n) for n, _ in invoked[1:])
    starts = [0, *begins]
    for start, end in zip(starts, [*starts[1:], len(history)], strict=True):
        yield (
            tuple(n for n in gates if start <= n < end),
            tuple((n, e) for n, e in invoked if start <= n < end),
            tuple((n, e) for n, e in ended if start <= n < end),
        )


def _with_effect(
    injection: Injection, history: History, attempts: Sequence[Attempt], ending: Ending
) -> Injection:
    # Whether a fault ended an attempt is inferred: it and Ray's decision are events of different
    # processes, and other faults may come in between. The questions, in this order:
    #
    #   storage      its effects say which attempts they ended; the op's own outcome does not
    #   not landed   no harm, if it certainly failed and the attempt did not break all the same;
    #                else a doubt, which no check may take for a pass
    #   announced    by the deadline the job may have moved on, or be over
    #   capacity     the attempt that Ray ended by itself to go on with more workers
    #   the others   the attempt of the target, unless its training was over by then
    if not injection.invoked or injection.is_in_doubt:
        return injection
    struck = injection.invoked[0][1].attempt
    if injection.is_in_storage:
        return _in_storage(injection, history, attempts)
    broke = any(a.index == struck and a.decisions for a in attempts)
    if injection.failed and (error := _error_after_signal(injection, attempts)):
        injection = replace(injection, later_end=error, harm_ns=injection.ended_ns)
    if not injection.landed:
        # A fault that certainly failed did no harm, unless the attempt broke all the same.
        return replace(injection, is_in_doubt=broke or not injection.failed)
    if injection.is_preemption:
        hit = _hit_at_deadline(injection, history, attempts, ending)
        too_late = hit is None and _was_over(injection, history, attempts, ending)
        return replace(injection, hit=hit, came_too_late=too_late)
    if injection.op.fault.family == "capacity":
        hit = _grown(attempts, history, since=struck)
        return replace(injection, hit=hit, harm_ns=injection.ended_ns)
    # A fault that may spare its attempt ended it only if Ray decided on a failure there.
    ended = not _is_sparing(injection.op) or (broke and injection.op.fault.ends_attempt != "never")
    late = _came_after_training(injection, history, attempts)
    too_late = late and not is_meant_for_the_end(injection.op)
    return replace(injection, hit=struck if ended and not late else None, came_too_late=too_late)


def _came_after_training(
    injection: Injection, history: History, attempts: Sequence[Attempt]
) -> bool:
    """Return whether the workers taken had finished training: then no attempt ended by it."""
    if _is_sparing(injection.op) or injection.op.fault.family == "control":
        return False
    number, invoked = injection.invoked[0]
    if injection.is_released_first and injection.ended:
        number = injection.ended[-1][0]  # the rank may have finished before the signal ended it
    struck = next((a for a in attempts if a.index == invoked.attempt), None)
    return struck is not None and training_was_over(injection.op, struck, history, invoked=number)


def _is_released_first(op: Op, invoked: _Invoked, ended: _Ended, history: History) -> bool:
    """Return whether the rank was let go before the harm, where that ends its attempt."""
    if not (op.fault.lets_go_first and op.fault.ends_attempt == "always" and invoked):
        return False
    # The end of every injection releases the rank, too.
    until = ended[0][0] if ended else len(history)
    return any(e.op == op.index and invoked[0][0] < n < until for n, e in history.of(GateReleased))


def _error_after_signal(injection: Injection, attempts: Sequence[Attempt]) -> str:
    """Return what the attempt failed of after a signal that had seemed to do no harm, if it did.

    A process may take a signal later than its end is waited for. An exception of the job's own is
    no end by a signal.
    """
    ended, outcome = injection.ended[0]
    if not outcome.signal_sent:
        return ""
    struck = injection.invoked[0][1].attempt
    decisions = [d for a in attempts if a.index == struck for d in a.decisions if d.number > ended]
    errors = [error for d in decisions for error in (*d.event.errors.values(),) or (d.event.error,)]
    return "" if any(map(is_own_error, errors)) else next(iter(errors), "")


def _in_storage(injection: Injection, history: History, attempts: Sequence[Attempt]) -> Injection:
    """Return a storage fault with the attempts that its effects ended, if it had any."""
    if not injection.effects:
        return replace(injection, is_in_doubt=not injection.failed)
    hits = harmed(injection.effects, history, attempts)
    if not hits:
        return replace(injection, harm_ns=history.time_ns(injection.effects[0][0]))
    (first, harm_ns), *also_hit = hits.items()
    return replace(injection, hit=first, harm_ns=harm_ns, also_hit=tuple(also_hit))


def _grown(attempts: Sequence[Attempt], history: History, *, since: int) -> int | None:
    """Return the attempt that Ray or torchrun itself ended, to continue with more workers.

    As one of torchrun's agents ends its workers, those of another may fail before it does so, too.
    """
    joined = {event.attempt for _, event in history.of(MembershipChanged)}
    for attempt, after in pairwise(attempts):
        by_itself = not attempt.decisions or attempt.index in joined
        if attempt.index >= since and by_itself and after.size > attempt.size:
            return attempt.index
    return None


def _was_over(
    injection: Injection, history: History, attempts: Sequence[Attempt], ending: Ending
) -> bool:
    """Return whether training was over when a preempted node went, so no worker was hit."""
    if ending.returned is None:
        return False
    assert injection.harm_ns is not None
    if history.time_ns(ending.returned[0]) <= injection.harm_ns:
        return True
    # fit() returns some time after its workers are done.
    return not any(attempt.index > injection.invoked[0][1].attempt for attempt in attempts)


def _hit_at_deadline(
    injection: Injection, history: History, attempts: Sequence[Attempt], ending: Ending
) -> int | None:
    """Return the attempt that a preemption ended.

    The job may have moved on or be over by the deadline. The loss of a node without workers ends no
    attempt.
    """
    # Ray's own word first: an attempt that was charged as a preemption ended by it, at whatever
    # moment. Ray Train may give the attempt up between the deadline and the node's end, or charge a
    # failure by the error that its poll holds (note 5), so that without such a charge the clock is
    # all there is.
    assert injection.harm_ns is not None
    struck = injection.invoked[0][1]
    for attempt in attempts:
        charged = (decision.event.charged for decision in attempt.decisions)
        if attempt.index == struck.attempt and "preemptions" in charged:
            return attempt.index
    if injection.op.fault.loss_ns(injection.harm_ns) is None:
        return None  # Ray ends the attempt at the deadline, or believes the node that stays
    # Without a decision of Ray's, it hit the attempt that was open when the node went, if that had
    # workers there, had not failed before, and is not the one in which the job finished.
    begun = [
        attempt
        for attempt in attempts
        if attempt.group_started is None
        or history.time_ns(attempt.group_started) <= injection.harm_ns
    ]
    if not begun:
        return None
    last = begun[-1]
    decided_ns = [history.time_ns(decision.number) for decision in last.decisions]
    was_over = bool(decided_ns) and decided_ns[0] < injection.harm_ns - EARLY_NS
    finished_in_it = ending.is_finished and not decided_ns and last is attempts[-1]
    is_there = not last.places or any(p.node_id == struck.node_id for p in last.places)
    return last.index if is_there and not was_over and not finished_in_it else None


def _forestalled(
    injection: Injection, others: Sequence[Injection], history: History, attempts: Sequence[Attempt]
) -> Injection:
    """Remove the hit of a preemption whose group another fault had ended before its node went.

    Ray then charges a failure, and rightly.
    """
    # Two faults, one attempt: a worker is killed within the notice of its node. The kill ends the
    # group, Ray charges a failure for it, and the node goes later without workers of the job. To
    # say that the preemption hit would make the right charge look like one to the wrong budget.
    # The order of three moments decides, and all three must be known.
    if not injection.is_preemption or injection.hit is None or injection.harm_ns is None:
        return injection
    decisions = next(a.decisions for a in attempts if a.index == injection.hit)
    if not decisions or decisions[0].event.charged != "failures":
        return injection
    decided_ns = history.time_ns(decisions[0].number)
    by_another = any(
        other.hit == injection.hit
        and not other.is_preemption
        and other.harm_ns is not None
        and other.harm_ns < decided_ns < injection.harm_ns
        for other in others
    )
    return replace(injection, hit=None) if by_another else injection


# -- after training --------------------------------------------------------------------------------


# Ray 2.60's controller enters them once every train function has returned, or failed for good.
OVER = ("SHUTTING_DOWN", "FINISHED")


def is_meant_for_the_end(op: Op) -> bool:
    """Return whether an op's own place is one after training."""
    return isinstance(op.at, AtState) and op.at.state in OVER


def training_was_over(op: Op, struck: Attempt, history: History, *, invoked: int) -> bool:
    """Return whether an attempt had finished training when an op began; `invoked`: its event.

    Then Ray has no failure to decide on. An attempt with a decision was not over.
    """
    if struck.decisions:
        return False
    since = struck.group_started or 0
    was_over = any(since < n < invoked and e.state in OVER for n, e in history.of(ControllerState))
    ends = (e for n, e in history.of(TrainFnEnded) if n < invoked and e.error is None)
    returned = {e.rank for e in ends if e.attempt == struck.index}
    return is_meant_for_the_end(op) or was_over or 0 < struck.size <= len(returned)


# -- harm done in storage --------------------------------------------------------------------------


def harmed(
    effects: Sequence[tuple[int, StorageFaulted]], history: History, attempts: Sequence[Attempt]
) -> dict[int, int]:
    """Return the attempts that ended by these effects, in order, each with the time (monotonic ns).

    A rank that was killed ends its attempt. An error does so where the train function raised after
    it, or was never seen to end (an upload in the background fails outside it) and Ray decided on a
    failure. A job that catches the error continues, and so does one whose upload succeeds when Ray
    tries again. An upload that is delayed, or cut without an error, ends no attempt either.
    """
    ended = list(history.of(TrainFnEnded))
    failed = {a.index: [d.number for d in a.decisions] for a in attempts}
    hits: dict[int, int] = {}
    for number, effect in effects:
        if effect.rank is None or effect.effect in ("delayed", "cut"):
            continue
        who = effect.attempt, effect.rank
        ends = [(n, e) for n, e in ended if (e.attempt, e.rank) == who]
        raised = any(n > number and e.error is not None for n, e in ends)
        unseen = not ends and any(n > number for n in failed.get(effect.attempt, ()))
        if effect.effect == "killed" or raised or unseen:
            hits.setdefault(effect.attempt, history.time_ns(number))
    return hits
