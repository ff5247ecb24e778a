"""Files of the job's own that a later attempt could not read, or could not go on from."""

import re
from collections.abc import Iterator

from chaos.check.analysis import RunAnalysis
from chaos.check.anomaly import build_anomaly
from chaos.check.kinds.checkpoints import (
    ErrorAfterLoad,
    FileCutShort,
    FileNotSynced,
    FileUnreadable,
    LoadRefused,
    UnreadableFile,
)
from chaos.model.causes import find_causes, is_own_error
from chaos.model.event import FaultEnded, FileLoaded, FileRenamed
from chaos.model.verdict import Anomaly
from chaos.resume.files import SavedFile, is_readable_run_file

# torch 2.13: `torch.load` takes tensors and plain values alone by default.
_REFUSED_LOAD = re.compile(r"weights.only load failed|weights_only", re.IGNORECASE)


def find_unreadable_files(analysis: RunAnalysis) -> Iterator[Anomaly]:
    """Yield findings about files of the job's own that an attempt could not read and ended on."""
    files = analysis.run.files
    reported_paths: set[str] = set()
    for (index, rank), loads in sorted(files.loads.items()):
        attempt = next((a for a in analysis.run.attempts if a.index == index), None)
        # A finding only if all of it is so: a later attempt, of which this rank made no step, whose
        # file this run has saved under that name, with no later load that made it good, and without
        # a fault that ended the attempt. A job may try files in turn until one can be read.
        failed_loads = [(n, e) for n, e in loads if e.error is not None]
        if (
            attempt is None
            or not failed_loads
            or index == 0
            or rank in attempt.first_step_event_numbers
        ):
            continue
        number, load = failed_loads[-1]
        is_recovered = any(
            is_readable_run_file(later_load) for n, later_load in loads if n > number
        )
        torn_save = files.find_torn_save(load.path, end_number=number)
        renames = analysis.history.select_events(FileRenamed)
        names = {load.path} | {e.path for _, e in renames if e.to == load.path}
        was_saved = any(s.first_path in names and s.event_number < number for s in files.saves)
        is_faulted = index in analysis.hits or index in analysis.doubtful_attempts
        if is_recovered or is_faulted or not was_saved or load.path in reported_paths:
            continue
        reported_paths.add(load.path)
        yield build_anomaly(
            _build_unreadable_file(analysis, load, torn_save, load_number=number),
            analysis.launcher_words,
            events=(*((torn_save.event_number,) if torn_save else ()), number),
        )


def _build_unreadable_file(
    analysis: RunAnalysis, load: FileLoaded, torn_save: SavedFile | None, *, load_number: int
) -> UnreadableFile:
    """Return the facts of a file that cannot be read, by what is known of its state."""
    rank, attempt, path, error = load.rank, load.attempt, load.path, load.error or ""
    if torn_save is not None:
        return FileCutShort(rank, attempt, path, error, torn_save.rank)
    fault_ends = (
        event
        for number, event in analysis.history.select_events(FaultEnded)
        if number < load_number
    )
    if any(path in event.emptied_files for event in fault_ends):
        return FileNotSynced(rank, attempt, path, error)
    if _REFUSED_LOAD.search(error):
        return LoadRefused(rank, attempt, path, error)
    return FileUnreadable(rank, attempt, path, error)


def find_load_errors(analysis: RunAnalysis) -> Iterator[Anomaly]:
    """Yield attempts that read a save, and raised of themselves before any rank made a step."""
    # The load itself did not raise, but what came of it did (a shape, a key, a type). The error
    # must be the rank's own: of a peer that was lost every rank has one.
    if analysis.has_expected_error:
        return
    for restart in analysis.restarts:
        attempt, files = restart.attempt, analysis.run.files
        is_faulted = attempt.index in {
            *analysis.hits,
            *analysis.join_attempts,
            *analysis.doubtful_attempts,
        }
        newest_loads = [
            files.find_newest_load(attempt.index, rank) for rank in sorted(attempt.starts)
        ]
        loads = [load for load in newest_loads if load is not None]
        errors = {r: e for d in attempt.decisions for r, e in d.event.errors.items()}
        rank_errors = {
            rank: error for rank, error in find_causes(errors).items() if is_own_error(error)
        }
        if is_faulted or attempt.first_step_event_numbers or not loads or not rank_errors:
            continue
        yield build_anomaly(
            ErrorAfterLoad(attempt.index, loads[0][1].path, rank_errors),
            analysis.launcher_words,
            events=(loads[0][0], attempt.decisions[0].number),
        )
        return
