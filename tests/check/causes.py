"""Verdicts on histories with a cause."""

from typing import Any

import msgspec

from chaos.model import event as ev
from chaos.model.history import History
from tests.check.tamper import (
    told,
)

# -- the model, by three digests -------------------------------------------------------------------


def with_files(history: History, *parts: ev.SavedPart) -> History:
    """Tell of a file with one entry that was saved in epoch 1, and read by the restart."""
    place: dict[str, Any] = {"epoch": 1, "step": 4, "path": "model.pt", "digest": "d"}
    for rank in (0, 1):
        begun = ev.FileSaveBegun(attempt=0, rank=rank, epoch=1, step=4, path="model.pt")
        saved = ev.FileSaved(attempt=0, rank=rank, **place, bytes=9, parts=parts)
        history = told(history, begun, saved, before=ev.FaultInvoked)
    loads = [
        ev.FileLoaded(
            attempt=1,
            rank=rank,
            epoch=2,
            step=0,
            path="model.pt",
            digest="d",
            saved_attempt=0,
            saved_rank=rank,
            saved_epoch=1,
            saved_step=4,
        )
        for rank in (0, 1)
    ]
    entries = list(history)
    started = max(n for n, e in history.select_events(ev.WorkerStarted) if e.attempt == 1)
    more = [msgspec.structs.replace(entries[started], event=load) for load in loads]
    return History([*entries[: started + 1], *more, *entries[started + 1 :]])
