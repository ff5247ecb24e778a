"""Files that may be ahead of the checkpoint: the job wrote to them after it was saved.

A database of difficulties, a table of samples that were passed: a restart finds them as they were
when the job died, beside a model of an earlier step. That training comes out otherwise for one of
them is not shown by it.
"""

from chaos.check.analysis import RunAnalysis
from chaos.check.census import resume_of
from chaos.model.event import FileLoaded, FileRenamed, FileSaveBegun, WroteOutside
from chaos.model.objects import is_object
from chaos.model.places import Place

FILES_MAX = 3
_DATABASES = (".db", ".sqlite", ".sqlite3", ".db3", ".duckdb", ".mdb", ".lmdb")
_LOGS = (".log", ".out", ".txt", ".csv", ".jsonl")


def files_ahead(analysis: RunAnalysis) -> tuple[str, ...]:
    """Return the files that may be ahead at the resume that is looked at, the likeliest first.

    Those that were read there and are of a later place than the one that training goes on from.
    Then what training writes beside its saves: databases before others, and logs last.
    """
    attempt = next(
        (r.attempt for r in analysis.restarts if _is_at(analysis, r.attempt.index)), None
    )
    if attempt is None or attempt.place is None or analysis.counterpart is None:
        return ()
    read = [e for _, e in analysis.history.of(FileLoaded) if e.attempt == attempt.index]
    saved = {
        e.path: Place(e.saved_epoch, e.saved_step or 0) for e in read if e.saved_epoch is not None
    }
    later = [path for path, place in saved.items() if place > attempt.place]
    saves = {e.path for _, e in analysis.counterpart.of(FileSaveBegun)}
    saves |= {e.to for _, e in analysis.counterpart.of(FileRenamed) if e.path in saves}
    wrote = [e for _, e in analysis.counterpart.of(WroteOutside) if e.removed]
    others = [e.path for e in wrote if e.path not in saves | saved.keys() and not is_object(e.path)]
    return tuple(dict.fromkeys([*later, *sorted(others, key=_unlikely)]))[:FILES_MAX]


def _is_at(analysis: RunAnalysis, attempt: int) -> bool:
    return attempt > 0 and attempt == resume_of(analysis).attempt


def _unlikely(path: str) -> tuple[bool, bool, str]:
    return not path.endswith(_DATABASES), path.endswith(_LOGS), path
