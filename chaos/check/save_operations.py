"""The operations of a job's saves at which a fault can be injected, as a run has shown them."""

from collections.abc import Collection, Iterator, Mapping
from typing import Literal, NamedTuple

from chaos.model.event import FileRenamed, FileSaveBegun, FileTouched
from chaos.model.history import History
from chaos.model.trigger import AtMoment, Moment, path_end, path_pattern, path_patterns

_WORDS: Mapping[Moment | Literal["closing"], str] = {
    "closing": "{} is to be in its bucket",
    "saving": "half of {} is written",
    "making": "{} is made, and empty",
    "opening": "{} is empty",
    "renaming": "{} is to be renamed",
    "linking": "{} is to be linked",
    "removing": "{} is to be removed",
    "putting": "{} is to be put",
    "completing": "the parts of {} are sent",
}


class SeenOperation(NamedTuple):
    """One operation of a run, with the number of its event."""

    number: int
    moment: Moment
    what: FileSaveBegun | FileRenamed | FileTouched


def operation_in_words(moment: Moment | Literal["closing"], path: str) -> str:
    """Return how far a save has come at an operation on a file."""
    return _WORDS[moment].format(path)


def operations_of(history: History) -> Iterator[SeenOperation]:
    """Yield the operations of a run in their order.

    Of savers, only those whose writing can be stopped in its middle.
    """
    for number in history.numbers_of(FileSaveBegun, FileRenamed, FileTouched):
        match history[number].what:
            case FileTouched() as touched:
                yield SeenOperation(number, touched.how, touched)
            case FileRenamed() as renamed:
                yield SeenOperation(number, "renaming", renamed)
            case FileSaveBegun(saver="torch" | "shards") as saved:
                yield SeenOperation(number, "saving", saved)
            case _:  # another saver
                pass


def file_at(at: AtMoment, clean: History) -> str | None:
    """Return the file of a place inside a save, as a clean run had it; None if it had none."""
    _, marked = _save_at(at, clean)
    return None if marked is None else marked.what.path


def left_by(
    at: AtMoment, history: History, clean: History, read: Collection[str] | None = None
) -> str:
    """Return, as the end of a sentence, how a death at a place left a file, and the remedy.

    Nothing for a file that the job renames once it is whole, or where the state of names is as
    it is at any other death; nor for half a file that is not among those that were `read`.
    """
    if (path := file_at(at, clean)) is None:
        return ""
    name, pattern = path_end(path, 2), path_pattern(path)
    removed = (
        event
        for _, event in history.of(FileTouched)
        if event.how == "removing" and (event.epoch, event.rank) == (at.epoch, at.rank)
    )
    if at.moment == "linking" and any(path_pattern(event.path) == pattern for event in removed):
        return f"; {name} was removed, and not linked anew: link another name, then `os.replace` it"
    if at.moment not in ("opening", "saving") or (read is not None and path not in read):
        return ""
    if any(path_pattern(event.path) == pattern for _, event in clean.of(FileRenamed)):
        return ""
    state = "half of" if at.moment == "saving" else "nothing of"
    return f"; {state} {name} was written: write to a temporary name, then rename"


def save_with(at: AtMoment, clean: History) -> list[tuple[str, bool]]:
    """Return the save of a place as a clean run made it: its operations in words, in their order.

    The one at the place is marked; none is, if the run had no such operation.
    """
    mine, marked = _save_at(at, clean)
    patterns = path_patterns([{one.what.path for one in mine}])
    told = [path_end(one.what.path, patterns[one.what.path].count("/") + 1) for one in mine]
    return [
        (operation_in_words(one.moment, path), one is marked)
        for one, path in zip(mine, told, strict=True)
    ]


def _save_at(at: AtMoment, clean: History) -> tuple[list[SeenOperation], SeenOperation | None]:
    """Return the operations of a rank in an epoch, and the one at a place."""
    here = (at.epoch, at.rank)
    mine = [one for one in operations_of(clean) if (one.what.epoch, one.what.rank) == here]
    return mine, next((o for o in mine if o.moment == at.moment and at.is_of(o.what.path)), None)
