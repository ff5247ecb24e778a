"""Random faults from a seed, within a retry budget. Pure: equal arguments, equal faults."""

import random
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from chaos.faults.base import SecondsRange
from chaos.faults.return_capacity import ReturnCapacity
from chaos.model.expect import Expect
from chaos.model.fault_entry import FAULTS, FaultEntry
from chaos.model.launcher_policy import LauncherPolicy
from chaos.model.plan import Op, Plan, Shape
from chaos.model.scenario import FailureBudget
from chaos.model.trigger import MOMENTS, SAVE_MOMENTS, AtMoment, AtStep, Trigger
from chaos.plan.entries import has_own_saves
from chaos.plan.make import count_nodes

T = TypeVar("T")

# Of a random plan, and so its retries and spare nodes: none of its faults may end the job for want
# of them.
FAULTS_MAX = 3
COMES_AFTER_S = 1.0  # after a loss: torchrun's other agents have noticed it by then, and wait
Variant: TypeAlias = tuple[str, dict[str, object]]
# Every variant of every fault that is drawn at all.
DRAWN: tuple[Variant, ...] = tuple(
    (name, settings) for name, fault in FAULTS.items() for settings in fault.at_random
)
# Others are left out: whether a rank validates, or writes files itself, only its script knows.
_MOMENTS = [moment for moment in MOMENTS if moment not in ("validating", *SAVE_MOMENTS)]


def draw_plan(plan: Plan, *, seed: int, steps: Sequence[int]) -> Plan:
    """Return the plan's job with one to three faults drawn for it, and no special expectation.

    `steps` holds the steps of each epoch of its baseline. The job may fail as often as faults are
    drawn, and there is a spare node for each, or with torchrun another one comes. Notices come in
    the first half of training, so that they run out within it.
    """
    draws = random.Random(seed)  # noqa: S311 (repeatable is what it must be)
    count = 1 + int(draws.random() * FAULTS_MAX)
    draw_fault = _draw_step_entries if has_own_saves(plan.job) else _draw_entry
    entries = [entry for _ in range(count) for entry in draw_fault(draws, steps, plan)]
    entries.sort(key=lambda entry: _compute_sort_key(entry.at))
    ops = tuple(Op.from_entry(index, entry) for index, entry in enumerate(entries))
    return plan.replace(
        scenario=f"{plan.scenario}, random plan {seed}",
        seed=seed,
        ops=ops,
        is_drawn=True,
        job=plan.job.replace(failure=FailureBudget(max_failures=FAULTS_MAX)),
        shape=_find_shape(plan),
        expect=Expect(
            loss_tolerance=plan.expect.loss_tolerance,
            band=plan.expect.band,
            ignore_metrics=plan.expect.ignore_metrics,
            sampling=plan.expect.sampling,
        ),
    )


def _find_shape(plan: Plan) -> Shape:
    """Return one shape for all seeds; without spare nodes, the plan's own."""
    if not plan.job.launcher_facts.nodes.has_spares:
        return plan.shape
    cpus = plan.shape.cpus_per_node
    return Shape(nodes=count_nodes(plan.job.workers, cpus, spares=FAULTS_MAX), cpus_per_node=cpus)


def _draw_step_entries(
    draws: random.Random, steps: Sequence[int], plan: Plan
) -> tuple[FaultEntry, ...]:
    """Draw a fault that the launcher's jobs can have, at a step: there is no report to stand at.

    Of several nodes, never rank 0's is lost, which hosts the rendezvous; another comes for one that
    is. Nor is a fault drawn for the last step: an agent whose workers have ended starts no others.
    """
    workers, nodes, facts = plan.job.workers, plan.shape.nodes, plan.job.launcher_facts
    name, settings = _pick(draws, [v for v in DRAWN if can_be_drawn(v, facts, nodes=nodes)])
    fault_settings = _draw_settings(settings, draws)
    fault = FAULTS[name](**fault_settings)
    epochs = [epoch for epoch, count in enumerate(steps) if count] or [0]
    final_epoch = epochs[-1]
    if fault.is_announced:
        epochs = epochs[: max(1, len(epochs) // 2)]
    epoch = _pick(draws, epochs)
    share = draws.random()
    first_rank = workers // nodes if fault.family == "node" else 0
    rank = first_rank + int(share * (workers - first_rank))
    skips_last_step = nodes > 1 and epoch == final_epoch
    step = 1 + int(draws.random() * max(1, steps[epoch] - skips_last_step))
    trigger = AtStep(epoch=epoch, step=step, rank=rank)
    entry = FaultEntry.model_validate({"at": trigger, name: fault})
    if not fault.lost_node_count or fault.ends_attempt != "always":
        return (entry,)
    return_fault = ReturnCapacity(
        nodes=1, after_s=fault_settings.get("notice_s", 0.0) + COMES_AFTER_S
    )
    host_trigger = trigger.replace(rank=0)
    return entry, FaultEntry(at=host_trigger, return_capacity=return_fault)


def can_be_drawn(
    variant: tuple[str, Mapping[str, object]], facts: LauncherPolicy, *, nodes: int = 1
) -> bool:
    """Return whether a fault can be drawn for a launcher's jobs, on so many nodes."""
    name, settings = variant
    fault = FAULTS[name](**_draw_settings(settings, random.Random(0)))  # noqa: S311 (any will do)
    return facts.can_have_fault(fault.family, fault.needs, nodes=nodes)


def _draw_entry(draws: random.Random, steps: Sequence[int], plan: Plan) -> tuple[FaultEntry, ...]:
    name, settings = _pick(draws, DRAWN)
    fault = FAULTS[name](**_draw_settings(settings, draws))
    epochs = max(1, len(steps) // 2) if fault.is_announced else len(steps)
    epoch, rank = int(draws.random() * epochs), int(draws.random() * plan.job.workers)
    in_storage = fault.family == "storage"
    trigger: Trigger
    if in_storage and steps[epoch]:
        # Armed before the epoch's upload, on the one rank that is sure to make it.
        trigger = AtStep(epoch=epoch, step=steps[epoch], rank=0)
    elif draws.random() < 0.5 and steps[epoch]:  # noqa: PLR2004 (a coin)
        trigger = AtStep(epoch=epoch, step=1 + int(draws.random() * steps[epoch]), rank=rank)
    else:
        trigger = AtMoment(epoch=epoch, moment=_pick(draws, _MOMENTS), rank=rank)
    if in_storage and not steps[epoch]:
        name, settings = DRAWN[0]
        fault = FAULTS[name](**_draw_settings(settings, draws))
    return (FaultEntry.model_validate({"at": trigger, name: fault}),)


def _pick(draws: random.Random, choices: Sequence[T]) -> T:
    return choices[int(draws.random() * len(choices))]


def _draw_settings(settings: Mapping[str, object], draws: random.Random) -> dict[str, Any]:
    return {
        name: value.interpolate(draws.random()) if isinstance(value, SecondsRange) else value
        for name, value in settings.items()
    }


def _compute_sort_key(trigger: Trigger) -> tuple[int, int, int]:
    if isinstance(trigger, AtStep):
        return trigger.epoch, 0, trigger.step
    assert isinstance(trigger, AtMoment)  # no other kind is drawn
    return trigger.epoch, 1, MOMENTS.index(trigger.moment)
