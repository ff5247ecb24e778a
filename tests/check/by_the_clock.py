"""A story's baseline told as of a job that reports by the clock: the same steps, other reports."""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import structs

from chaos.model import event as ev
from chaos.model.history import History, JournalEntry
from tests.check.story import Story, loss
from tests.check.tamper import rows
from tests.check.watching import components, inputs

EVENT_NS = 20_000_000


def by_the_clock(story: Story, lengths: Sequence[int]) -> History:
    """Return it with epochs of these lengths, its state seen before every step."""
    quiet = story.baseline()
    first, last = rows(quiet, ev.StateSeen)[0], rows(quiet, ev.TrainFnEnded)[0]
    head = list(quiet)[:first]
    back = ev.FitReturned(metrics={}, checkpoint=f"checkpoint_0_{len(lengths) - 1}")
    tail = [
        structs.replace(e, event=back) if isinstance(e.event, ev.FitReturned) else e
        for e in list(quiet)[last:]
        if not isinstance(e.event, ev.StorageSeen)
    ]
    start_ns = head[-1].time_ns
    middle = [
        JournalEntry(time_ns=start_ns + EVENT_NS * n, source="worker-1000", seq=n, event=what)
        for n, what in enumerate(_epochs(story, lengths), start=1)
    ]
    late_ns = max(middle[-1].time_ns - tail[0].time_ns, 0)
    return History(
        [*head, *middle, *(structs.replace(e, time_ns=e.time_ns + late_ns) for e in tail)]
    )


def _epochs(story: Story, lengths: Sequence[int]) -> Iterator[ev.AnyEvent]:
    done = 0
    for epoch, length in enumerate(lengths):
        for step in range(1, length + 1):
            for rank in range(story.ranks):
                yield from _step(story, rank, done, (epoch, step))
            done += 1
        for rank in range(story.ranks):
            yield ev.ReportBegun(attempt=0, rank=rank, epoch=epoch)
            yield _state(story, rank, done, (epoch, length), "left")
            yield ev.ReportReturned(attempt=0, rank=rank, epoch=epoch)
        metrics = tuple({"reports": epoch, "mean": length / 7} for _ in range(story.ranks))
        yield ev.Committed(
            attempt=0, epoch=epoch, checkpoint=f"checkpoint_0_{epoch}", metrics=metrics
        )


def _step(story: Story, rank: int, done: int, place: tuple[int, int]) -> Iterator[ev.AnyEvent]:
    epoch, step = place
    yield _state(story, rank, done, (epoch, step - 1), "entered")
    of, nth = divmod(done, story.steps)
    yield ev.StepDone(
        attempt=0,
        rank=rank,
        epoch=epoch,
        step=step,
        losses=(loss(rank, of, nth + 1),),
        inputs=inputs(of, nth + 1, rank, ranks=story.ranks, steps=story.steps),
    )


def _state(story: Story, rank: int, done: int, place: tuple[int, int], moment: Any) -> ev.StateSeen:
    of = (done - (moment == "left")) // story.steps
    parts = components(rank, done, of, drawn=moment == "entered")
    return ev.StateSeen(
        attempt=0, rank=rank, epoch=place[0], step=place[1], moment=moment, components=parts
    )
