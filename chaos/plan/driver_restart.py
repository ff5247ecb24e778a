"""The restart of a driver that has ended, and its variables, by the recorded events."""

from collections.abc import Iterable

from chaos.model.event import AnyEvent, DriverExited, FaultInvoked
from chaos.model.plan import Plan


def must_restart_driver(plan: Plan, recorded_events: Iterable[AnyEvent], *, code: int = 0) -> bool:
    """Return whether the driver that has just ended with this code has a successor.

    It has one if a fault killed it; or, where the command is started again after a failure, if the
    retries are not used up. `recorded_events` holds the ends of all earlier drivers, and not this
    one's.
    """
    events = list(recorded_events)
    if plan.job.restarts_by_command:
        return code != 0 and has_retries_left(plan, events)
    killing_ops = {op.index for op in plan.ops if op.fault.ends_driver}
    kill_count = sum(isinstance(e, FaultInvoked) and e.op in killing_ops for e in events)
    return kill_count > sum(isinstance(event, DriverExited) for event in events)


def has_retries_left(plan: Plan, recorded_events: Iterable[AnyEvent]) -> bool:
    """Return whether a command that has just failed may be started again, after earlier failures.

    `recorded_events` holds the ends of these.
    """
    failures = sum(isinstance(event, DriverExited) and event.code != 0 for event in recorded_events)
    max_failures = 0 if plan.job.failure is None else plan.job.failure.max_failures
    return max_failures < 0 or failures < max_failures


def build_driver_env(plan: Plan, recorded_events: Iterable[AnyEvent]) -> dict[str, str]:
    """Return the variables that a driver is started with now: a fault may have changed some."""
    injected_ops = {event.op for event in recorded_events if isinstance(event, FaultInvoked)}
    env = dict(plan.job.env)
    for op in plan.ops:
        if op.index in injected_ops:
            env.update(op.fault.env_at_restart)
    return env
