"""What a file is written through while a fault takes effect on it.

pyarrow's C++ calls `write`, `flush` and `close` from its own threads, and
hands an exception on to whoever writes.
"""

import errno
import os
import signal
import threading
from typing import Any

from chaos.backends.train.wrapped.due import Desk
from chaos.model.plan import Op

SLICES_PER_S = 10


class Through:
    """A file that passes everything on to another."""

    def __init__(self, file: Any, desk: Desk, op: Op, path: str) -> None:  # noqa: ANN401
        self._file = file
        self._desk = desk
        self._op = op
        self._path = path

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return bool(self._file.closed)

    def write(self, content: bytes) -> int:
        """Write all of it; gives the number of bytes that the writer is to believe in."""
        self._file.write(content)
        return len(content)

    def flush(self) -> None:
        """Pass on what is held back."""
        self._file.flush()

    def close(self) -> None:
        """End the file."""
        self._file.close()


class Late(Through):
    """Waits before the first byte of the upload."""

    def __init__(self, *args: Any, delay_s: float) -> None:  # noqa: ANN401 - as `Through`
        super().__init__(*args)
        if self._desk.begins(self._op):
            # Before the wait: a worker that is ended in the midst of it has waited too.
            self._desk.record(self._op, self._path, "delayed", f"waits {delay_s:g} s")
            self._desk.clock.sleep(delay_s)


_ONE_LINE = threading.Lock()  # all files of an upload share its bandwidth


class Narrow(Through):
    """Passes so many bytes a second, all files of the process together."""

    def __init__(self, *args: Any, bytes_per_s: int) -> None:  # noqa: ANN401 - as `Through`
        super().__init__(*args)
        self._bytes_per_s = bytes_per_s

    def write(self, content: bytes) -> int:
        """Write a slice, wait as long as it takes, and go on."""
        what = f"takes {self._bytes_per_s} bytes a second"
        self._desk.record(self._op, self._path, "delayed", what)
        view = memoryview(content)
        size = max(1, self._bytes_per_s // SLICES_PER_S)
        with _ONE_LINE:
            for start in range(0, len(view), size):
                part = view[start : start + size]
                self._file.write(part)
                self._desk.clock.sleep(len(part) / self._bytes_per_s)
        return len(view)


class Full(Through):
    """Takes what there is room for, and raises `ENOSPC` at the next byte."""

    def __init__(self, *args: Any, room: int) -> None:  # noqa: ANN401 - as `Through`
        super().__init__(*args)
        self._room = room

    def write(self, content: bytes) -> int:
        """Write what fits, or raise."""
        view = memoryview(content)
        fits = self._desk.reserve(self._op, len(view), room=self._room)
        if fits:
            self._file.write(view[:fits])
        if fits < len(view):
            what = f"was full after {self._room} bytes"
            self._desk.record(self._op, self._path, "raised", what)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        return len(view)


class Half(Through):
    """Keeps the first half of the file. What comes later is held back until it is in that half."""

    def __init__(self, *args: Any, kills: bool = False) -> None:  # noqa: ANN401 - as `Through`
        super().__init__(*args)
        self._kills = kills
        self._held = bytearray()
        self._seen = self._kept = 0

    def write(self, content: bytes) -> int:
        """Take all of it, and write on to the half of what has come."""
        self._held += content
        self._seen += len(content)
        more = self._seen // 2 - self._kept
        if more > 0:
            self._file.write(bytes(self._held[:more]))
            del self._held[:more]
            self._kept += more
        return len(content)

    def close(self) -> None:
        """End the file at its half, or end the process there."""
        if self.closed:
            return
        half = f"{self._kept} of {self._seen} bytes"
        if self._kills:  # a disk keeps the half; of an object in a bucket nothing is there
            self._file.flush()
            self._desk.record(self._op, self._path, "killed", f"its writer was killed after {half}")
            os.kill(os.getpid(), signal.SIGKILL)
        self._file.close()
        if self._kept < self._seen:
            self._desk.record(self._op, self._path, "cut", f"kept {half}")
