"""The directories that a run left in its own storage."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path, PurePosixPath

from chaos.launch.raytrain.bucket import load_remote_storage, remove_remote_storage
from chaos.model.event import (
    AnyEvent,
    Committed,
    FitCalled,
    Leftover,
    ObserverFailed,
    PartUploaded,
    StorageSeen,
    StoredCheckpoint,
)
from chaos.model.plan import Plan
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory
from chaos.run.file_digest import folder_digests
from chaos.run.journal import Journal

SEARCHED_PART = "checkpoint directories"
_RUNS = "[!.]*"  # hidden ones are a session's
_RAY_PREFIX = "checkpoint_"


def search_storage(
    journal: Journal,
    events: Sequence[AnyEvent],
    directory: RunDirectory,
    *,
    is_watched: bool = True,
) -> tuple[str, ...]:
    """Record the checkpoint directories that were never committed; return the places searched.

    A checkpoint directory has Ray's name, or was seen to be uploaded under another. If files
    are watched, all directories in storage are recorded as well. Storage that cannot be read
    is an event of its own, since nothing is known of it.
    """
    fit_calls = [event for event in events if isinstance(event, FitCalled)]
    if not fit_calls:
        return ()
    try:
        return _search(journal, events, directory, is_watched=is_watched)
    except OSError as error:
        journal.add(
            ObserverFailed(
                where=f"looking at storage ({fit_calls[-1].storage_path})",
                error=f"{type(error).__name__}: {error}",
            )
        )
        return ()
    finally:
        remove_remote_storage(directory)


def _search(
    journal: Journal, events: Sequence[AnyEvent], directory: RunDirectory, *, is_watched: bool
) -> tuple[str, ...]:
    remote, storage = load_remote_storage(directory), directory.storage
    storage_path = str(storage.resolve())
    if remote is None and not any(
        isinstance(event, FitCalled) and event.storage_path == storage_path for event in events
    ):
        return ()
    if is_watched and (contents := capture_storage(directory, op=None)) is not None:
        journal.add(contents)
    names = _list_folders(storage) if remote is None else remote.folder_names()
    for name in find_orphans(events, names):
        journal.add(Leftover(kind="checkpoint_directory", name=name))
    return (SEARCHED_PART if remote is None else f"{SEARCHED_PART} in {remote.display_uri}",)


def build_storage_reader(
    plan: Plan, directory: RunDirectory
) -> Callable[[int], StorageSeen | None]:
    """Return the function that looks at a run's storage once an op has injected its fault."""
    if not plan.watch.files:
        return lambda _: None
    return lambda op: capture_storage(directory, op=op)


def capture_storage(directory: RunDirectory, *, op: int | None) -> StorageSeen | None:
    """Return the directories in a run's storage, with digests of their files.

    All directories, because a job may name its checkpoints as it likes. Returns None if
    storage is still empty. Raises OSError if it cannot be read.
    """
    # An upload that was under way as the look began, and committed as it ended, is not missing:
    # found by a random plan, in which a right job was blamed.
    began_ns = SystemClock().now_ns()
    remote, storage = load_remote_storage(directory), directory.storage
    if remote is not None:
        return StorageSeen(op=op, began_ns=began_ns, checkpoints=remote.folders())
    if not any(folder.is_dir() for folder in storage.glob(_RUNS)):
        return None
    return StorageSeen(
        op=op,
        began_ns=began_ns,
        checkpoints=tuple(
            StoredCheckpoint(name=folder.name, files=folder_digests(folder))
            for folder in sorted(storage.glob(f"{_RUNS}/*"))
            if folder.is_dir()
        ),
    )


def find_orphans(events: Sequence[AnyEvent], names: Collection[str]) -> list[str]:
    """Return the checkpoint directories that were never committed, of all `names`."""
    committed = {
        entry.checkpoint for entry in events if isinstance(entry, Committed) and entry.checkpoint
    }
    uploaded = {event.checkpoint for event in events if isinstance(event, PartUploaded)}
    parents = {str(folder) for name in committed for folder in PurePosixPath(name).parents}
    # A job may name its checkpoints itself. Other directories count only if an upload to them was
    # seen: the script's own folders lie there as well.
    ray_names = {name for name in names if name.startswith(_RAY_PREFIX) and "/" not in name}
    return sorted((ray_names | (uploaded & set(names))) - committed - parents)


def _list_folders(storage: Path) -> list[str]:
    """Return the paths of all directories in the run's own folder, relative to it."""
    folder_names = [
        folder.relative_to(run).as_posix()
        for run in storage.glob(_RUNS)
        for folder in run.rglob("*")
        if folder.is_dir()
    ]
    return sorted(folder_names)
