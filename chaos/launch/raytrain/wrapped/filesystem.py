"""A pyarrow file system that behaves as another one, until a storage fault is due.

A fault takes effect on a file by its output stream. pyarrow's C++ calls `write`, `flush` and
`close` from its own threads, and passes an exception on to the writer.
"""

import errno
import os
import signal
import threading
from typing import Any

import pyarrow as pa
from pyarrow import fs

from chaos.faults.base import Fault
from chaos.faults.corrupt_snapshot import CorruptSnapshot
from chaos.faults.delayed_visibility import DelayedVisibility
from chaos.faults.disk_full import DiskFull
from chaos.faults.fail_upload import FailUpload
from chaos.faults.slow_upload import SlowUpload
from chaos.faults.torn_checkpoint import TornCheckpoint
from chaos.model.plan import Op
from chaos.probe.storage_faults import StorageInjector, StorageSettings, find_injector

# A slow upload comes evenly, in slices, and not in one piece at its end.
SLICES_PER_S = 10


class ForwardingFile:
    """A file that passes everything on to another."""

    def __init__(self, file: Any, injector: StorageInjector, op: Op, path: str) -> None:
        self._file = file
        self._injector = injector
        self._op = op
        self._path = path

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)

    def write(self, content: bytes) -> int:
        self._file.write(content)
        return len(content)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class DelayedFile(ForwardingFile):
    """A file whose upload waits before its first byte."""

    def __init__(self, *args: Any, delay_s: float) -> None:  # as `ForwardingFile`
        super().__init__(*args)
        if self._injector.is_upload_begin(self._op):
            # Before the wait: a worker that ends during the wait has waited, too.
            self._injector.record_effect(self._op, self._path, "delayed", f"waits {delay_s:g} s")
            self._injector.clock.sleep(delay_s)


_BANDWIDTH_LOCK = threading.Lock()  # all files of an upload share its bandwidth


