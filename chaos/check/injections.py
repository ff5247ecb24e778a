"""The injections as rows: one per op of the plan, and per attempt that a repeated op hit."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, TypeAlias

from chaos.check.drivers import ConcurrentDrivers
from chaos.check.ending import RunEnding
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
from chaos.resume.attempt import Attempt

Budget: TypeAlias = Literal["failures", "preemptions"]

# Ray 2.60 ends a preempted group itself at the deadline, by its own clock.
EARLY_NS = 1_000_000_000


@dataclass(frozen=True)
class Injection:
    """One op with all events of it, in one attempt if the fault is repeated."""

    op: Op
    gates: tuple[int, ...]
    invocations: tuple[tuple[int, FaultInvoked], ...]
    outcomes: tuple[tuple[int, FaultEnded], ...]
    #: the time at which the harm was due: at once, or at the notice's deadline
    harm_ns: int | None
    ended_ns: int | None
    #: the attempt that it took workers from; None where it did not land, or hit no worker
    hit_attempt: int | None = None
    #: it was begun, and may have done harm that was not seen
    is_in_doubt: bool = False
    #: training was over before the harm was done, and the op was not meant for that
    is_too_late: bool = False
    #: the events of the run's storage, for a storage fault
    storage_events: tuple[tuple[int, StorageFaulted], ...] = ()
    #: the further attempts that it took workers from, each with the time
    later_hits: tuple[tuple[int, int], ...] = ()
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
    later_error: str = ""

    @property
    def hit_times_by_attempt(self) -> dict[int, int | None]:
        """The attempts that it took workers from, each with the time of the harm."""
        return (
            {}
            if self.hit_attempt is None
            else {self.hit_attempt: self.harm_ns, **dict(self.later_hits)}
        )

    @property
    def is_in_storage(self) -> bool:
        """Whether it takes effect in the run's storage, and takes no process by itself."""
        return self.op.fault.family == "storage"

    @property
    def has_effect(self) -> bool:
        """Whether its effect was seen."""
        return bool(self.invocations) and self.status == "ok"

    @property
    def is_harmless(self) -> bool:
        """Whether it certainly did no harm."""
        return self.status == "fail"

    @property
    def status(self) -> Status | None:
        """The outcome of its one injection; None where that is not known, or there are several."""
        if self.later_error:
            return "ok"
        return self.outcomes[0][1].status if len(self.outcomes) == 1 else None

    @property
    def detail(self) -> str:
        """Its outcome in words."""
        words = self.outcomes[-1][1].detail if self.outcomes else ""
        return (
            f"{words}, and its attempt failed later: {self.later_error}"
            if self.later_error
            else words
        )

    @property
    def is_survived(self) -> bool:
        """Whether it landed and ended no attempt, as is usual for its kind."""
        return self.has_effect and self.hit_attempt is None and _is_survivable(self.op)

    @property
    def budget(self) -> Budget | None:
        """The budget that Ray charges; None where it is no failure of a worker group."""
        if not self.op.fault.needs_worker:
            return None
        return "preemptions" if self.is_preemption else "failures"

    @property
    def is_exact(self) -> bool:
        """Whether the harm was done while a rank was held, with all earlier epochs committed."""
        is_held = self.op.holds_worker and not (self.is_released_first or self.later_error)
        return is_held and not (self.is_announced or self.is_reclaimed)

    @property
    def rank(self) -> int | None:
        """The target's rank, hit or planned."""
        return self.invocations[0][1].rank if self.invocations else self.op.target_rank

    @property
    def events(self) -> tuple[int, ...]:
        return tuple(number for number, _ in (*self.invocations, *self.outcomes))


def _is_survivable(op: Op) -> bool:
    """Return whether a fault usually leaves its attempt alive; for storage the history decides.

    Ray 2.60 watches no progress. So a hang or a long pause ends an attempt only where the job's own
    time-outs, its peers', or those of a node's health end it.
    """
    return op.fault.family != "storage" and op.fault.ends_attempt != "always"


