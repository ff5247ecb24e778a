"""Files that the train function writes and reads with torch, pickle and safetensors.

The replacements behave as torch's and Python's own. A buffer, which has no path, is passed
on, and its bytes are remembered. A call in another process than the rank's, such as a data
loader's, is passed on.

A sharded save of `torch.distributed.checkpoint` (torch 2.13, `filesystem.py`): each rank writes its
own files, and rank 0 then the metadata, without which the folder is no checkpoint. The files are
seen as they are opened. `async_save` copies the state and does the same in a thread, while training
goes on. The metadata are a pickle; to read it calls nothing but the classes that it is made of.
"""

import contextlib
import functools
import io
import os
import pickle
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol

from chaos.model.event import ShardedPart
from chaos.probe.libraries import unwatched
from chaos.probe.state.readable import read

_SHARDED = "torch.distributed.checkpoint"
_EXECUTORS = {
    f"{_SHARDED}._async_thread_executor": "_ThreadBasedAsyncCheckpointExecutor",
    f"{_SHARDED}._async_process_executor": "_ProcessBasedAsyncCheckpointExecutor",
}
_READERS = {
    f"{_SHARDED}.filesystem": "FileSystemReader",
    f"{_SHARDED}.hf_storage": "HuggingFaceStorageReader",
}
_WRITERS = {
    f"{_SHARDED}.filesystem": "_FileSystemWriter",
    f"{_SHARDED}.hf_storage": "HuggingFaceStorageWriter",
}


class FileListener(Protocol):
    """Called with the files that a rank saves and loads, in its own process."""

    def save_begun(self, path: Path) -> None:
        """Take the path of a save, before the first byte."""

    def halfway(self, path: Path) -> Callable[[], None] | None:
        """Return what to call between the halves of the file; None to write it at once."""

    def saved(self, path: Path, value: Any) -> object:
        """Take a file that was saved, and what was."""

    def holds(self, path: Path, value: Any) -> object:
        """Take what was pickled into a file."""

    def holds_stream(self, stream: Any, value: Any) -> object:
        """Take what was saved into a buffer, or another stream that is no file."""

    def save_handed_over(self, folder: Path) -> object:
        """Take the folder of a sharded save that goes on while training does."""

    def shard_begun(self, folder: Path) -> object:
        """Take the folder into which this rank begins to write its shards."""

    def shard_written(self, folder: Path) -> object:
        """Take that they are written."""

    def shards_read(self, folder: Path) -> object:
        """Take the folder of which this rank has read its shards."""

    def loading(self, path: Path) -> str | None:
        """Return the digest of a file before it is loaded; None: the load is not of interest."""

    def within_load(self, digest: str) -> object:
        """Take that the load begins."""

    def loaded(
        self, path: Path, digest: str, error: BaseException | None, value: Any = None
    ) -> object:
        """Take how the load ended, and what it returned."""

    def quietly(self) -> AbstractContextManager[object]:
        """Return a context within which files that are opened are not the job's."""

    def unhooked(self, call: Callable[[], Any]) -> Any:
        """Return what a function returns that is called while no module has a hook of chaos."""


def watch_files(listener: FileListener) -> None:
    """Replace `torch.save`, `torch.load` and `pickle.dump` from now on."""
    import torch

    # Under both names: libraries call `torch.save`, or `torch.serialization.save`. A script that
    # has imported the function itself before has the original, whose files are seen as they are
    # opened.
    torch.save = _saving(torch.save, listener)
    torch.load = _loading(torch.load, listener)
    torch.serialization.save, torch.serialization.load = torch.save, torch.load
    pickle.dump = _dumping(pickle.dump, listener)


