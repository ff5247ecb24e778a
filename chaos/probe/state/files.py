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
from pathlib import Path, PurePosixPath
from typing import IO, Any

from chaos.model.event import ShardedPart
from chaos.probe.libraries import take_unwatched_classes
from chaos.probe.state.readable import load_content
from chaos.probe.training_listener import Stop, TrainingListener

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


def watch_files(listener: TrainingListener) -> None:
    """Replace `torch.save`, `torch.load` and `pickle.dump` from now on."""
    import torch

    # Under both names: libraries call `torch.save`, or `torch.serialization.save`. A script that
    # has imported the function itself before has the original, whose files are seen as they are
    # opened.
    torch.save = _wrap_save(torch.save, listener)
    torch.load = _wrap_load(torch.load, listener)
    torch.serialization.save, torch.serialization.load = torch.save, torch.load
    pickle.dump = _wrap_dump(pickle.dump, listener)


def watch_libraries(listener: TrainingListener) -> None:
    """Follow sharded saves and safetensors from now on, if the job has imported what makes them."""
    for module, name, method, wrap_method in (
        *((*writer, "write_data", _wrap_write) for writer in _WRITERS.items()),
        *((*reader, "read_data", _wrap_load_data) for reader in _READERS.items()),
        *((*executor, "execute_save", _wrap_execute) for executor in _EXECUTORS.items()),
    ):
        for cls in take_unwatched_classes((module,), name):
            if method in vars(cls):
                setattr(cls, method, wrap_method(getattr(cls, method), listener))
    # safetensors 0.8 reads and writes files in Rust, so that no `open` is seen.
    for module in take_unwatched_classes(("safetensors.torch", "safetensors.numpy")):
        _watch_safetensors(module, listener)


def _watch_safetensors(module: Any, listener: TrainingListener) -> None:
    module.serialize_file = _wrap_serialize(module.serialize_file, listener)
    # A module that is imported after another was watched has the replacement already.
    if not hasattr(module.safe_open, "__wrapped__"):
        module.safe_open = _wrap_load(module.safe_open, listener, name="filename")
    sys.modules["safetensors"].safe_open = module.safe_open  # type: ignore[attr-defined]


def _limit_to_rank(
    original: Callable[..., Any], replacement: Callable[..., Any]
) -> Callable[..., Any]:
    """Return what calls `replacement`, but `original` in a fork: a data loader is not the rank."""
    pid = os.getpid()

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return (replacement if os.getpid() == pid else original)(*args, **kwargs)

    return call


