"""The files that an audited job wrote outside the audit's folder, recorded and removed.

A run that found the files of the one before would continue where that one ended.
Output of training is removed; data that a job has fetched or prepared stays, and
so does everything that was there before.
"""

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator
from math import inf
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import msgspec

from chaos.launch.node_disk import HEAD, NodeDisk, disks
from chaos.launch.objects_outside import remove_objects
from chaos.model.event import Disturbed, WroteOutside
from chaos.model.objects import is_object
from chaos.model.paths import is_below, is_of_a_node
from chaos.probe.address import RunAddress
from chaos.probe.written import TRAINS, Confines, How, Written, is_spared
from chaos.run.journal import Journal
from chaos.run.ports import View, seen_in

_Told: TypeAlias = Literal["remote", "refused", "created", "replaced", "extended", "opened"]
_TOLD: tuple[_Told, ...] = get_args(_Told)  # worst first


def settle(run: RunAddress, confines: Confines, journal: Journal, view: View | None = None) -> None:
    """Record what a run's processes wrote outside, in their view, and remove their output.

    A run that wrote beyond its view is disturbed: runs beside it may have seen that.
    """
    lines = [line for disk in disks(run) for line in disk.written()]
    events, real = seen_in(view, _removed, run, confines, lines)
    gone = remove_objects(run, lines, (event.path for event in events if event.removed))
    for event in events:
        is_gone = event.path in gone if is_object(event.path) else event.removed
        journal.add(msgspec.structs.replace(event, removed=is_gone))
    beyond = [path for path in real if view is not None and not view.covers(path)]
    if beyond:
        journal.add(Disturbed(why=f"it wrote beyond the view of its lane: {min(beyond)}"))


def _removed(
    run: RunAddress, confines: Confines, lines: list[Written]
) -> tuple[list[WroteOutside], set[str]]:
    """Remove a run's output outside, but for objects; return the events, and all paths written."""
    lines = [*lines, *_unseen(lines, confines, since_ns=_trains_since_ns(run))]
    after_fit = {line.path for line in NodeDisk(run, HEAD).written()}
    events = list(files_outside(lines, confines.folder, after_fit=after_fit))
    folders = _folders(lines, confines.folder)
    paths = (*folders, *(event.path for event in events))  # a link is gone afterwards
    real = {path if is_object(path) else os.path.realpath(path) for path in paths}
    for event in events:
        if event.removed and not is_object(event.path):
            with contextlib.suppress(OSError):  # gone, or not removable any more
                Path(event.path).unlink()
    for folder in folders:
        with contextlib.suppress(OSError):  # something else is in it
            Path(folder).rmdir()
    return events, real


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
    audit's own, and of its nodes, may be another run's that goes on.
    """
    known = {line.path for line in lines}
    found = list[Written]()
    own = str(confines.folder)
    made = (path for path in confines.made() if not is_below(path, own) and not is_of_a_node(path))
    for top in sorted(filter(os.path.isdir, made)):
        for path, how in _below(top):
            if path not in known and os.lstat(path).st_ctime_ns >= since_ns:
                found.append(Written(path, how, 0, is_output=True))
                known.add(path)
    return found


def _below(folder: str) -> Iterator[tuple[str, How]]:
    for at, folders, files in os.walk(folder):
        for path in (f"{at}/{name}" for name in folders):
            yield path, "created" if os.path.islink(path) else "folder"  # noqa: PTH114
        yield from ((f"{at}/{name}", "created") for name in files)