def build_injections(
    plan: Plan,
    history: History,
    attempts: Sequence[Attempt],
    ending: RunEnding,
    drivers: ConcurrentDrivers | None = None,
) -> tuple[Injection, ...]:
    """Return the events of every op of the plan, joined, in plan order.

    `drivers`: the drivers of the run, if a fault started a second one.
    """
    deadlines = {notice.op: notice.deadline_ns for _, notice in history.select_events(NoticeGiven)}
    reclaims = [
        (history.time_ns(number), event) for number, event in history.select_events(NodeReclaimed)
    ]
    announced_nodes = {event.node_id for _, event in reclaims if event.stage == "announced"}
    gone_times = {event.node_id: time_ns for time_ns, event in reclaims if event.stage == "gone"}
    injections = []
    for op in plan.ops:
        for gates, invocations, outcomes in _split_by_attempt(op, history):
            began_ns = history.time_ns(invocations[0][0]) if invocations else None
            node_id = invocations[0][1].node_id if invocations else ""
            is_reclaimed = node_id in announced_nodes
            is_announced = op.index in deadlines if is_reclaimed else op.fault.is_announced
            is_preemption = (
                is_announced and "preemptions" in plan.job.launcher_facts.retries.budgets
            )
            injection = Injection(
                op=op,
                is_reclaimed=is_reclaimed,
                is_announced=is_announced,
                is_preemption=is_preemption,
                gates=gates,
                invocations=invocations,
                outcomes=outcomes,
                harm_ns=_find_harm_ns(
                    op,
                    began_ns,
                    deadlines.get(op.index) if is_preemption else None,
                    gone_times.get(node_id),
                ),
                ended_ns=history.time_ns(outcomes[0][0]) if outcomes else None,
                is_in_doubt=bool(invocations) and op.absent is not None,
                is_released_first=_is_released_first(op, invocations, outcomes, history),
                storage_events=tuple(
                    (number, event)
                    for number, event in history.select_events(StorageFaulted)
                    if event.op == op.index
                ),
            )
            injections.append(_infer_effect(injection, history, attempts, ending))
            if drivers is not None and op.fault.starts_driver and injections[-1].has_effect:
                hit_attempt = _find_followed_attempt(attempts, drivers.second_attempts)
                injections[-1] = replace(
                    injections[-1],
                    hit_attempt=hit_attempt,
                    is_in_doubt=not drivers.has_second_events,
                )
    return tuple(
        _remove_forestalled_hit(injection, injections, history, attempts)
        for injection in injections
    )


def _find_followed_attempt(
    attempts: Sequence[Attempt], second_attempts: frozenset[int]
) -> int | None:
    """Return the last attempt of the first driver that one of the second driver follows."""
    second_start = min(
        (attempt.index for attempt in attempts if attempt.index in second_attempts), default=0
    )
    return max(
        (attempt.index for attempt in attempts if attempt.index < second_start), default=None
    )


def _find_harm_ns(
    op: Op, began_ns: int | None, deadline_ns: int | None, gone_ns: int | None
) -> int | None:
    """Return the time of the harm: a node that stays past its deadline is given up at it.

    `gone_ns`: when a node that a platform had announced was seen to be gone.
    """
    if gone_ns is not None and op.fault.lost_node_count:
        return gone_ns if deadline_ns is None else min(deadline_ns, gone_ns)
    if deadline_ns is None:
        return began_ns
    loss_ns = op.fault.loss_ns(deadline_ns)
    return deadline_ns if loss_ns is None else min(loss_ns, deadline_ns)


_Invocations = tuple[tuple[int, FaultInvoked], ...]
_Outcomes = tuple[tuple[int, FaultEnded], ...]


