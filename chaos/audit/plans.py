"""One plan per strike: what is right there, and with budgets and time enough to get there."""

from collections.abc import Iterable, Iterator

from chaos.audit.extent import Extent
from chaos.audit.strike import Strike
from chaos.model.plan import Plan, Shape
from chaos.model.scenario import FailureBudget, Limits

RUN_TIMES, RUN_EXTRA_S = 10, 20.0


def plans(base: Plan, strikes: Iterable[Strike], extent: Extent) -> Iterator[Plan]:
    """Give each strike's plan on the job of `base`."""
    return (plan_of(base, strike, extent) for strike in strikes)


def plan_of(base: Plan, strike: Strike, extent: Extent) -> Plan:
    """Give one strike's plan.

    Each kill ends one attempt. When a notice runs out is the clock's to say,
    so what is due after it is left to the checks.
    """
    is_by_the_clock = any(op.kind == "preempt_node" for op in strike.ops)
    attempts = None if is_by_the_clock else 1 + len(strike.ops)
    run_s = RUN_TIMES * extent.seconds + RUN_EXTRA_S
    return base.model_copy(
        update={
            "scenario": f"{strike.group}: {strike.name}",
            "job": base.job.model_copy(update={"failure": budget(strike, extent)}),
            "shape": _shape(base, strike),
            "ops": strike.ops,
            "expect": base.expect.model_copy(update={"attempts": attempts}),
            "limits": Limits(run_s=run_s, gate_s=base.limits.gate_s),
        }
    )


def _shape(base: Plan, strike: Strike) -> Shape:
    """Give the nodes: without a spare where the job is to go on with fewer workers."""
    if strike.group != "fewer workers after it":
        return base.shape
    return base.shape.model_copy(update={"nodes": -(-base.job.workers // base.shape.cpus_per_node)})


def budget(strike: Strike, extent: Extent) -> FailureBudget:
    """Give retries enough for every op, and the job's own where these are more."""
    notices = sum(op.kind == "preempt_node" for op in strike.ops)
    return FailureBudget(
        max_failures=_enough(extent.own("max_failures"), len(strike.ops), unset=0),
        max_preemption_failures=_enough(extent.own("max_preemption_failures"), notices, unset=-1),
    )


def _enough(own: object, needed: int, *, unset: int) -> int:
    kept = own if isinstance(own, int) else unset
    return kept if kept == -1 else max(kept, needed)
