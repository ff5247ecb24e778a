"""The ops that may begin, by the plan and the recorded events alone.

The chaos controller uses it when a rank stands at an op's place.
"""

from collections.abc import Iterable

from chaos.model.event import AnyEvent, FaultEnded, FaultInvoked
from chaos.model.plan import Op
from chaos.model.trigger import AtMoment, AtRecovery, AtStart


def is_spent(op: Op, attempt: int, recorded_events: Iterable[AnyEvent]) -> bool:
    """Return whether an op has nothing more to do in an attempt.

    A trigger fires once per run, one of a repeated fault once per attempt that the fault is meant
    for. An op that was given up does not come again.
    """
    op_events = [
        e for e in recorded_events if isinstance(e, FaultInvoked | FaultEnded) and e.op == op.index
    ]
    begun_attempts = [event.attempt for event in op_events if isinstance(event, FaultInvoked)]
    was_given_up = len(op_events) - len(begun_attempts) > len(
        begun_attempts
    )  # it ended, and never began
    if op.fault.is_repeated:
        return was_given_up or attempt in begun_attempts or not op.can_inject(attempt)
    return was_given_up or bool(begun_attempts)


def count_needed_commits(op: Op) -> int:
    """Return the number of commits that must be there before an op may begin.

    All earlier epochs; at `committed`, the op's own epoch as well.
    """
    if isinstance(op.at, AtMoment) and op.at.moment == "committed":
        return op.at.epoch + 1
    return op.at.epoch


def is_recovering(trigger: AtRecovery, attempt: int, recorded_events: Iterable[AnyEvent]) -> bool:
    """Return whether an attempt comes after one that the op which `trigger` refers to has hit."""
    injections = (
        e
        for e in recorded_events
        if isinstance(e, FaultInvoked) and e.op == trigger.recovering_from
    )
    return any(event.attempt < attempt for event in injections)


def holds_polls(op: Op) -> bool:
    """Return whether an op needs Ray's controller held between two polls."""
    return isinstance(op.at, AtMoment) and op.at.moment == "reported"


def is_in_launch(op: Op) -> bool:
    """Return whether an op takes effect while Ray's controller waits for an attempt's launch."""
    return isinstance(op.at, AtStart) and op.at.at_launch
