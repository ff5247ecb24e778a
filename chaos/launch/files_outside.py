"""The files that an audited job wrote outside the audit's folder, recorded and removed.

A run that found the files of the one before would continue where that one ended.
Output of training is removed; data that a job has fetched or prepared stays, and
so does everything that was there before.
"""

import contextlib
import hashlib
import os
from collections.abc import Collection, Iterable, Iterator
from math import inf
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import msgspec

from chaos.errors import HarnessError
from chaos.launch.folder_snapshot import FolderChange, FolderSnapshot
from chaos.launch.node_disk import HEAD, NodeDisk, find_disks, find_training_marks
from chaos.launch.objects_outside import remove_objects
from chaos.model.event import AnyEvent, Disturbed, FolderCompared, WroteOutside
from chaos.model.objects import is_store_object
from chaos.model.paths import is_in_folder, is_node_path
from chaos.probe.address import RunAddress
from chaos.probe.write_ledger import How, LedgerLine, WriteLimits, is_spared
from chaos.run.ports import LaneFolders, call_in_view

_ReportedWrite: TypeAlias = Literal[
    "remote", "refused", "created", "replaced", "extended", "opened"
]
_REPORTED_WRITES: tuple[_ReportedWrite, ...] = get_args(_ReportedWrite)  # worst first
_DATABASE_SUFFIXES = (
    "-wal",
    "-shm",
    "-journal",
)  # SQLite's own files beside a database, in native code
_READ_MAX = 64 << 20
_FILES_MAX = 100  # of one kind, in one event


def clean_outside_files(
    run: RunAddress,
    confines: WriteLimits,
    view: LaneFolders | None = None,
    *,
    initial_snapshot: FolderSnapshot | None = None,
) -> list[AnyEvent]:
    """Remove the output that a run's processes left outside, in their view; return what was seen.

    `initial_snapshot` is the look at the working folder as the run began. Nothing is recorded in
    here: a disk that is full has no room for that until the files are gone. A run that wrote beyond
    its view is disturbed, since runs beside it may have seen that. Raises `HarnessError` for output
    that cannot be removed: the next run would go on from it.
    """
    lines = [line for disk in find_disks(run) for line in disk.list_writes()]
    change = None
    if initial_snapshot is not None:
        change = call_in_view(view, _find_unwatched_change, initial_snapshot, confines, lines)
    in_view = {p for p in change.new_files if _is_in_view_alone(view, p)} if change else set()
    events, written_paths, undeletable = call_in_view(
        view, _remove_output, run, confines, lines, change, in_view
    )
    removed_objects = remove_objects(run, lines, (event.path for event in events if event.removed))
    all_events: list[AnyEvent] = [
        msgspec.structs.replace(event, removed=event.path in removed_objects)
        if is_store_object(event.path)
        else event
        for event in events
    ]
    paths_beyond_view = [
        path for path in written_paths if view is not None and not view.covers(path)
    ]
    if paths_beyond_view:
        all_events.append(
            Disturbed(why=f"it wrote beyond the view of its lane: {min(paths_beyond_view)}")
        )
    if undeletable:
        raise HarnessError(
            f"{undeletable[0]}: the job made this file in a run, and it cannot be removed. Remove "
            "it: the next run would go on from it"
        )
    if change is not None:
        removed = {event.path for event in events}
        all_events += _compare_folder(change, removed, since_ns=_find_training_start(run))
    return all_events


def _is_in_view_alone(view: LaneFolders | None, path: str) -> bool:
    """Return whether a file that is seen in a view is none of this machine's: its run made it."""
    return view is not None and view.covers(path) and not os.path.lexists(path)


