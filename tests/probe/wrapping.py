"""A run's storage, wrapped, as one process of the run has it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyarrow import fs

from chaos.launch.raytrain.wrapped.filesystem import FaultyFileSystem
from chaos.model.plan import Op
from chaos.model.trigger import AtStep
from chaos.probe.process_identity import HERE
from chaos.probe.storage_faults import StorageSettings
from chaos.run.armed_faults import ArmedFaults

AT = AtStep(epoch=1, step=1, rank=1)
SNAPSHOT = "snapshot.json"


def ops_of(*faults: Any) -> tuple[Op, ...]:
    """Return ops with these faults, in order."""
    kinds = [_key(type(fault).__name__) for fault in faults]
    named = zip(kinds, faults, strict=True)
    return tuple(Op(index=i, at=AT, **{kind: fault}) for i, (kind, fault) in enumerate(named))


def wrapped(
    inner: fs.FileSystem, folder: Path, *faults: Any, root: str = "/r", armed: bool = True
) -> FaultyFileSystem:
    """Return storage whose faults are armed for rank 1."""
    (folder / "journals").mkdir(exist_ok=True)
    ops = ops_of(*faults)
    if armed:
        for op in ops:
            ArmedFaults(folder / "storage-faults").arm(op.index, 1)
    return FaultyFileSystem(inner, StorageSettings(folder, ops, root, SNAPSHOT))


@contextmanager
def being(rank: int | None, *, attempt: int = 0) -> Iterator[None]:
    """Be a rank, or Ray's controller, for a while."""
    before = replace(HERE)
    HERE.rank, HERE.attempt = rank, attempt
    try:
        yield
    finally:
        HERE.rank, HERE.attempt, HERE.upload_count = (
            before.rank,
            before.attempt,
            before.upload_count,
        )


def _key(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
