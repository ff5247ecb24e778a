"""Defects, told into the history of a right run that was struck at epoch 1, step 2.

Each with the check that must name it first, and what that check must say.
"""

import math
from collections.abc import Callable
from typing import Any

import msgspec

from chaos.model import event as ev
from chaos.model.history import History
from tests.check.tamper import changed, later, restored_wrong, rows, shifted, told, without

Mutation = Callable[[History], History]


def second(event: ev.WorkerStarted) -> bool:
    return event.attempt == 1


def second_of_rank_0(event: ev.WorkerStarted | ev.StepDone) -> bool:
    return event.attempt == 1 and event.rank == 0


def last_step(event: ev.StepDone) -> bool:
    return (event.rank, event.epoch, event.step) == (0, 2, 3)


def one_more(history: History) -> History:
    (step, *_) = [e for _, e in history.of(ev.StepDone) if e.attempt == 1 and e.rank == 0]
    extra = ev.StepDone(attempt=1, rank=0, epoch=1, step=4, losses=step.losses)
    return told(history, extra)


def last_bit(event: ev.StepDone) -> tuple[float | str, ...]:
    assert event.losses is not None
    value = event.losses[0]
    assert isinstance(value, float)
    return (math.nextafter(value, 9.0),)


def hung(history: History) -> History:
    for kind in (ev.FitReturned, ev.DriverExited):
        history = without(history, kind)
    return told(history, ev.DeadlinePassed(limit_s=240))


def entered_otherwise(name: str, history: History, **where: Any) -> History:
    """Tell of a part that did not come back, and of the losses that follow from it."""
    odd = ev.Component(name=name, digest="odd", size=7.0)
    return shifted(restored_wrong(history, name, odd, **where), 1)


def copied_generator(history: History) -> History:
    def of_rank_0(seen: ev.StateSeen) -> ev.Component:
        for _, other in history.of(ev.StateSeen):
            place = (other.attempt, other.epoch, other.step, other.moment)
            if other.rank == 0 and place == (seen.attempt, seen.epoch, seen.step, seen.moment):
                return next(part for part in other.components if part.name == "rng.torch")
        raise AssertionError

    return shifted(restored_wrong(history, "rng.torch", of_rank_0, rank=1), 1)


def swallowed(history: History) -> History:
    failed = ev.FileLoaded(
        attempt=1, rank=0, epoch=1, step=0, path="m.pt", digest="", error="EOFError"
    )
    history = without(history, ev.StateSeen)
    started = rows(history, ev.WorkerStarted, lambda e: (e.attempt, e.rank) == (1, 0))[0]
    entry = msgspec.structs.replace(history[started], what=failed)
    entries = [*history.entries[: started + 1], entry, *history.entries[started + 1 :]]
    return History(entries)


def fed(history: History, epoch: int, of: int, step: int) -> History:
    """Tell that a step of attempt 1 was given the inputs of another one."""

    def given(done: ev.StepDone) -> ev.Inputs | None:
        for _, other in history.of(ev.StepDone):
            if (other.rank, other.epoch, other.step) == (done.rank, of, step or done.step):
                return other.inputs
        raise AssertionError

    def hit(done: ev.StepDone) -> bool:
        return (done.attempt, done.epoch) == (1, epoch) and (not step or done.step == 3)

    return changed(history, ev.StepDone, hit, inputs=given)


def damaged(history: History) -> History:
    def torn(seen: ev.StorageSeen) -> tuple[ev.StoredCheckpoint, ...]:
        return tuple(
            ev.StoredCheckpoint(name=found.name, files=dict.fromkeys(found.files, "torn"))
            for found in seen.checkpoints
        )

    return changed(history, ev.StorageSeen, checkpoints=torn)


def retired(history: History) -> History:
    gone = ev.CheckpointDeleted(attempt=0, checkpoint="checkpoint_0_0")
    at = rows(history, ev.Committed)[0]
    entry = msgspec.structs.replace(history[at], what=gone)
    return History([*history.entries[: at + 1], entry, *history.entries[at + 1 :]])


def zombie(history: History) -> History:
    late = ev.ReportReturned(attempt=0, rank=1, epoch=1)
    return later(told(history, late, before=ev.FitReturned), at_last_step(history), by_s=5)


def at_last_step(history: History) -> int:
    return rows(history, ev.StepDone)[-1]


def counted_anew(history: History) -> History:
    def metrics(done: ev.Committed) -> tuple[dict[str, Any], ...]:
        return tuple({**record, "epoch": record["epoch"] - 1} for record in done.metrics)

    return changed(history, ev.Committed, lambda e: e.attempt == 1, metrics=metrics)


def forgotten_best(history: History) -> History:
    def metrics(done: ev.Committed) -> tuple[dict[str, Any], ...]:
        return tuple({**record, "best": 0.0} for record in done.metrics)

    return changed(history, ev.Committed, lambda e: e.attempt == 1, metrics=metrics)


