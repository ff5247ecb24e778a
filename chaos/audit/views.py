"""Lanes for a job that writes by absolute paths, or to its working directory: each has a view."""

from contextlib import ExitStack
from pathlib import Path

from chaos.audit.baseline_runs import CleanResult
from chaos.errors import NoViewError
from chaos.model.event import FileRenamed, WroteOutside
from chaos.model.objects import is_store_object
from chaos.model.paths import is_in_folder
from chaos.probe.write_ledger import WriteLimits, is_spared
from chaos.processes.view import HeldView, ViewFolders
from chaos.run.machine import free_bytes
from chaos.run.ports import Backend, ScriptBackend

# Of the memory that is free, for all that is written in views.
PART = 0.25


def open_view_lanes(
    stack: ExitStack, backend: ScriptBackend, clean: CleanResult, folder: Path, count: int
) -> list[Backend]:
    """Return backends for so many lanes, none of which sees the files of another.

    `folder` is the audit's. `stack` ends them. Raises `NoViewError` if there can be only one.
    """
    if clean.plan.backend != "fork":
        raise NoViewError("its processes are started anew, and only forks of ours enter one")
    created_paths = WriteLimits(folder).list_created()
    written_paths = [event.path for _, event in clean.baseline.select_events(WroteOutside)]
    if any(map(is_store_object, (*created_paths, *written_paths))):
        raise NoViewError("it saves to a bucket, of which there are no views")
    outside_paths = {
        path for path in (*created_paths, *written_paths) if not is_in_folder(path, str(folder))
    }
    paths = [path for path in outside_paths if not is_spared(path)]
    room = int(PART * free_bytes() / count)
    sights = ViewFolders.from_paths(
        paths, created_paths=set(created_paths), untouched_paths=[str(folder)], max_bytes=room
    )
    for _, rename in clean.baseline.select_events(FileRenamed):
        if sights.covers(rename.path) != sights.covers(rename.to):
            raise NoViewError(
                f"it renames {rename.path} to {rename.to}, which takes one file system"
            )
    views = [stack.enter_context(HeldView(sights)) for _ in range(count)]
    return [stack.enter_context(backend.open_parallel(view)) for view in views]