def watch_libraries(listener: FileListener) -> None:
    """Follow sharded saves and safetensors from now on, if the job has imported what makes them."""
    for module, name, method, replaced in (
        *((*writer, "write_data", _writing) for writer in _WRITERS.items()),
        *((*reader, "read_data", _reading) for reader in _READERS.items()),
        *((*executor, "execute_save", _handing_over) for executor in _EXECUTORS.items()),
    ):
        for cls in unwatched((module,), name):
            if method in vars(cls):
                setattr(cls, method, replaced(getattr(cls, method), listener))
    # safetensors 0.8 reads and writes files in Rust, so that no `open` is seen.
    for module in unwatched(("safetensors.torch", "safetensors.numpy")):
        _watch_safetensors(module, listener)


def _watch_safetensors(module: Any, listener: FileListener) -> None:
    module.serialize_file = _serializing(module.serialize_file, listener)
    # A module that is imported after another was watched has the replacement already.
    if not hasattr(module.safe_open, "__wrapped__"):
        module.safe_open = _loading(module.safe_open, listener, name="filename")
    sys.modules["safetensors"].safe_open = module.safe_open  # type: ignore[attr-defined]


def _in_the_rank(original: Callable[..., Any], watched: Callable[..., Any]) -> Callable[..., Any]:
    """Return what calls `watched`, but `original` in a fork: a data loader is not the rank."""
    pid = os.getpid()

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return (watched if os.getpid() == pid else original)(*args, **kwargs)

    return call


