"""The restart of a driver that a fault ended, and its variables, by the recorded events."""

from collections.abc import Iterable

from chaos.model.event import AnyEvent, DriverExited, FaultInvoked
from chaos.model.plan import Plan


def driver_begins_again(plan: Plan, recorded: Iterable[AnyEvent]) -> bool:
    """Return whether the driver that has just ended was killed by a fault, and so has a successor.

    `recorded` holds the ends of all earlier drivers, and not this one's.
    """
    killers = {op.index for op in plan.ops if op.fault.ends_driver}
    events = list(recorded)
    struck = sum(isinstance(e, FaultInvoked) and e.op in killers for e in events)
    return struck > sum(isinstance(event, DriverExited) for event in events)


def env_at_start(plan: Plan, recorded: Iterable[AnyEvent]) -> dict[str, str]:
    """Return the variables that a driver is started with now: a fault may have changed some."""
    struck = {event.op for event in recorded if isinstance(event, FaultInvoked)}
    env = dict(plan.job.env)
    for op in plan.ops:
        if op.index in struck:
            env.update(op.fault.env_at_restart)
    return env
