"""Files by which a job finds its save, such as a manifest that is replaced after each one.

A save to which no such file points yet is not one that a restart can find: a writer beside training
may be ended between the two. A right job with such a writer was said to have thrown work away.
"""

from collections import defaultdict
from itertools import pairwise

from chaos.model.event import FileRenamed, FileWritten
from chaos.model.history import History
from chaos.model.places import TrainingPlace
from chaos.resume.files import RunFiles, SavedFile, find_save_place, mask_path_numbers


def find_pointers(files: RunFiles) -> frozenset[str]:
    """Return the files that a start has read, and that the baseline replaced after each save.

    Saves themselves are none.
    """
    baseline = files.reference or files
    numbers_by_series: dict[str, list[int]] = defaultdict(list)
    for save in baseline.saves:
        numbers_by_series[mask_path_numbers(save.final_path)].append(save.event_number)
    saved_paths = {save.final_path for save in baseline.saves}
    spans = [span for numbers in numbers_by_series.values() for span in pairwise(numbers)]
    if not spans:
        return frozenset()
    writes = _collect_writes(baseline.history)
    return frozenset(
        path
        for path in files.loaded_paths - saved_paths
        if all(any(start < n < end for n in writes.get(path, ())) for start, end in spans)
    )


def can_be_found(files: RunFiles, pointers: frozenset[str], save: SavedFile, attempt: int) -> bool:
    """Return whether no pointer is older than a save, as an attempt starts, and none is missing.

    A pointer that was not read, or of unknown origin, does not show it. Nor does one that is older
    than two saves: whatever ends a writer does so after its last one.
    """
    has_later_save = any(
        later_save.event_number > save.event_number
        and (later_save.attempt, later_save.rank) == (save.attempt, save.rank)
        and later_save.final_series == save.final_series
        for later_save in files.saves
    )
    return has_later_save or not any(_is_older(files, path, save, attempt) for path in pointers)


def _is_older(files: RunFiles, path: str, save: SavedFile, attempt: int) -> bool:
    loads = [
        load
        for (reading_attempt, _), rank_loads in files.loads.items()
        for _, load in rank_loads
        if reading_attempt == attempt and load.path == path
    ]
    save_place = save.attempt, TrainingPlace(save.epoch, save.step)
    if loads:
        return all(
            load.saved_attempt is not None
            and (load.saved_attempt, find_save_place(load)) < save_place
            for load in loads
        )
    files_by_rank = files.present_files_by_attempt.get(attempt, {})
    states = [rank_files[path].state for rank_files in files_by_rank.values() if path in rank_files]
    return bool(files_by_rank) and "there" not in states


def _collect_writes(history: History) -> dict[str, list[int]]:
    """Return the events after which a file has other content, by its path."""
    writes: dict[str, list[int]] = defaultdict(list)
    for number, rename in history.select_events(FileRenamed):
        writes[rename.to].append(number)
    for number, written in history.select_events(FileWritten):
        writes[written.path].append(number)
    return writes
