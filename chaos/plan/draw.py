"""Random faults from a seed, within a retry budget. Pure: equal arguments, equal faults."""

import random
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from chaos.faults.base import Between
from chaos.model.fault_entry import FAULTS, FaultEntry
from chaos.model.plan import Op, Plan, Shape
from chaos.model.scenario import Expect, FailureBudget
from chaos.model.trigger import IN_A_SAVE, MOMENTS, AtMoment, AtStep, Trigger
from chaos.plan.make import nodes_for

T = TypeVar("T")

FAULTS_MAX = 3
# Every variant of every fault that is drawn at all.
DRAWN = tuple((name, settings) for name, fault in FAULTS.items() for settings in fault.at_random)
# Others are left out: whether a rank validates, or writes files itself, only its script knows.
_MOMENTS = [moment for moment in MOMENTS if moment not in ("validating", *IN_A_SAVE)]


def random_plan(plan: Plan, *, seed: int, steps: Sequence[int]) -> Plan:
    """Return the plan's job with one to three faults drawn for it, and no special expectation.

    `steps` holds the steps of each epoch of its baseline. The job may fail as often as faults are
    drawn, and there is a spare node for each. Notices come in the first half of training, so that
    they run out within it.
    """
    draws = random.Random(seed)  # noqa: S311 (repeatable is what it must be)
    count = 1 + int(draws.random() * FAULTS_MAX)
    entries = [_entry(draws, steps, plan.job.workers) for _ in range(count)]
    entries.sort(key=lambda entry: _order(entry.at))
    ops = tuple(
        Op(index=index, **{name: getattr(entry, name) for name in FaultEntry.model_fields})
        for index, entry in enumerate(entries)
    )
    cpus = plan.shape.cpus_per_node
    nodes = nodes_for(plan.job.workers, cpus, spares=FAULTS_MAX)  # one shape for all seeds
    return plan.model_copy(
        update={
            "scenario": f"{plan.scenario}, random plan {seed}",
            "seed": seed,
            "ops": ops,
            "job": plan.job.model_copy(update={"failure": FailureBudget(max_failures=FAULTS_MAX)}),
            "shape": Shape(nodes=nodes, cpus_per_node=cpus),
            "expect": Expect(
                loss_tolerance=plan.expect.loss_tolerance,
                band=plan.expect.band,
                ignore_metrics=plan.expect.ignore_metrics,
                sampling=plan.expect.sampling,
            ),
        }
    )


def _entry(draws: random.Random, steps: Sequence[int], workers: int) -> FaultEntry:
    name, settings = _pick(draws, DRAWN)
    fault = FAULTS[name](**_drawn(settings, draws))
    epochs = max(1, len(steps) // 2) if fault.is_announced else len(steps)
    epoch, rank = int(draws.random() * epochs), int(draws.random() * workers)
    in_storage = fault.family == "storage"
    at: Trigger
    if in_storage and steps[epoch]:
        # Armed before the epoch's upload, on the one rank that is sure to make it.
        at = AtStep(epoch=epoch, step=steps[epoch], rank=0)
    elif draws.random() < 0.5 and steps[epoch]:  # noqa: PLR2004 (a coin)
        at = AtStep(epoch=epoch, step=1 + int(draws.random() * steps[epoch]), rank=rank)
    else:
        at = AtMoment(epoch=epoch, moment=_pick(draws, _MOMENTS), rank=rank)
    if in_storage and not steps[epoch]:
        name, settings = DRAWN[0]
        fault = FAULTS[name](**_drawn(settings, draws))
    return FaultEntry.model_validate({"at": at, name: fault})


def _pick(draws: random.Random, choices: Sequence[T]) -> T:
    return choices[int(draws.random() * len(choices))]


def _drawn(settings: Mapping[str, object], draws: random.Random) -> dict[str, Any]:
    return {
        name: value.drawn(draws.random()) if isinstance(value, Between) else value
        for name, value in settings.items()
    }


def _order(at: Trigger) -> tuple[int, int, int]:
    if isinstance(at, AtStep):
        return at.epoch, 0, at.step
    assert isinstance(at, AtMoment)  # no other kind is drawn
    return at.epoch, 1, MOMENTS.index(at.moment)
