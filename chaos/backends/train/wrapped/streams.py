"""Output streams by which a fault takes effect on a file.

pyarrow's C++ calls `write`, `flush` and `close` from its own threads, and
passes an exception on to the writer.
"""

import errno
import os
import signal
import threading
from typing import Any

from chaos.backends.train.wrapped.due import StorageInjector
from chaos.model.plan import Op

SLICES_PER_S = 10


class Through:
    """A file that passes everything on to another."""

    def __init__(self, file: Any, injector: StorageInjector, op: Op, path: str) -> None:  # noqa: ANN401
        self._file = file
        self._injector = injector
        self._op = op
        self._path = path

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return bool(self._file.closed)

    def write(self, content: bytes) -> int:
        """Write all bytes; return the number that the writer is to assume."""
        self._file.write(content)
        return len(content)

    def flush(self) -> None:
        """Flush the file."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Late(Through):
    """A file whose upload waits before its first byte."""

    def __init__(self, *args: Any, delay_s: float) -> None:  # noqa: ANN401 - as `Through`
        super().__init__(*args)
        if self._injector.begins(self._op):
            # Before the wait: a worker that ends during the wait has waited, too.
            self._injector.record(self._op, self._path, "delayed", f"waits {delay_s:g} s")
            self._injector.clock.sleep(delay_s)


_ONE_LINE = threading.Lock()  # all files of an upload share its bandwidth


class Narrow(Through):
    """A file that takes so many bytes a second, together with all files of the process."""

    def __init__(self, *args: Any, bytes_per_s: int) -> None:  # noqa: ANN401 - as `Through`
        super().__init__(*args)
        self._bytes_per_s = bytes_per_s

    def write(self, content: bytes) -> int:
        """Write slice by slice, and wait after each as long as it takes."""
        what = f"takes {self._bytes_per_s} bytes a second"
        self._injector.record(self._op, self._path, "delayed", what)
        view = memoryview(content)
        size = max(1, self._bytes_per_s // SLICES_PER_S)
        with _ONE_LINE:
            for start in range(0, len(view), size):
                part = view[start : start + size]
                self._file.write(part)
                self._injector.clock.sleep(len(part) / self._bytes_per_s)
        return len(view)


class Full(Through):
    """A file that takes so many bytes, and raises `ENOSPC` at the next."""

    def __init__(self, *args: Any, room: int) -> None:  # noqa: ANN401 - as `Through`
        super().__init__(*args)
        self._room = room

    def write(self, content: bytes) -> int:
        """Write the bytes that fit; raise if there are more."""
        view = memoryview(content)
        fits = self._injector.reserve(self._op, len(view), room=self._room)
        if fits:
            self._file.write(view[:fits])
        if fits < len(view):
            what = f"was full after {self._room} bytes"
            self._injector.record(self._op, self._path, "raised", what)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        return len(view)


class Half(Through):
    """A file that keeps its first half. Later bytes are held back until they are in that half."""

    def __init__(self, *args: Any, kills: bool = False) -> None:  # noqa: ANN401 - as `Through`
        super().__init__(*args)
        self._kills = kills
        self._held = bytearray()
        self._seen = self._kept = 0

    def write(self, content: bytes) -> int:
        """Take all bytes, and write on to the half of those that have come."""
        self._held += content
        self._seen += len(content)
        more = self._seen // 2 - self._kept
        if more > 0:
            self._file.write(bytes(self._held[:more]))
            del self._held[:more]
            self._kept += more
        return len(content)

    def close(self) -> None:
        """Close the file at its half, or kill the process there."""
        if self.closed:
            return
        half = f"{self._kept} of {self._seen} bytes"
        if self._kills:  # a disk keeps the half; a bucket keeps nothing of the object
            self._file.flush()
            self._injector.record(
                self._op, self._path, "killed", f"its writer was killed after {half}"
            )
            os.kill(os.getpid(), signal.SIGKILL)
        self._file.close()
        if self._kept < self._seen:
            self._injector.record(self._op, self._path, "cut", f"kept {half}")
