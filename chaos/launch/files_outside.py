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
from chaos.launch.folder_look import FolderChange, FolderLook
from chaos.launch.node_disk import HEAD, NodeDisk, disks
from chaos.launch.objects_outside import remove_objects
from chaos.model.event import AnyEvent, Disturbed, FolderCompared, WroteOutside
from chaos.model.objects import is_object
from chaos.model.paths import is_below, is_of_a_node
from chaos.probe.address import RunAddress
from chaos.probe.written import TRAINS, Confines, How, Written, is_spared
from chaos.run.ports import View, seen_in

_Told: TypeAlias = Literal["remote", "refused", "created", "replaced", "extended", "opened"]
_TOLD: tuple[_Told, ...] = get_args(_Told)  # worst first
_DATABASE = ("-wal", "-shm", "-journal")  # SQLite's own files beside a database, in native code
_READ_MAX = 64 << 20
_FILES_MAX = 100  # of one kind, in one event


def settle(
    run: RunAddress,
    confines: Confines,
    view: View | None = None,
    *,
    before: FolderLook | None = None,
) -> list[AnyEvent]:
    """Remove the output that a run's processes left outside, in their view; return what was seen.

    `before` is the look at the working folder as the run began. Nothing is recorded in here: a
    disk that is full has no room for that until the files are gone. A run that wrote beyond its
    view is disturbed, since runs beside it may have seen that. Raises `HarnessError` for output
    that cannot be removed: the next run would go on from it.
    """
    lines = [line for disk in disks(run) for line in disk.written()]
    change = None
    if before is not None:
        change = seen_in(view, _unwatched, before, confines, lines)
    in_view = {p for p in change.new if _is_in_view_alone(view, p)} if change else set()
    events, real, stuck = seen_in(view, _removed, run, confines, lines, change, in_view)
    gone = remove_objects(run, lines, (event.path for event in events if event.removed))
    told: list[AnyEvent] = [
        msgspec.structs.replace(event, removed=event.path in gone)
        if is_object(event.path)
        else event
        for event in events
    ]
    beyond = [path for path in real if view is not None and not view.covers(path)]
    if beyond:
        told.append(Disturbed(why=f"it wrote beyond the view of its lane: {min(beyond)}"))
    if stuck:
        raise HarnessError(
            f"{stuck[0]}: the job made this file in a run, and it cannot be removed. Remove it: "
            "the next run would go on from it"
        )
    if change is not None:
        removed = {event.path for event in events}
        told += _compared(change, removed, since_ns=_trains_since_ns(run))
    return told


def _is_in_view_alone(view: View | None, path: str) -> bool:
    """Return whether a file that is seen in a view is none of this machine's: its run made it."""
    return view is not None and view.covers(path) and not os.path.lexists(path)


def _unwatched(
    before: FolderLook, confines: Confines, lines: Iterable[Written]
) -> FolderChange | None:
    """Return what changed in the working folder, and no process that is watched has written."""
    change = before.compared_with_now()
    if change.is_none:
        return None
    watched = (line.path for line in lines if line.how != "named")
    known = {_real(path) for path in (*confines.made(), *watched)}
    allowed = [os.path.realpath(path) for path in confines.allowed]
    return change.without(lambda at: at in known or any(is_below(at, path) for path in allowed))


def _real(path: str) -> str:
    """Return a path with the links of its folder resolved, as a walk has it."""
    folder, name = os.path.split(path)
    return path if is_object(path) else f"{os.path.realpath(folder)}/{name}"


def _removed(
    run: RunAddress,
    confines: Confines,
    lines: list[Written],
    change: FolderChange | None,
    in_view: Collection[str],
) -> tuple[list[WroteOutside], set[str], list[str]]:
    """Remove a run's output outside, but for objects; return events, paths written, what stays."""
    since_ns = _trains_since_ns(run)
    lines = [*lines, *_unseen(lines, confines, since_ns=since_ns)]
    if change is not None:
        lines += _shown(change, lines, in_view, since_ns=since_ns)
    after_fit = {line.path for line in NodeDisk(run, HEAD).written()}
    events = list(files_outside(lines, confines.folder, after_fit=after_fit))
    folders = _folders(lines, confines.folder)
    paths = (*folders, *(event.path for event in events))  # a link is gone afterwards
    real = {path if is_object(path) else os.path.realpath(path) for path in paths}
    stuck = []
    for event in events:
        if event.removed and not is_object(event.path):
            try:
                Path(event.path).unlink()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                continue  # it is no file any more
            except OSError:
                stuck.append(event.path)
    for folder in folders:
        with contextlib.suppress(OSError):  # something else is in it
            Path(folder).rmdir()
    return events, real, stuck