def _find_unwatched_change(
    initial_snapshot: FolderSnapshot, confines: WriteLimits, lines: Iterable[LedgerLine]
) -> FolderChange | None:
    """Return what changed in the working folder, and no process that is watched has written."""
    change = initial_snapshot.compare_current()
    if change.is_empty:
        return None
    watched = (line.path for line in lines if line.how != "named")
    known_paths = {_resolve_folder(path) for path in (*confines.list_created(), *watched)}
    allowed = [os.path.realpath(path) for path in confines.allowed]
    return change.exclude_files(
        lambda changed_path: (
            changed_path in known_paths or any(is_in_folder(changed_path, path) for path in allowed)
        )
    )


def _resolve_folder(path: str) -> str:
    """Return a path with the links of its folder resolved, as a walk has it."""
    folder, name = os.path.split(path)
    return path if is_store_object(path) else f"{os.path.realpath(folder)}/{name}"


def _remove_output(
    run: RunAddress,
    confines: WriteLimits,
    lines: list[LedgerLine],
    change: FolderChange | None,
    in_view: Collection[str],
) -> tuple[list[WroteOutside], set[str], list[str]]:
    """Remove a run's output outside, but for objects; return events, paths written, what stays."""
    since_ns = _find_training_start(run)
    lines = [*lines, *_find_unrecorded(lines, confines, since_ns=since_ns)]
    if change is not None:
        lines += _infer_writes(change, lines, in_view, since_ns=since_ns)
    after_fit = {line.path for line in NodeDisk(run, HEAD).list_writes()}
    events = list(find_outside_files(lines, confines.folder, after_fit=after_fit))
    folders = _list_created_folders(lines, confines.folder)
    paths = (*folders, *(event.path for event in events))  # a link is gone afterwards
    written_paths = {path if is_store_object(path) else os.path.realpath(path) for path in paths}
    undeletable = []
    for event in events:
        if event.removed and not is_store_object(event.path):
            try:
                Path(event.path).unlink()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                continue  # it is no file any more
            except OSError:
                undeletable.append(event.path)
    for folder in folders:
        with contextlib.suppress(OSError):  # something else is in it
            Path(folder).rmdir()
    return events, written_paths, undeletable


def _infer_writes(
    change: FolderChange,
    lines: Iterable[LedgerLine],
    in_view: Collection[str],
    *,
    since_ns: float,
) -> Iterator[LedgerLine]:
    """Yield the new files in the working folder that a program of this run has surely made.

    They are seen in the run's view alone; or a program that the job started was given their name,
    or that of a folder or a file beside which they lie (`cp a.pt b.pt`, `gzip a.pt`); or they are
    a database's own. Any other may be another program's, which no run has started.
    """
    argument_paths = {_resolve_folder(line.path) for line in lines if line.how == "named"}
    created_paths = {
        _resolve_folder(line.path) for line in lines if line.how in ("created", "folder")
    }
    for path in change.new_files:
        suffix = next((ending for ending in _DATABASE_SUFFIXES if path.endswith(ending)), "")
        is_created = (
            path in in_view
            or path in argument_paths
            or not argument_paths.isdisjoint(change.find_new_parents(path))
            or any(path.startswith(f"{source}.") for source in argument_paths & created_paths)
            or bool(suffix and path.removesuffix(suffix) in created_paths)
        )
        if is_created and _find_change_time(path) >= since_ns:
            yield from (
                LedgerLine(folder, "folder", 0, is_output=True)
                for folder in change.find_new_parents(path)
            )
            yield LedgerLine(path, "created", 0, is_output=True)
    for path in change.new_folders & argument_paths:
        if _find_change_time(path) >= since_ns:
            yield LedgerLine(path, "folder", 0, is_output=True)


def _compare_folder(
    change: FolderChange, removed: Collection[str], *, since_ns: float
) -> Iterator[FolderCompared]:
    """Yield what is left of a change that no process of the run was seen to make in training."""
    new_paths = [
        path
        for path in change.new_files
        if path not in removed and _find_change_time(path) >= since_ns
    ]
    new = {path: _digest(path) for path in new_paths[:_FILES_MAX]}
    changed_paths = [path for path in change.changed_files if _find_change_time(path) >= since_ns]
    changed = {path: _digest(path) for path in changed_paths[:_FILES_MAX]}
    if new or changed or change.removed_files or change.truncated_at:
        gone = change.removed_files[:_FILES_MAX]
        yield FolderCompared(new=new, changed=changed, gone=gone, cut=change.truncated_at)


