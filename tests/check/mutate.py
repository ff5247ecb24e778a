"""What a defect does to the history of a right run that was struck once.

Each gives the history told otherwise, or raises `NoPlaceError` where the run has none for it.
"""

import math
from typing import Any

import msgspec

from chaos.model import event as ev
from chaos.model.history import History, JournalEntry
from tests.check.tamper import changed, later, restored_wrong, rows, shifted, told, without


class NoPlaceError(Exception):
    """The run has no place for this defect."""


def second(event: ev.WorkerStarted | ev.StepDone) -> bool:
    return event.attempt == 1


def second_of_rank_0(event: ev.WorkerStarted | ev.StepDone) -> bool:
    return event.attempt == 1 and event.rank == 0


def resumed_at(history: History) -> int:
    """Return the epoch that attempt 1 goes on with, from a checkpoint of the one before."""
    epochs = [e.epoch for _, e in history.select_events(ev.WorkerStarted) if e.attempt == 1]
    if not epochs or epochs[0] == 0:
        raise NoPlaceError
    return epochs[0]


def reported_before(history: History) -> None:
    """Require a report before the fault: else it is not known whether its metrics repeat."""
    if rows(history, ev.Committed)[0] > rows(history, ev.FaultInvoked)[0]:
        raise NoPlaceError


def last_place(history: History) -> tuple[int, int]:
    """Return the last epoch, and its last step."""
    return max((e.epoch, e.step) for _, e in history.select_events(ev.StepDone))


def later_epoch(history: History) -> tuple[int, int]:
    """Return the last place where it is not in the epoch that was resumed."""
    place = last_place(history)
    if place[0] == resumed_at(history):
        raise NoPlaceError
    return place


def after(history: History, number: int, *events: ev.AnyEvent) -> History:
    """Return the history with more events after one of its own, at the same time."""
    more = [msgspec.structs.replace(history[number], event=event) for event in events]
    entries: list[JournalEntry] = list(history)
    return History([*entries[: number + 1], *more, *entries[number + 1 :]])


# -- what is handed out ------------------------------------------------------------------------


def handed(history: History, checkpoint: str | None, *, to_all: bool = True) -> History:
    resumed_at(history)
    hit = second if to_all else second_of_rank_0
    return changed(history, ev.WorkerStarted, hit, checkpoint=checkpoint)


def handed_an_older_one(history: History) -> History:
    saved = [
        e.checkpoint
        for _, e in history.select_events(ev.Committed)
        if e.attempt == 0 and e.checkpoint
    ]
    newest = next(
        e.checkpoint for _, e in history.select_events(ev.WorkerStarted) if e.attempt == 1
    )
    if newest not in saved[1:]:
        raise NoPlaceError
    older = saved[saved.index(newest) - 1]
    epoch = int(older.rpartition("_")[2]) + 1
    return changed(history, ev.WorkerStarted, second, checkpoint=older, epoch=epoch)


def swallowed(history: History) -> History:
    failed = ev.FileLoaded(
        attempt=1, rank=0, epoch=resumed_at(history), step=0, path="m.pt", digest="", error="EOF"
    )
    history = without(history, ev.StateSeen)
    return after(history, rows(history, ev.WorkerStarted, second_of_rank_0)[0], failed)


# -- steps and epochs --------------------------------------------------------------------------


def one_more(history: History) -> History:
    epoch, (_, steps) = resumed_at(history), last_place(history)
    first = next(e for _, e in history.select_events(ev.StepDone) if second_of_rank_0(e))
    extra = ev.StepDone(attempt=1, rank=0, epoch=epoch, step=steps + 1, losses=first.losses)
    return told(history, extra)


def without_the_first_epoch(history: History) -> History:
    epoch = resumed_at(history)
    return without(history, ev.StepDone, lambda e: second_of_rank_0(e) and e.epoch == epoch)


def without_a_commit(history: History) -> History:
    epoch = resumed_at(history)
    return without(history, ev.Committed, lambda e: e.attempt == 1 and e.epoch == epoch)


