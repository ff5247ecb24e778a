"""Saves of `torch.distributed.checkpoint`: a rank's shard is written, and the metadata is not.

Each rank writes its own files, and rank 0 then the metadata, without which the folder is no
checkpoint (torch 2.13, `filesystem.py`). The files themselves are seen as they are opened.
`async_save` copies the state and does the same in a thread, while training goes on.
"""

import functools
import os
from pathlib import Path
from typing import Any, Protocol

from chaos.backends.train.imported import unwatched

_MODULE = "torch.distributed.checkpoint"
_EXECUTORS = {
    f"{_MODULE}._async_thread_executor": "_ThreadBasedAsyncCheckpointExecutor",
    f"{_MODULE}._async_process_executor": "_ProcessBasedAsyncCheckpointExecutor",
}
_WRITERS = {
    f"{_MODULE}.filesystem": "_FileSystemWriter",
    f"{_MODULE}.hf_storage": "HuggingFaceStorageWriter",
}


class Listener(Protocol):
    """The receiver of sharded saves; only an op whose place is inside of one may raise."""

    def save_handed_over(self, folder: Path) -> None:
        """Note that a checkpoint of the present state will be written beside training."""

    def shard_begun(self, folder: Path) -> None:
        """Note that this rank begins to write its files of a checkpoint."""

    def shard_written(self) -> None:
        """Stop at an op inside a save: this rank's files are written."""


def watch_shards(listener: Listener) -> None:
    """Follow sharded saves from now on, if the job has imported what makes them."""
    for module, name in _WRITERS.items():
        for writer in unwatched((module,), name):
            if "write_data" in vars(writer):
                writer.write_data = _writing(writer.write_data, listener)
    for module, name in _EXECUTORS.items():
        for executor in unwatched((module,), name):
            executor.execute_save = _handing_over(executor.execute_save, listener)


def _handing_over(original: Any, listener: Listener) -> Any:  # noqa: ANN401 - a method
    @functools.wraps(original)
    def execute_save(executor: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        writer = kwargs.get("storage_writer")
        folder: Any = kwargs.get("checkpoint_id") or getattr(writer, "checkpoint_id", "")
        listener.save_handed_over(Path(os.path.abspath(folder)))  # noqa: PTH100 - links stay links
        return original(executor, *args, **kwargs)

    return execute_save


def _writing(original: Any, listener: Listener) -> Any:  # noqa: ANN401 - a method
    pid = os.getpid()

    @functools.wraps(original)
    def write_data(writer: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        if os.getpid() != pid:
            return original(writer, *args, **kwargs)
        listener.shard_begun(Path(str(writer.checkpoint_id)))
        written = original(writer, *args, **kwargs)
        written.wait()  # else the files may not be there yet
        listener.shard_written()
        return written

    return write_data