def _dumping(original: Callable[..., Any], listener: FileListener) -> Callable[..., Any]:
    def dump(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        path = _path_of(_argument(args, kwargs, 1, "file"))
        if path is not None:
            listener.holds(path, _argument(args, kwargs, 0, "obj"))
        return result

    return _in_the_rank(original, dump)


def _saving(original: Callable[..., Any], listener: FileListener) -> Callable[..., Any]:
    def save(*args: Any, **kwargs: Any) -> Any:
        target = _argument(args, kwargs, 1, "f")
        path = _path_of(target, at_start=True)
        if path is None:
            result = listener.unhooked(lambda: original(*args, **kwargs))
            listener.holds_stream(target, _argument(args, kwargs, 0, "obj"))
            return result
        # Recorded before the first byte: of a save that is cut off there is no other sign. Within
        # it torch opens the file by itself, which is not to be recorded a second time.
        listener.save_begun(path)
        then = listener.halfway(path)
        with listener.quietly():
            if then is None:
                result = listener.unhooked(lambda: original(*args, **kwargs))
            else:
                result = listener.unhooked(
                    lambda: _save_in_halves(original, args, kwargs, path=path, then=then)
                )
        listener.saved(path, _argument(args, kwargs, 0, "obj"))
        return result

    return _in_the_rank(original, save)


def _save_in_halves(
    original: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    path: Path,
    then: Callable[[], None],
) -> Any:
    """Write one half of a file, call `then`, and write the other half.

    Where the job has opened the file itself, it stays open.
    """
    target = _argument(args, kwargs, 1, "f")
    if isinstance(target, str | os.PathLike):
        # By torch first, as its archive has the name of the file: ranks that write the same file at
        # the same time, of which one wrote other bytes, would leave a mixture of both.
        result = original(*args, **kwargs)
        _write_in_halves(path, path.read_bytes(), then)
        return result
    # Into a buffer first: only then is the middle of the file known.
    buffer = io.BytesIO()
    if len(args) > 1:
        result = original(args[0], buffer, *args[2:], **kwargs)
    else:
        result = original(*args, **{**kwargs, "f": buffer})
    _write_in_halves(target, buffer.getvalue(), then)
    return result


def _write_in_halves(target: Path | IO[bytes], content: bytes, then: Callable[[], None]) -> None:
    middle = len(content) // 2
    opened = target.open("wb") if isinstance(target, Path) else contextlib.nullcontext(target)
    with opened as file:
        file.write(content[:middle])
        file.flush()
        then()
        file.write(content[middle:])


def _loading(
    original: Callable[..., Any], listener: FileListener, *, name: str = "f"
) -> Callable[..., Any]:
    def load(*args: Any, **kwargs: Any) -> Any:
        path = _path_of(_argument(args, kwargs, 0, name))
        # The digest is made before the load: an op may wait inside of it, and of a load that raises
        # it is recorded which bytes could not be read.
        digest = None if path is None else listener.loading(path)
        if path is None or digest is None:
            return original(*args, **kwargs)
        listener.within_load(digest)
        try:
            with listener.quietly():
                result = original(*args, **kwargs)
        except BaseException as error:
            listener.loaded(path, digest, error)
            raise
        listener.loaded(path, digest, None, result)
        return result

    return _in_the_rank(original, load)


def _serializing(original: Callable[..., Any], listener: FileListener) -> Callable[..., Any]:
    def serialize_file(*args: Any, **kwargs: Any) -> Any:
        path = _path_of(_argument(args, kwargs, 1, "filename"))
        if path is None:
            return original(*args, **kwargs)
        listener.save_begun(path)
        result = original(*args, **kwargs)
        if (then := listener.halfway(path)) is not None:
            with listener.quietly():
                _write_in_halves(path, path.read_bytes(), then)
        with listener.quietly():
            content = read(path)
        listener.saved(path, content)
        return result

    return _in_the_rank(original, serialize_file)


def _handing_over(original: Any, listener: FileListener) -> Any:  # a method
    @functools.wraps(original)
    def execute_save(executor: Any, *args: Any, **kwargs: Any) -> Any:
        writer = kwargs.get("storage_writer")
        folder: Any = kwargs.get("checkpoint_id") or getattr(writer, "checkpoint_id", "")
        listener.save_handed_over(Path(os.path.abspath(folder)))  # noqa: PTH100 - links stay links
        return original(executor, *args, **kwargs)

    return execute_save


def _writing(original: Any, listener: FileListener) -> Any:  # a method
    def write_data(writer: Any, *args: Any, **kwargs: Any) -> Any:
        folder = Path(str(writer.checkpoint_id))
        listener.shard_begun(folder)
        written = original(writer, *args, **kwargs)
        written.wait()  # else the files may not be there yet
        listener.shard_written(folder)
        return written

    return _in_the_rank(original, write_data)


def _reading(original: Any, listener: FileListener) -> Any:  # a method
    def read_data(reader: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(reader, *args, **kwargs)
        listener.shards_read(Path(os.path.abspath(str(reader.path))))  # noqa: PTH100 - likewise
        return found

    return _in_the_rank(original, read_data)


def _argument(args: tuple[Any, ...], kwargs: dict[str, Any], place: int, name: str) -> Any:
    return args[place] if len(args) > place else kwargs.get(name)


def _path_of(target: Any, *, at_start: bool = False) -> Path | None:
    """Return the path of the file that torch is to write or read; None if it has none.

    None also, `at_start`, for an open file with earlier content: it holds more than this save.
    """
    try:
        if isinstance(target, str | os.PathLike):
            return Path(os.path.abspath(os.fspath(target)))  # noqa: PTH100 - links stay links
        name = getattr(target, "name", None)
        if not isinstance(name, str) or not Path(name).is_file():
            return None
        if at_start and target.tell() != 0:
            return None
        return Path(os.path.abspath(name))  # noqa: PTH100 - likewise
    except Exception:  # noqa: BLE001 - torch raises the error that fits
        return None


INDEX, SHARDS = ".metadata", ".distcp"
# An index names its entries and holds no tensors.
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


def _read(path: Path) -> Any:  # `Metadata`, or None where it is unknown
    """Return an index, None where it is none of torch's: an index of a job's own is not judged."""
    if f"{_MODULE}metadata" not in sys.modules or path.stat().st_size > READ_MAX:
        return None
    try:
        with path.open("rb") as file:
            return _Index(file).load()
    except Exception:  # noqa: BLE001 - cut off, or of another format
        return None


class _Index(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        import torch

        is_kind = module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        if module.startswith(_MODULE) or (module, name) in _OTHERS or is_kind:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is no part of an index")