def without_a_later_step(history: History) -> History:
    epoch, step = later_epoch(history)
    return without(history, ev.StepDone, lambda e: (e.rank, e.epoch, e.step) == (0, epoch, step))


def overtrained(history: History) -> History:
    """Tell of more steps between two commits than the job makes, all of them lost."""
    number = rows(history, ev.StepDone, lambda e: e.attempt == 0)[-1]
    done = history[number].event
    assert isinstance(done, ev.StepDone)
    if done.epoch != resumed_at(history):
        raise NoPlaceError
    twice = range(1, 1 + 2 * last_place(history)[1])
    more = [msgspec.structs.replace(done, step=done.step + n, inputs=None) for n in twice]
    return after(history, number, *more)


# -- state -------------------------------------------------------------------------------------


def entered_otherwise(name: str, history: History, **where: Any) -> History:
    """Tell of a part that did not come back, and of the losses that follow from it."""
    odd = ev.Component(name=name, digest="odd", size=7.0)
    return shifted(restored_wrong(history, name, odd, **where), resumed_at(history))


def lost_momentum(history: History) -> History:
    gone = restored_wrong(history, "optimizer.momentum_buffer", None)
    return shifted(gone, resumed_at(history))


def copied_generator(history: History) -> History:
    def of_rank_0(seen: ev.StateSeen) -> ev.Component:
        for _, other in history.select_events(ev.StateSeen):
            place = (other.attempt, other.epoch, other.step, other.moment)
            if other.rank == 0 and place == (seen.attempt, seen.epoch, seen.step, seen.moment):
                return next(part for part in other.components if part.name == "rng.torch")
        raise AssertionError

    copied = restored_wrong(history, "rng.torch", of_rank_0, rank=1)
    return shifted(copied, resumed_at(history))


def drifting(history: History) -> History:
    hit = lambda e: (e.attempt, e.rank, e.moment) == (1, 1, "left")  # noqa: E731 (one word)
    odd = (ev.Component(name="model", digest="odd"),)
    return changed(history, ev.StateSeen, hit, components=odd)


# -- inputs ------------------------------------------------------------------------------------


def fed(history: History, epoch: int, of: int, steps: dict[int, int]) -> History:
    """Return that steps of an epoch were given the inputs of those of another one."""

    def given(done: ev.StepDone) -> ev.Inputs | None:
        for _, other in history.select_events(ev.StepDone):
            if (other.rank, other.epoch, other.step) == (done.rank, of, steps[done.step]):
                return other.inputs
        raise AssertionError

    def hit(done: ev.StepDone) -> bool:
        return (done.attempt, done.epoch) == (1, epoch) and done.step in steps

    return changed(history, ev.StepDone, hit, inputs=given)


def fed_another_epoch(history: History) -> History:
    epoch, (_, steps) = resumed_at(history), last_place(history)
    return fed(history, epoch, epoch - 1, {step: step for step in range(1, steps + 1)})


def fed_a_batch_twice(history: History) -> History:
    epoch, step = last_place(history)
    return fed(history, epoch, epoch, {step: 1})


def smaller_batch(history: History) -> History:
    epoch, step = last_place(history)

    def smaller(done: ev.StepDone) -> ev.Inputs | None:
        assert done.inputs is not None
        return msgspec.structs.replace(done.inputs, count=1)

    where = lambda e: (e.rank, e.epoch, e.step) == (0, epoch, step)  # noqa: E731 (one word)
    return changed(history, ev.StepDone, where, inputs=smaller)


def last_bit(history: History) -> History:
    epoch, step = last_place(history)

    def turned(event: ev.StepDone) -> tuple[float | str, ...]:
        assert event.losses is not None
        value = event.losses[0]
        assert isinstance(value, float)
        return (math.nextafter(value, 9.0),)

    where = lambda e: (e.rank, e.epoch, e.step) == (0, epoch, step)  # noqa: E731 (one word)
    return changed(history, ev.StepDone, where, losses=turned)


# -- reports -----------------------------------------------------------------------------------