def _split_by_attempt(
    op: Op, history: History
) -> Iterator[tuple[tuple[int, ...], _Invocations, _Outcomes]]:
    """Yield an op's events: all at once, or attempt by attempt if the fault is repeated.

    A turn is over before the next begins: the outcome of an injection is recorded before another
    attempt can start.
    """
    gates = tuple(n for n, event in history.select_events(GateReached) if event.op == op.index)
    invocations = tuple(
        (n, event) for n, event in history.select_events(FaultInvoked) if event.op == op.index
    )
    outcomes = tuple(
        (n, event) for n, event in history.select_events(FaultEnded) if event.op == op.index
    )
    if not op.fault.is_repeated or len(invocations) < 2:  # noqa: PLR2004 - one turn, or none
        yield gates, invocations, outcomes
        return
    beginnings = (max((g for g in gates if g < n), default=n) for n, _ in invocations[1:])
    starts = [0, *beginnings]
    for start, end in zip(starts, [*starts[1:], len(history)], strict=True):
        yield (
            tuple(n for n in gates if start <= n < end),
            tuple((n, event) for n, event in invocations if start <= n < end),
            tuple((n, event) for n, event in outcomes if start <= n < end),
        )


def _infer_effect(
    injection: Injection, history: History, attempts: Sequence[Attempt], ending: RunEnding
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
    if not injection.invocations or injection.is_in_doubt:
        return injection
    attempt_index = injection.invocations[0][1].attempt
    if injection.is_in_storage:
        return _infer_storage_effect(injection, history, attempts)
    has_decision = any(attempt.index == attempt_index and attempt.decisions for attempt in attempts)
    if injection.is_harmless and (error := _find_late_error(injection, attempts)):
        injection = replace(injection, later_error=error, harm_ns=injection.ended_ns)
    if not injection.has_effect:
        # A fault that certainly failed did no harm, unless the attempt broke all the same.
        return replace(injection, is_in_doubt=has_decision or not injection.is_harmless)
    if injection.is_preemption:
        hit_attempt = _find_preempted_attempt(injection, history, attempts, ending)
        is_too_late = hit_attempt is None and _is_training_done(
            injection, history, attempts, ending
        )
        return replace(injection, hit_attempt=hit_attempt, is_too_late=is_too_late)
    if injection.op.fault.family == "capacity":
        hit_attempt = _find_grown_attempt(attempts, history, first_index=attempt_index)
        return replace(injection, hit_attempt=hit_attempt, harm_ns=injection.ended_ns)
    # A fault that may spare its attempt ended it only if Ray decided on a failure there.
    has_ended_attempt = not _is_survivable(injection.op) or (
        has_decision and injection.op.fault.ends_attempt != "never"
    )
    is_after_training = _is_after_training(injection, history, attempts)
    is_too_late = is_after_training and not is_post_training(injection.op)
    return replace(
        injection,
        hit_attempt=attempt_index if has_ended_attempt and not is_after_training else None,
        is_too_late=is_too_late,
    )


def _is_after_training(injection: Injection, history: History, attempts: Sequence[Attempt]) -> bool:
    """Return whether the workers taken had finished training: then no attempt ended by it."""
    if _is_survivable(injection.op) or injection.op.fault.family == "control":
        return False
    number, invocation = injection.invocations[0]
    if injection.is_released_first and injection.outcomes:
        number = injection.outcomes[-1][0]  # the rank may have finished before the signal ended it
    attempt = next((a for a in attempts if a.index == invocation.attempt), None)
    return attempt is not None and is_training_finished(
        injection.op, attempt, history, invocation_number=number
    )


def _is_released_first(
    op: Op, invocations: _Invocations, outcomes: _Outcomes, history: History
) -> bool:
    """Return whether the rank was let go before the harm, where that ends its attempt."""
    if not (op.fault.releases_worker_itself and op.fault.ends_attempt == "always" and invocations):
        return False
    # The end of every injection releases the rank, too.
    end_number = outcomes[0][0] if outcomes else len(history)
    return any(
        event.op == op.index and invocations[0][0] < number < end_number
        for number, event in history.select_events(GateReleased)
    )


def _find_late_error(injection: Injection, attempts: Sequence[Attempt]) -> str:
    """Return what the attempt failed of after a signal that had seemed to do no harm, if it did.

    A process may take a signal later than its end is waited for. An exception of the job's own is
    no end by a signal.
    """
    end_number, outcome = injection.outcomes[0]
    if not outcome.signal_sent:
        return ""
    attempt_index = injection.invocations[0][1].attempt
    decisions = [
        decision
        for attempt in attempts
        if attempt.index == attempt_index
        for decision in attempt.decisions
        if decision.number > end_number
    ]
    errors = [
        error
        for decision in decisions
        for error in (*decision.event.errors.values(),) or (decision.event.error,)
    ]
    return "" if any(map(is_own_error, errors)) else next(iter(errors), "")


def _infer_storage_effect(
    injection: Injection, history: History, attempts: Sequence[Attempt]
) -> Injection:
    """Return a storage fault with the attempts that its effects ended, if it had any."""
    if not injection.storage_events:
        return replace(injection, is_in_doubt=not injection.is_harmless)
    harm_times = find_harm_times(injection.storage_events, history, attempts)
    if not harm_times:
        return replace(injection, harm_ns=history.time_ns(injection.storage_events[0][0]))
    (first_attempt, harm_ns), *later_hits = harm_times.items()
    return replace(
        injection, hit_attempt=first_attempt, harm_ns=harm_ns, later_hits=tuple(later_hits)
    )


def _find_grown_attempt(
    attempts: Sequence[Attempt], history: History, *, first_index: int
) -> int | None:
    """Return the attempt that Ray or torchrun itself ended, to continue with more workers.

    As one of torchrun's agents ends its workers, those of another may fail before it does so, too.
    """
    changed_attempts = {event.attempt for _, event in history.select_events(MembershipChanged)}
    for attempt, next_attempt in pairwise(attempts):
        is_voluntary = not attempt.decisions or attempt.index in changed_attempts
        if (
            attempt.index >= first_index
            and is_voluntary
            and next_attempt.worker_count > attempt.worker_count
        ):
            return attempt.index
    return None


def _is_training_done(
    injection: Injection, history: History, attempts: Sequence[Attempt], ending: RunEnding
) -> bool:
    """Return whether training was over when a preempted node went, so no worker was hit."""
    if ending.fit_return is None:
        return False
    assert injection.harm_ns is not None
    if history.time_ns(ending.fit_return[0]) <= injection.harm_ns:
        return True
    # fit() returns some time after its workers are done.
    return not any(attempt.index > injection.invocations[0][1].attempt for attempt in attempts)


def _find_preempted_attempt(
    injection: Injection, history: History, attempts: Sequence[Attempt], ending: RunEnding
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
    invocation = injection.invocations[0][1]
    for attempt in attempts:
        budgets = (decision.event.charged for decision in attempt.decisions)
        if attempt.index == invocation.attempt and "preemptions" in budgets:
            return attempt.index
    if injection.op.fault.loss_ns(injection.harm_ns) is None:
        return None  # Ray ends the attempt at the deadline, or believes the node that stays
    # Without a decision of Ray's, it hit the attempt that was open when the node went, if that had
    # workers there, had not failed before, and is not the one in which the job finished.
    started_attempts = [
        attempt
        for attempt in attempts
        if attempt.group_started is None
        or history.time_ns(attempt.group_started) <= injection.harm_ns
    ]
    if not started_attempts:
        return None
    last_attempt = started_attempts[-1]
    decided_ns = [history.time_ns(decision.number) for decision in last_attempt.decisions]
    is_decided_early = bool(decided_ns) and decided_ns[0] < injection.harm_ns - EARLY_NS
    is_final_attempt = ending.is_finished and not decided_ns and last_attempt is attempts[-1]
    has_worker_there = not last_attempt.worker_locations or any(
        worker.node_id == invocation.node_id for worker in last_attempt.worker_locations
    )
    return (
        last_attempt.index
        if has_worker_there and not is_decided_early and not is_final_attempt
        else None
    )


def _remove_forestalled_hit(
    injection: Injection,
    all_injections: Sequence[Injection],
    history: History,
    attempts: Sequence[Attempt],
) -> Injection:
    """Remove the hit of a preemption whose group another fault had ended before its node went.

    Ray then charges a failure, and rightly.
    """
    # Two faults, one attempt: a worker is killed within the notice of its node. The kill ends the
    # group, Ray charges a failure for it, and the node goes later without workers of the job. To
    # say that the preemption hit would make the right charge look like one to the wrong budget.
    # The order of three moments decides, and all three must be known.
    if not injection.is_preemption or injection.hit_attempt is None or injection.harm_ns is None:
        return injection
    decisions = next(
        attempt.decisions for attempt in attempts if attempt.index == injection.hit_attempt
    )
    if not decisions or decisions[0].event.charged != "failures":
        return injection
    decided_ns = history.time_ns(decisions[0].number)
    is_forestalled = any(
        other_injection.hit_attempt == injection.hit_attempt
        and not other_injection.is_preemption
        and other_injection.harm_ns is not None
        and other_injection.harm_ns < decided_ns < injection.harm_ns
        for other_injection in all_injections
    )
    return replace(injection, hit_attempt=None) if is_forestalled else injection


# -- after training --------------------------------------------------------------------------------


# Ray 2.60's controller enters them once every train function has returned, or failed for good.
OVER_STATES = ("SHUTTING_DOWN", "FINISHED")


def is_post_training(op: Op) -> bool:
    """Return whether an op's own place is one after training."""
    return isinstance(op.at, AtState) and op.at.state in OVER_STATES


def is_training_finished(
    op: Op, attempt: Attempt, history: History, *, invocation_number: int
) -> bool:
    """Return whether an attempt had finished training when an op began (`invocation_number`).

    Then Ray has no failure to decide on. An attempt with a decision was not over.
    """
    if attempt.decisions:
        return False
    start_number = attempt.group_started or 0
    is_controller_over = any(
        start_number < number < invocation_number and event.state in OVER_STATES
        for number, event in history.select_events(ControllerState)
    )
    finished_functions = (
        event
        for number, event in history.select_events(TrainFnEnded)
        if number < invocation_number and event.error is None
    )
    finished_ranks = {event.rank for event in finished_functions if event.attempt == attempt.index}
    return (
        is_post_training(op)
        or is_controller_over
        or 0 < attempt.worker_count <= len(finished_ranks)
    )


# -- harm done in storage --------------------------------------------------------------------------


def find_harm_times(
    effects: Sequence[tuple[int, StorageFaulted]], history: History, attempts: Sequence[Attempt]
) -> dict[int, int]:
    """Return the attempts that ended by these effects, in order, each with the time (monotonic ns).

    A rank that was killed ends its attempt. An error does so where the train function raised after
    it, or was never seen to end (an upload in the background fails outside it) and Ray decided on a
    failure. A job that catches the error continues, and so does one whose upload succeeds when Ray
    tries again. An upload that is delayed, or cut without an error, ends no attempt either.
    """
    function_ends = list(history.select_events(TrainFnEnded))
    decision_numbers = {
        attempt.index: [decision.number for decision in attempt.decisions] for attempt in attempts
    }
    harm_times: dict[int, int] = {}
    for number, effect in effects:
        if effect.rank is None or effect.effect in ("delayed", "cut"):
            continue
        attempt_rank = effect.attempt, effect.rank
        ends = [
            (n, event) for n, event in function_ends if (event.attempt, event.rank) == attempt_rank
        ]
        has_raised = any(n > number and event.error is not None for n, event in ends)
        is_end_unseen = not ends and any(
            n > number for n in decision_numbers.get(effect.attempt, ())
        )
        if effect.effect == "killed" or has_raised or is_end_unseen:
            harm_times.setdefault(effect.attempt, history.time_ns(number))
    return harm_times
