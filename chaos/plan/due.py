"""The ops that may begin, by the plan and the recorded events alone.

The chaos controller uses it when a rank stands at an op's place.
"""

from collections.abc import Iterable

from chaos.model.event import AnyEvent, FaultEnded, FaultInvoked
from chaos.model.plan import Op
from chaos.model.trigger import AtMoment, AtRecovery, AtStart


def is_spent(op: Op, attempt: int, recorded: Iterable[AnyEvent]) -> bool:
    """Return whether an op has nothing more to do in an attempt.

    A trigger fires once per run, one of a repeated fault once per attempt that the fault is meant
    for. An op that was given up does not come again.
    """
    its = [e for e in recorded if isinstance(e, FaultInvoked | FaultEnded) and e.op == op.index]
    begun = [event.attempt for event in its if isinstance(event, FaultInvoked)]
    was_given_up = len(its) - len(begun) > len(begun)  # it ended, and never began
    if op.fault.is_repeated:
        return was_given_up or attempt in begun or not op.may_inject(attempt)
    return was_given_up or bool(begun)


def commits_before(op: Op) -> int:
    """Return the number of commits that must be there before an op may begin.

    All earlier epochs; at `committed`, the op's own epoch as well.
    """
    if isinstance(op.at, AtMoment) and op.at.moment == "committed":
        return op.at.epoch + 1
    return op.at.epoch


def is_recovering(at: AtRecovery, attempt: int, recorded: Iterable[AnyEvent]) -> bool:
    """Return whether an attempt comes after one that the op which `at` refers to has hit."""
    begun = (e for e in recorded if isinstance(e, FaultInvoked) and e.op == at.recovering_from)
    return any(event.attempt < attempt for event in begun)


def holds_polls(op: Op) -> bool:
    """Return whether an op needs Ray's controller held between two polls."""
    return isinstance(op.at, AtMoment) and op.at.moment == "reported"


def is_in_launch(op: Op) -> bool:
    """Return whether an op takes effect while Ray's controller waits for an attempt's launch."""
    return isinstance(op.at, AtStart) and op.at.at_launch