def _wrap_dump(original: Callable[..., Any], listener: TrainingListener) -> Callable[..., Any]:
    def dump(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        path = _find_path(_find_argument(args, kwargs, 1, "file"))
        if path is not None:
            listener.content_pickled(path, _find_argument(args, kwargs, 0, "obj"))
        return result

    return _limit_to_rank(original, dump)


def _is_storage(value: Any) -> bool:  # whatever is saved
    torch = sys.modules["torch"]
    return isinstance(value, torch.TypedStorage | torch.UntypedStorage)


def _wrap_save(original: Callable[..., Any], listener: TrainingListener) -> Callable[..., Any]:
    def save(*args: Any, **kwargs: Any) -> Any:
        target = _find_argument(args, kwargs, 1, "f")
        path = _find_path(target, at_start=True)
        value = _find_argument(args, kwargs, 0, "obj")
        if path is None and _is_storage(value):  # of a tensor that is pickled (torch 2.13)
            return original(*args, **kwargs)
        if path is None:
            result = listener.call_unhooked(lambda: original(*args, **kwargs))
            listener.stream_saved(target, value)
            return result
        # Recorded before the first byte: of a save that is cut off there is no other sign. Within
        # it torch opens the file by itself, which is not to be recorded a second time.
        listener.save_begins(path)
        act_halfway = listener.find_midpoint_stop(path)
        with listener.pause_watch():
            if act_halfway is None:
                result = listener.call_unhooked(lambda: original(*args, **kwargs))
            else:
                result = listener.call_unhooked(
                    lambda: _save_in_halves(
                        original, args, kwargs, path=path, act_halfway=act_halfway
                    )
                )
        listener.file_saved(path, value)
        return result

    return _limit_to_rank(original, save)


def _save_in_halves(
    original: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    path: Path,
    act_halfway: Stop,
) -> Any:
    """Write one half of a file, call `act_halfway`, and write the other half.

    Where the job has opened the file itself, it stays open.
    """
    target = _find_argument(args, kwargs, 1, "f")
    if isinstance(target, str | os.PathLike):
        # By torch first, as its archive has the name of the file: ranks that write the same file at
        # the same time, of which one wrote other bytes, would leave a mixture of both.
        result = original(*args, **kwargs)
        _write_in_halves(path, path.read_bytes(), act_halfway)
        return result
    # Into a buffer first: only then is the middle of the file known.
    buffer = io.BytesIO()
    if len(args) > 1:
        result = original(args[0], buffer, *args[2:], **kwargs)
    else:
        result = original(*args, **{**kwargs, "f": buffer})
    _write_in_halves(target, buffer.getvalue(), act_halfway)
    return result


def _write_in_halves(target: Path | IO[bytes], content: bytes, act_halfway: Stop) -> None:
    middle = len(content) // 2
    open_file = target.open("wb") if isinstance(target, Path) else contextlib.nullcontext(target)
    with open_file as file:
        file.write(content[:middle])
        file.flush()
        act_halfway()
        file.write(content[middle:])


def _wrap_load(
    original: Callable[..., Any], listener: TrainingListener, *, name: str = "f"
) -> Callable[..., Any]:
    def load(*args: Any, **kwargs: Any) -> Any:
        path = _find_path(_find_argument(args, kwargs, 0, name))
        # The digest is made before the load: an op may wait inside of it, and of a load that raises
        # it is recorded which bytes could not be read.
        digest = None if path is None else listener.load_begins(path)
        if path is None or digest is None:
            return original(*args, **kwargs)
        try:
            with listener.pause_watch():
                result = original(*args, **kwargs)
        except BaseException as error:
            listener.load_ended(path, digest, error)
            raise
        listener.load_ended(path, digest, None, result)
        return result

    return _limit_to_rank(original, load)


def _wrap_serialize(original: Callable[..., Any], listener: TrainingListener) -> Callable[..., Any]:
    def serialize_file(*args: Any, **kwargs: Any) -> Any:
        path = _find_path(_find_argument(args, kwargs, 1, "filename"))
        if path is None:
            return original(*args, **kwargs)
        listener.save_begins(path)
        result = original(*args, **kwargs)
        if (act_halfway := listener.find_midpoint_stop(path)) is not None:
            with listener.pause_watch():
                _write_in_halves(path, path.read_bytes(), act_halfway)
        with listener.pause_watch():
            content = load_content(path)
        listener.file_saved(path, content)
        return result

    return _limit_to_rank(original, serialize_file)


def _wrap_execute(original: Any, listener: TrainingListener) -> Any:  # a method
    @functools.wraps(original)
    def execute_save(executor: Any, *args: Any, **kwargs: Any) -> Any:
        writer = kwargs.get("storage_writer")
        folder: Any = kwargs.get("checkpoint_id") or getattr(writer, "checkpoint_id", "")
        listener.background_save_begins(Path(os.path.abspath(folder)))  # noqa: PTH100 - links stay links
        return original(executor, *args, **kwargs)

    return execute_save


def _wrap_write(original: Any, listener: TrainingListener) -> Any:  # a method
    def write_data(writer: Any, *args: Any, **kwargs: Any) -> Any:
        folder = Path(str(writer.checkpoint_id))
        listener.shards_begin(folder)
        pending_write = original(writer, *args, **kwargs)
        pending_write.wait()  # else the files may not be there yet
        listener.shards_written(folder)
        return pending_write

    return _limit_to_rank(original, write_data)


def _wrap_load_data(original: Any, listener: TrainingListener) -> Any:  # a method
    def load_data(reader: Any, *args: Any, **kwargs: Any) -> Any:
        pending_load = original(reader, *args, **kwargs)
        listener.shards_loaded(Path(os.path.abspath(str(reader.path))))  # noqa: PTH100 - likewise
        return pending_load

    return _limit_to_rank(original, load_data)


def _find_argument(args: tuple[Any, ...], kwargs: dict[str, Any], position: int, name: str) -> Any:
    return args[position] if len(args) > position else kwargs.get(name)


def _find_path(target: Any, *, at_start: bool = False) -> Path | None:
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


def build_sharded_part(folder: Path, files: Iterable[str]) -> ShardedPart | None:
    """Return what a folder holds of a sharded checkpoint, by paths in it; None if nothing."""
    names = [name for name in files if (folder / name).is_file()]
    sizes = {name: (folder / name).stat().st_size for name in names if name.endswith(SHARDS)}
    index_names = [name for name in names if name.endswith(INDEX)]
    if not sizes and not index_names:
        return None
    needed_sizes: dict[str, int] = {}
    keys: set[str] = set()
    for name in index_names:
        index = _load_index(folder / name)
        for entry_key in getattr(index, "storage_data", None) or {}:
            shard = index.storage_data[entry_key]
            path = str(PurePosixPath(name).parent / shard.relative_path)
            needed_sizes[path] = max(needed_sizes.get(path, 0), shard.offset + shard.length)
        keys |= set(getattr(index, "state_dict_metadata", ()))
    return ShardedPart(
        sizes=sizes,
        needs=needed_sizes,
        keys=tuple(sorted(keys)) if len(keys) <= KEYS_MAX else (),
        indexes=tuple(index_names),
    )


def _load_index(path: Path) -> Any:  # `Metadata`, or None where it is unknown
    """Return an index, None where it is none of torch's: an index of a job's own is not judged."""
    if f"{_MODULE}metadata" not in sys.modules or path.stat().st_size > READ_MAX:
        return None
    try:
        with path.open("rb") as file:
            return _IndexUnpickler(file).load()
    except Exception:  # noqa: BLE001 - cut off, or of another format
        return None


class _IndexUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        import torch

        is_kind = module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        if module.startswith(_MODULE) or (module, name) in _OTHERS or is_kind:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is no part of an index")
