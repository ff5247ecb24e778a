"""Files that may be ahead of the checkpoint: the job wrote to them after it was saved.

A database of difficulties, a table of samples that were passed: a restart finds them as they were
when the job died, beside a model of an earlier step. That training comes out otherwise for one of
them is not shown by it.
"""

from chaos.check.analysis import RunAnalysis
from chaos.check.census import find_examined_resume
from chaos.model.event import FileLoaded, FileRenamed, FileSaveBegun, WroteOutside
from chaos.model.objects import is_store_object
from chaos.model.places import TrainingPlace

FILES_MAX = 3
_DATABASES = (".db", ".sqlite", ".sqlite3", ".db3", ".duckdb", ".mdb", ".lmdb")
_LOGS = (".log", ".out", ".txt", ".csv", ".jsonl")


def find_files_ahead(analysis: RunAnalysis) -> tuple[str, ...]:
    """Return the files that may be ahead at the resume that is looked at, the likeliest first.

    Those that were read there and are of a later place than the one that training goes on from.
    Then what training writes beside its saves: databases before others, and logs last.
    """
    attempt = next(
        (r.attempt for r in analysis.restarts if _is_examined(analysis, r.attempt.index)), None
    )
    if attempt is None or attempt.training_place is None or analysis.aligned_baseline is None:
        return ()
    loads = [
        event
        for _, event in analysis.history.select_events(FileLoaded)
        if event.attempt == attempt.index
    ]
    saved_places = {
        event.path: TrainingPlace(event.saved_epoch, event.saved_step or 0)
        for event in loads
        if event.saved_epoch is not None
    }
    later_paths = [path for path, place in saved_places.items() if place > attempt.training_place]
    save_paths = {event.path for _, event in analysis.aligned_baseline.select_events(FileSaveBegun)}
    save_paths |= {
        event.to
        for _, event in analysis.aligned_baseline.select_events(FileRenamed)
        if event.path in save_paths
    }
    outside_writes = [
        event for _, event in analysis.aligned_baseline.select_events(WroteOutside) if event.removed
    ]
    other_paths = [
        event.path
        for event in outside_writes
        if event.path not in save_paths | saved_places.keys() and not is_store_object(event.path)
    ]
    return tuple(dict.fromkeys([*later_paths, *sorted(other_paths, key=_sort_key)]))[:FILES_MAX]


def _is_examined(analysis: RunAnalysis, attempt: int) -> bool:
    return attempt > 0 and attempt == find_examined_resume(analysis).attempt


def _sort_key(path: str) -> tuple[bool, bool, str]:
    return not path.endswith(_DATABASES), path.endswith(_LOGS), path
