"""Lanes for a job that writes by absolute paths, or to its working directory: each has a view."""

from contextlib import ExitStack
from pathlib import Path

from chaos.audit.baseline_runs import Clean
from chaos.errors import NoViewError
from chaos.model.event import FileRenamed, WroteOutside
from chaos.model.objects import is_object
from chaos.model.paths import is_below
from chaos.probe.written import Confines, is_spared
from chaos.processes.view import HeldView, Sights
from chaos.run.machine import free_bytes
from chaos.run.ports import Backend, ScriptBackend

# Of the memory that is free, for all that is written in views.
PART = 0.25


def lanes_apart(
    stack: ExitStack, backend: ScriptBackend, clean: Clean, folder: Path, count: int
) -> list[Backend]:
    """Return backends for so many lanes, none of which sees the files of another.

    `folder` is the audit's. `stack` ends them. Raises `NoViewError` if there can be only one.
    """
    if clean.plan.backend != "fork":
        raise NoViewError("its processes are started anew, and only forks of ours enter one")
    made = Confines(folder).made()
    wrote = [event.path for _, event in clean.baseline.of(WroteOutside)]
    if any(map(is_object, (*made, *wrote))):
        raise NoViewError("it saves to a bucket, of which there are no views")
    outside = {path for path in (*made, *wrote) if not is_below(path, str(folder))}
    paths = [path for path in outside if not is_spared(path)]
    room = int(PART * free_bytes() / count)
    sights = Sights.of(paths, made=set(made), kept=[str(folder)], room=room)
    for _, moved in clean.baseline.of(FileRenamed):
        if sights.cover(moved.path) != sights.cover(moved.to):
            raise NoViewError(f"it renames {moved.path} to {moved.to}, which takes one file system")
    views = [stack.enter_context(HeldView(sights)) for _ in range(count)]
    return [stack.enter_context(backend.beside(view)) for view in views]
