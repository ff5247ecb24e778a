"""Which ops should begin now, read from what was recorded and from nothing else."""

from collections.abc import Iterable

from chaos.model.event import AnyEvent, Committed, FaultEnded, FaultInvoked, GateReached
from chaos.model.plan import Op, Plan
from chaos.model.trigger import AtMoment, AtRecovery, AtStart


def due_ops(plan: Plan, recorded: Iterable[AnyEvent]) -> tuple[Op, ...]:
    """Return the ops that should begin now, in plan order.

    An op is due once its rank stands at the op's place and every report that a
    restart there must find is committed. What was already begun or given up
    is read from the record.
    """
    events = tuple(recorded)
    reached = {event.op: event.attempt for event in events if isinstance(event, GateReached)}
    commits = max((e.epoch + 1 for e in events if isinstance(e, Committed)), default=0)
    standing = ((op, reached[op.index]) for op in plan.ops if op.index in reached)
    open_ops = (op for op, attempt in standing if not is_spent(op, attempt, events))
    return tuple(op for op in open_ops if commits >= commits_before(op))


def is_spent(op: Op, attempt: int, recorded: Iterable[AnyEvent]) -> bool:
    """Return whether an op has nothing more to do in an attempt.

    A trigger fires once per run, one of a repeated fault once per attempt that
    the fault is meant for. An op that was given up does not come again.
    """
    begun: list[int] = []
    ended = 0
    for event in recorded:
        match event:
            case FaultInvoked(op=op.index):
                begun.append(event.attempt)
            case FaultEnded(op=op.index):
                ended += 1
            case _:
                pass
    was_given_up = ended > len(begun)
    if op.fault.is_repeated:
        return was_given_up or attempt in begun or not op.may_strike(attempt)
    return was_given_up or bool(begun)


def commits_before(op: Op) -> int:
    """Count the commits that must be there before an op may strike.

    All earlier epochs; at `committed`, the op's own epoch as well.
    """
    if isinstance(op.at, AtMoment) and op.at.moment == "committed":
        return op.at.epoch + 1
    return op.at.epoch


def is_recovering(at: AtRecovery, attempt: int, recorded: Iterable[AnyEvent]) -> bool:
    """Return whether an attempt comes after one that the op which `at` refers to has struck."""
    begun = (e for e in recorded if isinstance(e, FaultInvoked) and e.op == at.recovering_from)
    return any(event.attempt < attempt for event in begun)


def holds_polls(op: Op) -> bool:
    """Return whether an op needs Ray's controller held between two polls."""
    return isinstance(op.at, AtMoment) and op.at.moment == "reported"


def is_in_launch(op: Op) -> bool:
    """Return whether an op strikes while Ray's controller waits for the launch of an attempt."""
    return isinstance(op.at, AtStart) and op.at.at_launch
