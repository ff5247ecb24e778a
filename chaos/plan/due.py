"""Which ops should begin now, read from what was recorded and from nothing else."""

from collections.abc import Iterable

from chaos.model.event import AnyEvent, Committed, FaultEnded, FaultInvoked, GateReached
from chaos.model.plan import Op, Plan
from chaos.model.trigger import AtMoment


def due_ops(plan: Plan, recorded: Iterable[AnyEvent]) -> tuple[Op, ...]:
    """Give the ops that should begin now, in plan order.

    An op is due once its rank stands at the op's place and every report that a
    restart there must find is committed. What was already begun or given up
    is read from the record: a trigger fires once per run.
    """
    reached: set[int] = set()
    closed: set[int] = set()
    commits = 0
    for event in recorded:
        match event:
            case GateReached(op=op):
                reached.add(op)
            case FaultInvoked(op=op) | FaultEnded(op=op):
                closed.add(op)
            case Committed(epoch=epoch):
                commits = max(commits, epoch + 1)
            case _:
                pass
    open_ops = (op for op in plan.ops if op.index in reached - closed)
    return tuple(op for op in open_ops if commits >= commits_before(op))


def commits_before(op: Op) -> int:
    """Count the commits that must be there before an op may strike.

    All earlier epochs; at `committed`, the op's own epoch as well.
    """
    if isinstance(op.at, AtMoment) and op.at.moment == "committed":
        return op.at.epoch + 1
    return op.at.epoch
