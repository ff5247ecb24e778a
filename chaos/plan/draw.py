"""Random faults from a seed, within a retry budget. Pure: equal arguments, equal faults."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from chaos.faults.base import Between
from chaos.model.fault_entry import FAULTS, FaultEntry
from chaos.model.plan import Op, Plan, Shape
from chaos.model.scenario import Expect, FailureBudget, Launcher
from chaos.model.trigger import IN_A_SAVE, MOMENTS, AtMoment, AtStep, Trigger
from chaos.plan.make import nodes_for

T = TypeVar("T")

FAULTS_MAX = 3
Variant: TypeAlias = tuple[str, dict[str, object]]
# Every variant of every fault that is drawn at all.
DRAWN: tuple[Variant, ...] = tuple(
    (name, settings) for name, fault in FAULTS.items() for settings in fault.at_random
)
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
    draw = _DRAW[plan.job.launcher]
    entries = [draw(draws, steps, plan.job.workers) for _ in range(count)]
    entries.sort(key=lambda entry: _order(entry.at))
    ops = tuple(Op.of(index, entry) for index, entry in enumerate(entries))
    return plan.model_copy(
        update={
            "scenario": f"{plan.scenario}, random plan {seed}",
            "seed": seed,
            "ops": ops,
            "is_drawn": True,
            "job": plan.job.model_copy(update={"failure": FailureBudget(max_failures=FAULTS_MAX)}),
            "shape": _shape(plan),
            "expect": Expect(
                loss_tolerance=plan.expect.loss_tolerance,
                band=plan.expect.band,
                ignore_metrics=plan.expect.ignore_metrics,
                sampling=plan.expect.sampling,
            ),
        }
    )


def _shape(plan: Plan) -> Shape:
    """Return one shape for all seeds; of a job that torchrun starts, its own."""
    if plan.job.launcher == "torchrun":
        return plan.shape
    cpus = plan.shape.cpus_per_node
    return Shape(nodes=nodes_for(plan.job.workers, cpus, spares=FAULTS_MAX), cpus_per_node=cpus)


def _torchruns_entry(draws: random.Random, steps: Sequence[int], workers: int) -> FaultEntry:
    """Draw a worker's fault that needs no Ray, at a step: there is no report to stand at."""
    name, settings = _pick(draws, [variant for variant in DRAWN if _suits_torchrun(variant)])
    fault = FAULTS[name](**_drawn(settings, draws))
    epoch = _pick(draws, [epoch for epoch, count in enumerate(steps) if count] or [0])
    rank = int(draws.random() * workers)
    step = 1 + int(draws.random() * steps[epoch])
    at = AtStep(epoch=epoch, step=step, rank=rank)
    return FaultEntry.model_validate({"at": at, name: fault})


def _suits_torchrun(variant: Variant) -> bool:
    name, settings = variant
    fault = FAULTS[name](**_drawn(settings, random.Random(0)))  # noqa: S311 (any will do)
    return fault.on_torchrun and fault.family == "worker"


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


_DRAW: Mapping[Launcher, Callable[[random.Random, Sequence[int], int], FaultEntry]] = {
    "ray": _entry,
    "torchrun": _torchruns_entry,
}


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
