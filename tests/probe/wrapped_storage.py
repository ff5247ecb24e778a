"""Wrapped storage over a folder, as rank 1 has it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from chaos.model.event import StorageFaulted
from chaos.probe.process_identity import HERE
from chaos.run.journal import read_history
from tests.probe.wrapping import being, wrapped


@pytest.fixture(autouse=True)
def as_rank_1() -> Iterator[None]:
    with being(1):
        yield


def effects(folder: Path) -> list[tuple[int, str]]:
    """Return what the journals say that storage did."""
    found = read_history(folder / "journals").select_events(StorageFaulted)
    return [(event.op, event.effect) for _, event in found]


def upload(storage: fs.FileSystem, folder: Path, **files: bytes) -> Path:
    """Upload some files as Ray does, with its threads; give the folder that they are to be in."""
    HERE.upload_count += 1
    source, target = folder / f"source-{HERE.upload_count}", folder / f"r/c{HERE.upload_count}"
    source.mkdir()
    for name, content in files.items():
        (source / name).write_bytes(content)
    storage.create_dir(str(target))
    fs.copy_files(str(source), str(target), destination_filesystem=storage)
    return target


def storage_with(folder: Path, *faults: Any) -> Any:
    (folder / "r").mkdir()
    return wrapped(fs.LocalFileSystem(), folder, *faults, root=str(folder / "r"))