def counted_anew(history: History) -> History:
    reported_before(history)

    def metrics(done: ev.Committed) -> tuple[dict[str, Any], ...]:
        return tuple({**record, "epoch": record["epoch"] - 1} for record in done.metrics)

    return changed(history, ev.Committed, lambda e: e.attempt == 1, metrics=metrics)


def forgotten_best(history: History) -> History:
    reported_before(history)

    def metrics(done: ev.Committed) -> tuple[dict[str, Any], ...]:
        return tuple({**record, "best": 0.0} for record in done.metrics)

    return changed(history, ev.Committed, lambda e: e.attempt == 1, metrics=metrics)


def averaged_anew(history: History) -> History:
    """Begin an average anew that nothing but a file holds, where it is seen to repeat before."""
    saved = rows(history, ev.FileSaved)
    struck = rows(history, ev.FaultInvoked)[0]
    if not saved or saved[0] > struck or saved[-1] < struck:
        raise NoPlaceError

    def parts(saved: ev.FileSaved) -> tuple[ev.SavedPart, ...]:
        return tuple(msgspec.structs.replace(p, digest="odd", size=0.5) for p in saved.parts)

    return changed(history, ev.FileSaved, lambda e: e.attempt == 1, parts=parts)


# -- storage -----------------------------------------------------------------------------------


def damaged(history: History) -> History:
    def torn(seen: ev.StorageSeen) -> tuple[ev.StoredCheckpoint, ...]:
        return tuple(
            ev.StoredCheckpoint(name=found.name, files=dict.fromkeys(found.files, "torn"))
            for found in seen.checkpoints
        )

    return changed(history, ev.StorageSeen, checkpoints=torn)


def retired(history: History) -> History:
    """Remove the checkpoint that the run goes on from, as soon as it is committed."""
    newest = next(
        e.checkpoint for _, e in history.select_events(ev.WorkerStarted) if e.attempt == 1
    )
    if newest is None:
        raise NoPlaceError
    gone = ev.CheckpointDeleted(attempt=0, checkpoint=newest)
    return after(history, rows(history, ev.Committed, lambda e: e.checkpoint == newest)[0], gone)


# -- attempts, nodes and trials ----------------------------------------------------------------


def zombie(history: History) -> History:
    late = ev.ReportReturned(attempt=0, rank=1, epoch=resumed_at(history))
    last = rows(history, ev.StepDone)[-1]
    return later(told(history, late, before=ev.FitReturned), last, by_s=5)


def fewer_workers(history: History) -> History:
    (number,) = rows(history, ev.WorkerGroupStarted, second)
    opened = history[number].event
    assert isinstance(opened, ev.WorkerGroupStarted)
    return changed(history, ev.WorkerGroupStarted, second, workers=opened.workers[:-1])


def on_a_doomed_node(history: History) -> History:
    """Open the next group while the node that is to go still stands, and on it."""
    number, notice = next(history.select_events(ev.NoticeGiven), (None, None))
    if number is None or notice is None:
        raise NoPlaceError
    place = ev.WorkerPlace(rank=0, pid=7, node_id=notice.node_id, node_ip="::1")
    return after(history, number + 1, ev.WorkerGroupStarted(attempt=1, workers=(place, place)))


def noticed(history: History) -> History:
    if not history.count(ev.BystanderSeen):
        raise NoPlaceError
    return changed(history, ev.BystanderSeen, losses={"rank 0, epoch 0": "odd"})


# -- time --------------------------------------------------------------------------------------


def hung(history: History) -> History:
    for kind in (ev.FitReturned, ev.DriverExited):
        history = without(history, kind)
    history = told(history, ev.DeadlinePassed(limit_s=240))
    return later(history, rows(history, ev.DeadlinePassed)[0] - 1, by_s=100)


def stalled(history: History) -> History:
    return later(history, rows(history, ev.StepDone)[-2], by_s=300)


def late_start(history: History) -> History:
    (opened,) = rows(history, ev.WorkerGroupStarted, second)
    return later(history, opened, by_s=300)