def _find_change_time(path: str) -> float:
    """Return when a file was made or changed last, as its file system has it; 0: it is gone."""
    try:
        return os.lstat(path).st_ctime_ns
    except OSError:
        return 0


def _digest(path: str) -> str:
    """Return what tells a file's content from another one's; of a large one, of its beginning."""
    try:
        with Path(path).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return f"{size}-{hashlib.blake2b(file.read(_READ_MAX), digest_size=16).hexdigest()}"
    except OSError:
        return ""


def find_outside_files(
    lines: Iterable[LedgerLine], folder: Path, *, after_fit: Collection[str] = ()
) -> Iterator[WroteOutside]:
    """Yield one event, with the worst that was done, for each file outside a folder.

    `after_fit` are the paths that the script's own process has written.
    """
    by_path: dict[str, list[LedgerLine]] = {}
    saved = set[str]()
    for line in lines:
        if line.how == "saved":
            saved.add(line.path)
        if (
            line.how in _REPORTED_WRITES
            and not is_in_folder(line.path, str(folder))
            and not is_spared(line.path)
        ):
            by_path.setdefault(line.path, []).append(line)
    for path, path_lines in sorted(by_path.items()):
        worst = next(
            kind for kind in _REPORTED_WRITES if any(line.how == kind for line in path_lines)
        )
        is_created = any(line.how == "created" for line in path_lines)
        is_output = any(line.is_output for line in path_lines)
        yield WroteOutside(
            path=path,
            operation=worst,
            removed=is_created and is_output,
            after_fit=path in after_fit,
            is_save=path in saved,
        )


def _list_created_folders(lines: Iterable[LedgerLine], folder: Path) -> list[str]:
    """Return the folders made outside, the deepest first."""
    created_folders = {line.path for line in lines if line.how == "folder" and line.is_output}
    return sorted(
        (path for path in created_folders if not is_in_folder(path, str(folder))), reverse=True
    )


def _find_training_start(run: RunAddress) -> float:
    """Return the time at which a run's training began (unix, ns)."""
    return min((mark.stat().st_mtime_ns for mark in find_training_marks(run)), default=inf)


def _find_unrecorded(
    lines: Iterable[LedgerLine], confines: WriteLimits, *, since_ns: float
) -> list[LedgerLine]:
    """Return what was made by processes that write no ledger, as by `cp`, in training.

    That is what lies in folders that this run, or one before it, has made outside. Those of the
    audit's own, and of its nodes, may be another run's that goes on. A folder that is recorded was
    made by the start of the script from which this run was forked: its time changes with what is
    made in it, and the next run, which makes it no more, would miss it.
    """
    known_paths = {line.path for line in lines}
    unrecorded = list[LedgerLine]()
    audit_folder = str(confines.folder)
    recorded_paths = {*confines.list_created()}
    outside_paths = (
        path
        for path in recorded_paths
        if not is_in_folder(path, audit_folder) and not is_node_path(path)
    )
    for folder in sorted(filter(os.path.isdir, outside_paths)):
        for path, kind in _walk_entries(folder):
            if kind == "folder" and path in recorded_paths:
                continue
            if path not in known_paths and os.lstat(path).st_ctime_ns >= since_ns:
                unrecorded.append(LedgerLine(path, kind, 0, is_output=True))
                known_paths.add(path)
    return unrecorded


def _walk_entries(folder: str) -> Iterator[tuple[str, How]]:
    for parent, folders, files in os.walk(folder):
        for path in (f"{parent}/{name}" for name in folders):
            yield path, "created" if os.path.islink(path) else "folder"  # noqa: PTH114
        yield from ((f"{parent}/{name}", "created") for name in files)
