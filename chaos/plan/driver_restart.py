"""The restart of a driver that has ended, and its variables, by the recorded events."""

from collections.abc import Iterable

from chaos.model.event import AnyEvent, DriverExited, FaultInvoked
from chaos.model.plan import Plan


def driver_begins_again(plan: Plan, recorded: Iterable[AnyEvent], *, code: int = 0) -> bool:
    """Return whether the driver that has just ended with this code has a successor.

    It has one if a fault killed it; or, where the command is started again after a failure, if the
    retries are not used up. `recorded` holds the ends of all earlier drivers, and not this one's.
    """
    events = list(recorded)
    if plan.job.restarts_by_command:
        return code != 0 and has_retries_left(plan, events)
    killers = {op.index for op in plan.ops if op.fault.ends_driver}
    struck = sum(isinstance(e, FaultInvoked) and e.op in killers for e in events)
    return struck > sum(isinstance(event, DriverExited) for event in events)


def has_retries_left(plan: Plan, recorded: Iterable[AnyEvent]) -> bool:
    """Return whether a command that has just failed may be started again, after earlier failures.

    `recorded` holds the ends of these.
    """
    failures = sum(isinstance(event, DriverExited) and event.code != 0 for event in recorded)
    most = 0 if plan.job.failure is None else plan.job.failure.max_failures
    return most < 0 or failures < most


def env_at_start(plan: Plan, recorded: Iterable[AnyEvent]) -> dict[str, str]:
    """Return the variables that a driver is started with now: a fault may have changed some."""
    struck = {event.op for event in recorded if isinstance(event, FaultInvoked)}
    env = dict(plan.job.env)
    for op in plan.ops:
        if op.index in struck:
            env.update(op.fault.env_at_restart)
    return env
