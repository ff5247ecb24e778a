"""What a run left in its own storage."""

from collections.abc import Callable, Sequence
from pathlib import Path

from chaos.model.event import (
    AnyEvent,
    Committed,
    FitCalled,
    Leftover,
    StorageSeen,
    StoredCheckpoint,
)
from chaos.model.plan import Plan
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory
from chaos.run.file_digest import folder_digests
from chaos.run.journal import Journal

PLACE = "checkpoint directories"


def search_storage(
    journal: Journal, seen: Sequence[AnyEvent], storage: Path, *, is_watched: bool = True
) -> tuple[str, ...]:
    """Record the checkpoint directories that were never committed; give the places looked at.

    Where files are watched, what storage holds is recorded as well. Storage
    that is not below the run's own folder (a bucket) is not looked at.
    """
    if not any(isinstance(e, FitCalled) and e.storage_path == str(storage.resolve()) for e in seen):
        return ()
    held = storage_seen(storage, op=None) if is_watched else None
    if held is not None:
        journal.add(held)
    for folder in orphan_checkpoints(seen, storage):
        journal.add(Leftover(kind="checkpoint_directory", what=folder.name))
    return (PLACE,)


def look_for(plan: Plan, directory: RunDirectory) -> Callable[[int], StorageSeen | None]:
    """Give what looks at a run's storage when an op of its plan has struck."""
    if not plan.watch.files:
        return lambda _: None
    return lambda op: storage_seen(directory.storage, op=op)


def storage_seen(storage: Path, *, op: int | None) -> StorageSeen | None:
    """Give the checkpoint directories below a run's own storage, with digests of their files.

    None where the run keeps nothing there: its storage is elsewhere.
    """
    began_ns = SystemClock().now_ns()
    if not any(folder.is_dir() for folder in storage.glob("[!.]*")):
        return None
    return StorageSeen(
        op=op,
        began_ns=began_ns,
        checkpoints=tuple(
            StoredCheckpoint(name=folder.name, files=folder_digests(folder))
            for folder in sorted(storage.glob("[!.]*/checkpoint_*"))
            if folder.is_dir()
        ),
    )


def orphan_checkpoints(seen: Sequence[AnyEvent], storage: Path) -> list[Path]:
    """Give the checkpoint directories in local storage that were never committed."""
    committed = {event.checkpoint for event in seen if isinstance(event, Committed)}
    return [
        folder
        for folder in sorted(storage.glob("*/checkpoint_*"))
        if folder.is_dir() and folder.name not in committed
    ]