class ThrottledFile(ForwardingFile):
    """A file that takes so many bytes a second, together with all files of the process."""

    def __init__(self, *args: Any, bytes_per_s: int) -> None:  # as `ForwardingFile`
        super().__init__(*args)
        self._bytes_per_s = bytes_per_s

    def write(self, content: bytes) -> int:
        effect = f"takes {self._bytes_per_s} bytes a second"
        self._injector.record_effect(self._op, self._path, "delayed", effect)
        view = memoryview(content)
        size = max(1, self._bytes_per_s // SLICES_PER_S)
        with _BANDWIDTH_LOCK:
            for start in range(0, len(view), size):
                part = view[start : start + size]
                self._file.write(part)
                self._injector.clock.sleep(len(part) / self._bytes_per_s)
        return len(view)


class LimitedFile(ForwardingFile):
    """A file that takes so many bytes, and raises `ENOSPC` at the next."""

    def __init__(self, *args: Any, room: int) -> None:  # as `ForwardingFile`
        super().__init__(*args)
        self._room = room

    def write(self, content: bytes) -> int:
        view = memoryview(content)
        # Reserved, and not counted afterwards: threads of one upload write at a time.
        fits = self._injector.reserve_bytes(self._op, len(view), room=self._room)
        if fits:
            self._file.write(view[:fits])
        if fits < len(view):
            effect = f"was full after {self._room} bytes"
            self._injector.record_effect(self._op, self._path, "raised", effect)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        return len(view)


class TruncatedFile(ForwardingFile):
    """A file that keeps its first half. Later bytes are held back until they are in that half."""

    def __init__(self, *args: Any, kills: bool = False) -> None:  # as `ForwardingFile`
        super().__init__(*args)
        self._kills = kills
        self._buffer = bytearray()
        self._received = self._written = 0

    def write(self, content: bytes) -> int:
        self._buffer += content
        self._received += len(content)
        writable = self._received // 2 - self._written
        if writable > 0:
            self._file.write(bytes(self._buffer[:writable]))
            del self._buffer[:writable]
            self._written += writable
        return len(content)

    def close(self) -> None:
        if self.closed:
            return
        half = f"{self._written} of {self._received} bytes"
        if self._kills:  # a disk keeps the half; a bucket keeps nothing of the object
            self._file.flush()
            self._injector.record_effect(
                self._op, self._path, "killed", f"its writer was killed after {half}"
            )
            os.kill(os.getpid(), signal.SIGKILL)
        self._file.close()
        if self._written < self._received:
            self._injector.record_effect(self._op, self._path, "cut", f"kept {half}")


class FaultyFileSystem(fs.PyFileSystem):  # type: ignore[misc]
    """A replacement of `inner`, in C++ as well, which reports the type of `inner` as its own.

    Ray 2.60 asks by `isinstance` whether storage is the local disk (then
    `Checkpoint.as_directory()` copies nothing) or S3 (then uploads use one
    thread); `__class__` answers that. Storage that shows files late reports
    that it is a `PyFileSystem`: as a local disk it would not be asked for them.
    """

    def __init__(self, inner: fs.FileSystem, layer: StorageSettings) -> None:
        super().__init__(FaultyHandler(inner, layer))
        self.inner = inner
        self.layer = layer

    @property  # type: ignore[misc]  # asked, never set
    def __class__(self) -> Any:  # a type
        is_delayed = any(isinstance(op.fault, DelayedVisibility) for op in self.layer.ops)
        return FaultyFileSystem if is_delayed else type(self.inner)

    @property
    def type_name(self) -> str:
        return str(self.inner.type_name)

    def __reduce__(self) -> tuple[Any, ...]:
        return FaultyFileSystem, (self.inner, self.layer)

    def __eq__(self, other: object) -> bool:
        return bool(self.inner == innermost(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]  # as pyarrow's own have none


def innermost(filesystem: Any) -> Any:  # anything that is compared
    """Return the file system that another wraps; itself if it wraps none."""
    return filesystem.inner if issubclass(type(filesystem), FaultyFileSystem) else filesystem


class FaultyHandler(fs.FileSystemHandler):  # type: ignore[misc]
    """The handler that C++ calls: it asks the injector, then the wrapped file system.

    Compression is off in the wrapped one: the layer above does it, by a file's name.
    """

    def __init__(self, inner: fs.FileSystem, layer: StorageSettings) -> None:
        self.inner = inner
        self._layer = layer

    @property
    def _injector(self) -> StorageInjector:
        return find_injector(self._layer)  # one per process, and a process may be forked

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FaultyHandler) and bool(self.inner == other.inner)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    # -- reading -----------------------------------------------------------------------------

    def get_type_name(self) -> str:
        return str(self.inner.type_name)

    def normalize_path(self, path: str) -> str:
        return str(self.inner.normalize_path(path))

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        infos = self.inner.get_file_info(paths)
        return [self._hide_info(info) for info in infos]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        self._check_visibility(selector.base_dir, is_error=not selector.allow_not_found)
        infos = self.inner.get_file_info(selector)
        visible = [info for info in infos if not self._injector.is_hidden(info.path)]
        for info in infos:
            if info not in visible:
                self._check_visibility(info.path, is_error=False)
        return visible

    def open_input_stream(self, path: str) -> Any:  # a NativeFile
        self._check_visibility(path)
        return self.inner.open_input_stream(path, compression=None)

    def open_input_file(self, path: str) -> Any:  # a NativeFile
        self._check_visibility(path)
        return self.inner.open_input_file(path)

    # -- writing -----------------------------------------------------------------------------

    def open_output_stream(self, path: str, metadata: Any) -> Any:  # a NativeFile
        """Open a file to be written, through the faults that are due on it."""
        active_faults = list(self._injector.find_faults(path))
        for op, fault in active_faults:
            self._inject_at_open(op, fault, path)
        file = self.inner.open_output_stream(path, compression=None, metadata=metadata)
        for op, fault in active_faults:
            file = self._wrap_file(file, op, fault, path)
        return file if isinstance(file, pa.NativeFile) else pa.PythonFile(file, mode="w")

    def open_append_stream(self, path: str, metadata: Any) -> Any:  # a NativeFile
        """Open a file to be written on at its end; no fault is due on that."""
        return self.inner.open_append_stream(path, compression=None, metadata=metadata)

    def create_dir(self, path: str, recursive: bool) -> None:  # noqa: FBT001 - pyarrow's signature
        self.inner.create_dir(path, recursive=recursive)

    def move(self, source: str, destination: str) -> None:
        self.inner.move(source, destination)

    def copy_file(self, source: str, destination: str) -> None:
        self.inner.copy_file(source, destination)

    def delete_file(self, path: str) -> None:
        self.inner.delete_file(path)

    def delete_dir(self, path: str) -> None:
        self.inner.delete_dir(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:  # noqa: FBT001, FBT002
        self.inner.delete_dir_contents(path, missing_dir_ok=missing_dir_ok)

    def delete_root_dir_contents(self) -> None:
        self.inner.delete_dir_contents("/", accept_root_dir=True)

    # -- inside ------------------------------------------------------------------------------

    def _hide_info(self, info: fs.FileInfo) -> fs.FileInfo:
        if info.type == fs.FileType.NotFound or not self._injector.is_hidden(info.path):
            return info
        self._check_visibility(info.path, is_error=False)
        return fs.FileInfo(info.path, fs.FileType.NotFound)

    def _check_visibility(self, path: str, *, is_error: bool = True) -> None:
        op = self._injector.find_hiding_op(path)
        if op is None:
            return
        self._injector.record_effect(op, path, "raised", "could not be seen yet")
        if is_error:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def _inject_at_open(self, op: Op, fault: Fault, path: str) -> None:
        if isinstance(fault, DelayedVisibility):
            self._injector.hide(op, path)
        elif isinstance(fault, FailUpload):
            self._injector.record_effect(op, path, "raised", f"raised `{fault.error}`")
            raise OSError(fault.error)

    def _wrap_file(self, file: Any, op: Op, fault: Fault, path: str) -> Any:
        arguments = (file, self._injector, op, path)
        match fault:
            case SlowUpload(delay_s=float(delay_s)):
                return DelayedFile(*arguments, delay_s=delay_s)
            case SlowUpload(bytes_per_s=int(bytes_per_s)):
                return ThrottledFile(*arguments, bytes_per_s=bytes_per_s)
            case DiskFull(after_bytes=room):
                return LimitedFile(*arguments, room=room)
            case TornCheckpoint(worker_dies=dies):
                return TruncatedFile(*arguments, kills=dies)
            case CorruptSnapshot():
                return TruncatedFile(*arguments)
            case _:
                return file