def stalled(history: History) -> History:
    steps = rows(history, ev.StepDone)
    return later(history, steps[-2], by_s=300)


def late_start(history: History) -> History:
    (opened,) = rows(history, ev.WorkerGroupStarted, lambda e: e.attempt == 1)
    return later(history, opened, by_s=300)


def smaller(done: ev.StepDone) -> ev.Inputs | None:
    assert done.inputs is not None
    return msgspec.structs.replace(done.inputs, count=1)


MUTATIONS: dict[str, tuple[Mutation, str, str]] = {
    "resume from what was never committed": (
        lambda h: changed(h, ev.WorkerStarted, second, checkpoint="checkpoint_x"),
        "committed-only",
        "invalid",
    ),
    "resume from scratch": (
        lambda h: changed(h, ev.WorkerStarted, second, checkpoint=None),
        "resume-point",
        "invalid",
    ),
    "ranks disagree": (
        lambda h: changed(h, ev.WorkerStarted, second_of_rank_0, checkpoint=None),
        "agreement",
        "invalid",
    ),
    "repeat a step": (one_more, "cursor", "invalid"),
    "skip a step": (
        lambda h: without(h, ev.StepDone, lambda e: second_of_rank_0(e) and e.epoch == 1),
        "cursor",
        "invalid",
    ),
    "drop an epoch": (
        lambda h: without(h, ev.Committed, lambda e: e.epoch == 1),
        "epochs",
        "invalid",
    ),
    "skip a step later": (lambda h: without(h, ev.StepDone, last_step), "epochs", "invalid"),
    "leave a process behind": (
        lambda h: told(h, ev.Leftover(kind="process", what="pid 9")),
        "leftovers",
        "invalid",
    ),
    "charge the wrong budget": (
        lambda h: changed(h, ev.FailureDecided, charged="preemptions"),
        "retry-budget",
        "invalid",
    ),
    "an attempt that nobody caused": (
        lambda h: told(h, ev.WorkerGroupStarted(attempt=2, workers=())),
        "attempts",
        "invalid",
    ),
    "a failed load is swallowed": (swallowed, "start-decision", "invalid"),
    "one rank loads no model": (
        lambda h: entered_otherwise("model", h, rank=1),
        "agreement",
        "invalid",
    ),
    "the momentum is lost": (
        lambda h: shifted(restored_wrong(h, "optimizer.momentum_buffer", None), 1),
        "state",
        "invalid",
    ),
    "the average is built anew": (lambda h: entered_otherwise("ema", h), "state", "invalid"),
    "a generator is not restored": (
        lambda h: entered_otherwise("rng.numpy", h),
        "state",
        "invalid",
    ),
    "rank 0's generator is on every rank": (copied_generator, "rank-randomness", "invalid"),
    "a replica drifts": (
        lambda h: changed(
            h,
            ev.StateSeen,
            lambda e: (e.attempt, e.rank, e.moment) == (1, 1, "left"),
            components=(ev.Component(name="model", digest="odd"),),
        ),
        "replicas",
        "invalid",
    ),
    "the best is forgotten": (forgotten_best, "selection", "invalid"),
    "a batch is smaller": (
        lambda h: changed(h, ev.StepDone, last_step, inputs=smaller),
        "batch",
        "invalid",
    ),
    "another epoch's order": (lambda h: fed(h, epoch=1, of=0, step=0), "sample-order", "invalid"),
    "a batch is trained twice": (lambda h: fed(h, epoch=2, of=2, step=1), "samples", "invalid"),
    "a counter begins anew": (counted_anew, "metrics", "invalid"),
    "the newest checkpoint is removed": (retired, "retention", "invalid"),
    "a checkpoint rots": (damaged, "checkpoints", "invalid"),
    "an attempt comes back": (zombie, "single-writer", "invalid"),
    "a result from elsewhere": (
        lambda h: changed(h, ev.FitReturned, checkpoint="checkpoint_9_9"),
        "ack",
        "invalid",
    ),
    "the script fails": (lambda h: changed(h, ev.DriverExited, code=1), "outcome", "invalid"),
    "the start takes too long": (late_start, "recovery", "invalid"),
    "training stands still": (stalled, "progress", "invalid"),
    "hang": (hung, "terminates", "invalid"),
    "change the last bit of one loss": (
        lambda h: changed(h, ev.StepDone, last_step, losses=last_bit),
        "trajectory",
        "invalid",
    ),
    "the fault's end was not seen": (
        lambda h: without(h, ev.FaultEnded),
        "faults-happened",
        "unknown",
    ),
    "nobody looked for leftovers": (
        lambda h: without(h, ev.LeftoversSearched),
        "leftovers",
        "unknown",
    ),
    "the end was not seen": (lambda h: without(h, ev.RunEnded), "watched", "unknown"),
}
