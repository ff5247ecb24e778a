"""The index of a sharded checkpoint: its files and entries, as its `.metadata` names them.

A checkpoint of `torch.distributed.checkpoint` (torch 2.13, `filesystem.py`) is a folder with files
of shards and one index, a pickle that is written last. The index is read without calling anything
but the classes that it is made of.
"""

import pickle
import sys
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from chaos.model.event import ShardedPart

INDEX, SHARDS = ".metadata", ".distcp"
READ_MAX = 16 << 20
KEYS_MAX = 2048
_MODULE = "torch.distributed.checkpoint."
_OTHERS = {("torch", "Size"), ("torch.serialization", "_get_layout"), ("pathlib", "PosixPath")}


def sharded_part(folder: Path, files: Iterable[str]) -> ShardedPart | None:
    """Return what a folder holds of a sharded checkpoint, by paths in it; None if nothing."""
    names = [name for name in files if (folder / name).is_file()]
    sizes = {name: (folder / name).stat().st_size for name in names if name.endswith(SHARDS)}
    found = [name for name in names if name.endswith(INDEX)]
    if not sizes and not found:
        return None
    needs: dict[str, int] = {}
    keys: set[str] = set()
    for name in found:
        index = _read(folder / name)
        for info in getattr(index, "storage_data", None) or {}:
            stored = index.storage_data[info]
            path = str(PurePosixPath(name).parent / stored.relative_path)
            needs[path] = max(needs.get(path, 0), stored.offset + stored.length)
        keys |= set(getattr(index, "state_dict_metadata", ()))
    return ShardedPart(
        sizes=sizes,
        needs=needs,
        keys=tuple(sorted(keys)) if len(keys) <= KEYS_MAX else (),
        indexes=tuple(found),
    )


def _read(path: Path) -> Any:  # noqa: ANN401 - `Metadata`, or None where it is unknown
    """Return an index, None where it is none of torch's: an index of a job's own is not judged."""
    if f"{_MODULE}metadata" not in sys.modules or path.stat().st_size > READ_MAX:
        return None
    try:
        with path.open("rb") as file:
            return _Index(file).load()
    except Exception:  # noqa: BLE001 - cut off, or of another format
        return None


class _Index(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401
        import torch

        is_kind = module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        if module.startswith(_MODULE) or (module, name) in _OTHERS or is_kind:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is no part of an index")
