"""Helpers for the tests of rows."""

from chaos.model.event import (
    Event,
    StepDone,
)
from chaos.model.history import History, JournalEntry


def of_many_ranks(history: History, ranks: int) -> History:
    """Let every step be made by many ranks."""
    entries = []
    for entry in history:
        what = entry.event
        if isinstance(what, StepDone):
            for rank in range(ranks):
                done = StepDone(
                    attempt=what.attempt,
                    rank=rank,
                    epoch=what.epoch,
                    step=what.step,
                    losses=what.losses,
                )
                entries.append(JournalEntry(time_ns=entry.time_ns, source="w", seq=0, event=done))
        else:
            entries.append(entry)
    return History(entries)


def until(history: History, kind: type[Event]) -> History:
    """Cut a history after the first event of a kind, as if nothing more was recorded."""
    number, _ = next(history.select_events(kind))
    return History(history[: number + 1])
