"""Random faults from a seed, within a retry budget. Pure: equal arguments, equal faults."""

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from chaos.faults.armed import STORAGE_FAULTS
from chaos.faults.disk_full import DiskFull
from chaos.faults.fail_upload import FailUpload
from chaos.faults.freeze_node import FreezeNode
from chaos.faults.kill_node import KillNode
from chaos.faults.kill_worker import KillWorker
from chaos.faults.pause_worker import PauseWorker
from chaos.faults.preempt_node import PreemptNode
from chaos.faults.raise_in_worker import RaiseInWorker
from chaos.faults.slow_upload import SlowUpload
from chaos.faults.slow_worker import SlowWorker
from chaos.faults.torn_checkpoint import TornCheckpoint
from chaos.model.fault_entry import Fault, FaultEntry
from chaos.model.plan import Op, Plan, Shape
from chaos.model.scenario import Expect, FailureBudget
from chaos.model.trigger import MOMENTS, AtMoment, AtStep, Trigger
from chaos.plan.make import nodes_for

T = TypeVar("T")

FAULTS_MAX = 3
# Long enough for a poll of Ray's controller, short enough for a job of some seconds.
NOTICE_S, PAUSE_S = (0.2, 0.5), (0.1, 0.5)
# `saving` is left out: whether a rank calls `torch.save` itself, only its script knows.
_MOMENTS = [moment for moment in MOMENTS if moment != "saving"]


def random_plan(plan: Plan, *, seed: int, steps: Sequence[int]) -> Plan:
    """Give the plan's job with one to three faults drawn for it, and nothing special expected.

    `steps` holds the steps of each epoch of its baseline. The job may fail as
    often as it is struck, and there is a spare node for each; notices are
    given in the first half of training, so that they run out within it.
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
    name, fault = _pick(draws, DRAWN)(draws)
    epochs = max(1, len(steps) // 2) if isinstance(fault, PreemptNode) else len(steps)
    epoch, rank = int(draws.random() * epochs), int(draws.random() * workers)
    at: Trigger
    if name in STORAGE_FAULTS and steps[epoch]:
        # Armed before the epoch's upload, on the one rank that is sure to make it.
        at = AtStep(epoch=epoch, step=steps[epoch], rank=0)
    elif draws.random() < 0.5 and steps[epoch]:  # noqa: PLR2004 (a coin)
        at = AtStep(epoch=epoch, step=1 + int(draws.random() * steps[epoch]), rank=rank)
    else:
        at = AtMoment(epoch=epoch, moment=_pick(draws, _MOMENTS), rank=rank)
    if name in STORAGE_FAULTS and not steps[epoch]:
        name, fault = "kill_worker", KillWorker()
    return FaultEntry.model_validate({"at": at, name: fault})


def _pick(draws: random.Random, choices: Sequence[T]) -> T:
    return choices[int(draws.random() * len(choices))]


def _seconds(draws: random.Random, low: float, high: float) -> float:
    return round(low + draws.random() * (high - low), 3)


DRAWN: Sequence[Callable[[random.Random], tuple[str, Fault]]] = (
    lambda _: ("kill_worker", KillWorker()),
    lambda _: ("kill_worker", KillWorker(signal="TERM")),
    lambda _: ("kill_node", KillNode()),
    lambda draws: ("freeze_node", FreezeNode(for_s=_seconds(draws, *PAUSE_S))),
    lambda draws: ("preempt_node", PreemptNode(notice_s=_seconds(draws, *NOTICE_S))),
    lambda _: ("raise_in_worker", RaiseInWorker()),
    lambda _: ("raise_in_worker", RaiseInWorker(ranks="all")),
    lambda draws: ("pause_worker", PauseWorker(for_s=_seconds(draws, *PAUSE_S))),
    lambda draws: ("slow_worker", SlowWorker(delay_s=_seconds(draws, 0.01, 0.05), steps=5)),
    lambda _: ("fail_upload", FailUpload()),
    lambda draws: ("slow_upload", SlowUpload(delay_s=_seconds(draws, *PAUSE_S))),
    lambda _: ("torn_checkpoint", TornCheckpoint(worker_dies=True)),
    lambda _: ("disk_full", DiskFull(after_bytes=1000)),
)


def _order(at: Trigger) -> tuple[int, int, int]:
    if isinstance(at, AtStep):
        return at.epoch, 0, at.step
    assert isinstance(at, AtMoment)  # no other kind is drawn
    return at.epoch, 1, MOMENTS.index(at.moment)
