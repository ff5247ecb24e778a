"""The operations of a job's saves at which a fault can be injected, as a run has shown them."""

from collections.abc import Collection, Iterator, Mapping
from typing import Literal, NamedTuple

from chaos.model.event import FileRenamed, FileSaveBegun, FileTouched
from chaos.model.history import History
from chaos.model.trigger import (
    AtMoment,
    Moment,
    build_path_pattern,
    build_path_patterns,
    find_path_end,
)

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


class SaveOperation(NamedTuple):
    """One operation of a run, with the number of its event."""

    number: int
    moment: Moment
    event: FileSaveBegun | FileRenamed | FileTouched


def describe_operation(moment: Moment | Literal["closing"], path: str) -> str:
    """Return how far a save has come at an operation on a file."""
    return _WORDS[moment].format(path)


def find_operations(history: History) -> Iterator[SaveOperation]:
    """Yield the operations of a run in their order.

    Of savers, only those whose writing can be stopped in its middle.
    """
    for number in history.select_numbers(FileSaveBegun, FileRenamed, FileTouched):
        match history[number].event:
            case FileTouched() as touched:
                yield SaveOperation(number, touched.operation, touched)
            case FileRenamed() as renamed:
                yield SaveOperation(number, "renaming", renamed)
            case FileSaveBegun(saver="torch" | "shards") as saved:
                yield SaveOperation(number, "saving", saved)
            case _:  # another saver
                pass


def find_file(trigger: AtMoment, clean_history: History) -> str | None:
    """Return the file of a place inside a save, as a clean run had it; None if it had none."""
    _, target_operation = _find_save(trigger, clean_history)
    return None if target_operation is None else target_operation.event.path


def describe_leftover(
    trigger: AtMoment,
    history: History,
    clean_history: History,
    read_paths: Collection[str] | None = None,
) -> str:
    """Return, as the end of a sentence, how a death at a place left a file, and the remedy.

    Nothing for a file that the job renames once it is whole, or where the state of names is as
    it is at any other death; nor for half a file that is not among `read_paths`.
    """
    if (path := find_file(trigger, clean_history)) is None:
        return ""
    file_name, pattern = find_path_end(path, 2), build_path_pattern(path)
    removals = (
        event
        for _, event in history.select_events(FileTouched)
        if event.operation == "removing"
        and (event.epoch, event.rank) == (trigger.epoch, trigger.rank)
    )
    if trigger.moment == "linking" and any(
        build_path_pattern(event.path) == pattern for event in removals
    ):
        return (
            f"; {file_name} was removed, and not linked anew: link another name, then "
            f"`os.replace` it"
        )
    if trigger.moment not in ("opening", "saving") or (
        read_paths is not None and path not in read_paths
    ):
        return ""
    if any(
        build_path_pattern(event.path) == pattern
        for _, event in clean_history.select_events(FileRenamed)
    ):
        return ""
    state = "half of" if trigger.moment == "saving" else "nothing of"
    return f"; {state} {file_name} was written: write to a temporary name, then rename"


def describe_save(trigger: AtMoment, clean_history: History) -> list[tuple[str, bool]]:
    """Return the save of a place as a clean run made it: its operations in words, in their order.

    The one at the place is marked; none is, if the run had no such operation.
    """
    operations, target_operation = _find_save(trigger, clean_history)
    patterns = build_path_patterns([{operation.event.path for operation in operations}])
    path_ends = [
        find_path_end(operation.event.path, patterns[operation.event.path].count("/") + 1)
        for operation in operations
    ]
    return [
        (describe_operation(operation.moment, path), operation is target_operation)
        for operation, path in zip(operations, path_ends, strict=True)
    ]


def _find_save(
    trigger: AtMoment, clean_history: History
) -> tuple[list[SaveOperation], SaveOperation | None]:
    """Return the operations of a rank in an epoch, and the one at a place."""
    epoch_and_rank = (trigger.epoch, trigger.rank)
    operations = [
        operation
        for operation in find_operations(clean_history)
        if (operation.event.epoch, operation.event.rank) == epoch_and_rank
    ]
    return operations, next(
        (
            o
            for o in operations
            if o.moment == trigger.moment and trigger.matches_path(o.event.path)
        ),
        None,
    )
