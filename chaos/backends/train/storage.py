"""What a run left in its own storage."""

from collections.abc import Sequence
from pathlib import Path

from chaos.model.event import AnyEvent, Committed, FitCalled, Leftover
from chaos.run.journal import Journal

PLACE = "checkpoint directories"


def search_storage(journal: Journal, seen: Sequence[AnyEvent], storage: Path) -> tuple[str, ...]:
    """Record the checkpoint directories that were never committed; give the places looked at.

    Storage that is not below the run's own folder (a bucket) is not looked at.
    """
    if not any(isinstance(e, FitCalled) and e.storage_path == str(storage) for e in seen):
        return ()
    for folder in orphan_checkpoints(seen, storage):
        journal.add(Leftover(kind="checkpoint_directory", what=folder.name))
    return (PLACE,)


def orphan_checkpoints(seen: Sequence[AnyEvent], storage: Path) -> list[Path]:
    """Give the checkpoint directories in local storage that were never committed."""
    committed = {event.checkpoint for event in seen if isinstance(event, Committed)}
    return [
        folder
        for folder in sorted(storage.glob("*/checkpoint_*"))
        if folder.is_dir() and folder.name not in committed
    ]
