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
from chaos.model.places import Place
from chaos.record import Record

_OfFiles = FileSaved | FileRenamed | FileCopied | FileTouched


class FirstSave(Record):
    """The file by which the first save of a clean run was whole, and where that was."""

    path: str
    rank: int
    epoch: int
    step: int


def first_save(baseline: History) -> FirstSave | None:
    """Return the first save of a clean run; None where none of its own files was seen."""
    number, begun = next(iter(baseline.of(FileSaved)), (0, None))
    if begun is None:
        return None
    path = begun.path
    for entry in baseline.entries[number:]:
        what = entry.what
        if getattr(what, "rank", None) != begun.rank:
            continue
        if isinstance(what, StepDone):
            break
        # The last name that comes to be is the one that makes it whole: of a file that is renamed,
        # a copy, a link to the newest.
        if isinstance(what, _OfFiles):
            path = _new_name(what) or path
    return FirstSave(path=path, rank=begun.rank, epoch=begun.epoch, step=begun.step)


def _new_name(what: _OfFiles) -> str | None:
    if isinstance(what, FileTouched):
        return what.path if what.how == "linking" else None
    return what.to if isinstance(what, FileRenamed) else what.path


def has_passed(first: FirstSave, recorded: Iterable[AnyEvent]) -> bool:
    """Return whether the rank has trained on from the place of its first save."""
    place = Place(first.epoch, first.step)
    steps = (e for e in recorded if isinstance(e, StepDone) and e.rank == first.rank)
    return any(Place(e.epoch, e.step) > place for e in steps)
