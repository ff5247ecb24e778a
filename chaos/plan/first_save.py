"""The first save of a job: before it there is nothing that an argument for a restart could read."""

from collections.abc import Iterable

from chaos.model.event import (
    AnyEvent,
    FileCopied,
    FileRenamed,
    FileSaved,
    FileTouched,
    StepDone,
)
from chaos.model.history import History
from chaos.model.places import TrainingPlace
from chaos.record import Record

_OfFiles = FileSaved | FileRenamed | FileCopied | FileTouched


class FirstSave(Record):
    """The file by which the first save of a clean run was whole, and where that was."""

    path: str
    rank: int
    epoch: int
    step: int


def find_first_save(baseline: History) -> FirstSave | None:
    """Return the first save of a clean run; None where none of its own files was seen."""
    number, save_event = next(iter(baseline.select_events(FileSaved)), (0, None))
    if save_event is None:
        return None
    path = save_event.path
    for entry in baseline.entries[number:]:
        event = entry.event
        if getattr(event, "rank", None) != save_event.rank:
            continue
        if isinstance(event, StepDone):
            break
        # The last name that comes to be is the one that makes it whole: of a file that is renamed,
        # a copy, a link to the newest.
        if isinstance(event, _OfFiles):
            path = _find_new_name(event) or path
    return FirstSave(path=path, rank=save_event.rank, epoch=save_event.epoch, step=save_event.step)


def _find_new_name(event: _OfFiles) -> str | None:
    if isinstance(event, FileTouched):
        return event.path if event.operation == "linking" else None
    return event.to if isinstance(event, FileRenamed) else event.path


def has_passed(first_save: FirstSave, recorded_events: Iterable[AnyEvent]) -> bool:
    """Return whether the rank has trained on from the place of its first save."""
    training_place = TrainingPlace(first_save.epoch, first_save.step)
    steps = (e for e in recorded_events if isinstance(e, StepDone) and e.rank == first_save.rank)
    return any(TrainingPlace(e.epoch, e.step) > training_place for e in steps)
