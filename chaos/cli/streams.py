"""Standard streams that never raise: no verdict depends on the reader.

A pipe without a reader, a full disk and a closed stream raise nothing: output that
cannot be written is dropped. A full disk is reported at the end.
"""

import errno
import io
import os
import select
import sys
from typing import TYPE_CHECKING

from chaos.errors import HarnessError
from chaos.report.screen import escape_controls

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _RawStream(io.FileIO):
    """The raw end of a stream."""

    #: the reason if something could not be written
    write_error: OSError | None = None

    def write(self, content: "ReadableBuffer", /) -> int:
        # Taken for written, whatever became of it: a reader that has gone, or a full disk, would
        # otherwise end the command with an exit code that stands for a verdict.
        try:
            while (count := super().write(content)) is None:  # it does not block: wait for room
                select.select([], [self], [])
        except OSError as error:
            self.write_error = self.write_error or error
            return memoryview(content).nbytes
        return count


def keep_streams_writable() -> None:
    """Replace this process's stdout and stderr, unless another program has done so."""
    _open_closed_descriptors()
    for name, fd in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        elif stream is getattr(sys, f"__{name}__"):
            setattr(sys, name, _wrap_stream(stream, fd))


def write_document(text: str) -> None:
    """Write a document to stdout; raise `HarnessError` if that fails.

    A reader that closes the pipe early is no failure.
    """
    sys.stdout.write(escape_controls(text))
    sys.stdout.flush()
    reason = _take_write_error()
    if reason is not None:
        raise HarnessError(f"stdout cannot be written: {reason}")


def report_lost_output() -> None:
    """Report on stderr if output to stdout was lost."""
    sys.stdout.flush()
    reason = _take_write_error()
    if reason is not None:
        sys.stderr.write(f"chaos: stdout could not be written: {reason}\n")
    sys.stderr.flush()


def _take_write_error() -> str | None:
    """Return the reason why output to stdout was lost; a second call returns None."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if not isinstance(raw, _RawStream) or raw.write_error is None:
        return None
    write_error, raw.write_error = raw.write_error, None
    return None if write_error.errno == errno.EPIPE else str(write_error.strerror)


def _open_closed_descriptors() -> None:
    """Open descriptors 0 to 2 if they are closed: otherwise the next file would become stdout."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            descriptor = os.open(os.devnull, os.O_RDWR)  # the lowest that is free
            os.set_inheritable(descriptor, True)


def _wrap_stream(stream: io.TextIOWrapper, fd: int) -> io.TextIOWrapper:
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_RawStream(fd, "wb", closefd=False)),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