def _shown(
    change: FolderChange,
    lines: Iterable[Written],
    in_view: Collection[str],
    *,
    since_ns: float,
) -> Iterator[Written]:
    """Yield the new files in the working folder that a program of this run has surely made.

    They are seen in the run's view alone; or a program that the job started was given their name,
    or that of a folder or a file beside which they lie (`cp a.pt b.pt`, `gzip a.pt`); or they are
    a database's own. Any other may be another program's, which no run has started.
    """
    named = {_real(line.path) for line in lines if line.how == "named"}
    made = {_real(line.path) for line in lines if line.how in ("created", "folder")}
    for path in change.new:
        stem = next((s for s in _DATABASE if path.endswith(s)), "")
        is_shown = (
            path in in_view
            or path in named
            or not named.isdisjoint(change.folders_above(path))
            or any(path.startswith(f"{one}.") for one in named & made)
            or bool(stem and path.removesuffix(stem) in made)
        )
        if is_shown and _changed_ns(path) >= since_ns:
            yield from (
                Written(folder, "folder", 0, is_output=True)
                for folder in change.folders_above(path)
            )
            yield Written(path, "created", 0, is_output=True)
    for path in change.new_folders & named:
        if _changed_ns(path) >= since_ns:
            yield Written(path, "folder", 0, is_output=True)


def _compared(
    change: FolderChange, removed: Collection[str], *, since_ns: float
) -> Iterator[FolderCompared]:
    """Yield what is left of a change that no process of the run was seen to make in training."""
    left = [path for path in change.new if path not in removed and _changed_ns(path) >= since_ns]
    new = {path: _digest(path) for path in left[:_FILES_MAX]}
    others = [path for path in change.changed if _changed_ns(path) >= since_ns]
    changed = {path: _digest(path) for path in others[:_FILES_MAX]}
    if new or changed or change.gone or change.cut:
        gone = change.gone[:_FILES_MAX]
        yield FolderCompared(new=new, changed=changed, gone=gone, cut=change.cut)


def _changed_ns(path: str) -> float:
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


def files_outside(
    lines: Iterable[Written], folder: Path, *, after_fit: Collection[str] = ()
) -> Iterator[WroteOutside]:
    """Yield one event, with the worst that was done, for each file outside a folder.

    `after_fit` are the paths that the script's own process has written.
    """
    by_path: dict[str, list[Written]] = {}
    saved = set[str]()
    for line in lines:
        if line.how == "saved":
            saved.add(line.path)
        if line.how in _TOLD and not is_below(line.path, str(folder)) and not is_spared(line.path):
            by_path.setdefault(line.path, []).append(line)
    for path, of_path in sorted(by_path.items()):
        worst = next(how for how in _TOLD if any(line.how == how for line in of_path))
        made = any(line.how == "created" for line in of_path)
        is_output = any(line.is_output for line in of_path)
        yield WroteOutside(
            path=path,
            how=worst,
            removed=made and is_output,
            after_fit=path in after_fit,
            is_save=path in saved,
        )


def _folders(lines: Iterable[Written], folder: Path) -> list[str]:
    """Return the folders made outside, the deepest first."""
    made = {line.path for line in lines if line.how == "folder" and line.is_output}
    return sorted((path for path in made if not is_below(path, str(folder))), reverse=True)


def _trains_since_ns(run: RunAddress) -> float:
    """Return the time at which a run's training began (unix, ns)."""
    marks = (run.directory / "nodes").glob(f"*/{TRAINS}")
    return min((mark.stat().st_mtime_ns for mark in marks), default=inf)


def _unseen(lines: Iterable[Written], confines: Confines, *, since_ns: float) -> list[Written]:
    """Return what was made by processes that write no ledger, as by `cp`, in training.

    That is what lies in folders that this run, or one before it, has made outside. Those of the
    audit's own, and of its nodes, may be another run's that goes on. A folder that is recorded was
    made by the start of the script from which this run was forked: its time changes with what is
    made in it, and the next run, which makes it no more, would miss it.
    """
    known = {line.path for line in lines}
    found = list[Written]()
    own = str(confines.folder)
    recorded = {*confines.made()}
    made = (path for path in recorded if not is_below(path, own) and not is_of_a_node(path))
    for top in sorted(filter(os.path.isdir, made)):
        for path, how in _below(top):
            if how == "folder" and path in recorded:
                continue
            if path not in known and os.lstat(path).st_ctime_ns >= since_ns:
                found.append(Written(path, how, 0, is_output=True))
                known.add(path)
    return found


def _below(folder: str) -> Iterator[tuple[str, How]]:
    for at, folders, files in os.walk(folder):
        for path in (f"{at}/{name}" for name in folders):
            yield path, "created" if os.path.islink(path) else "folder"  # noqa: PTH114
        yield from ((f"{at}/{name}", "created") for name in files)
