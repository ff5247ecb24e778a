"""The files of a run, read with care: a folder from elsewhere may be malicious.

No symbolic link is followed, since it may lead out of the folder. A pipe without
a writer, or anything else that is no file, is refused and not waited for. A file
that is too large for its kind is not read.
"""

import errno
import hashlib
import os
import stat
from pathlib import Path

from chaos.errors import HistoryError

HISTORY_BYTES = 8 << 30
SMALL_BYTES = 64 << 20  # plan, verdict, summary and the like

_HINT = "Nothing was read of it. A folder that chaos has made holds files alone."


def read_record(path: Path, *, most: int = SMALL_BYTES) -> bytes:
    """Return a file's content.

    Raises `HistoryError` if it is a link, is no file, or has more than `most`
    bytes; `OSError` if it is missing or cannot be read.
    """
    file = _open(path)
    try:
        _refuse_trap(os.fstat(file), path, most)
    except BaseException:
        os.close(file)
        raise
    with os.fdopen(file, "rb") as opened:
        return opened.read()


def refuse_link(folder: Path) -> None:
    """Raise `HistoryError` if a folder of a run is a symbolic link."""
    if folder.is_symlink():
        raise _linked(folder)


def digest_of(path: Path) -> str | None:
    """Return 32 hexadecimal digits over a history's bytes, None if it cannot be read."""
    try:
        content = read_record(path, most=HISTORY_BYTES)
    except (OSError, HistoryError):
        return None
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _open(path: Path) -> int:
    try:
        # O_NONBLOCK: a pipe is opened at once, even without a writer.
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _linked(path) from None
        if error.errno == errno.ENXIO:  # a socket
            problem = "this is not a file, but a socket"
            raise HistoryError(problem, _HINT, place=str(path)) from None
        raise


def _refuse_trap(found: os.stat_result, path: Path, most: int) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise HistoryError("this is not a file, but a pipe or a device", _HINT, place=str(path))
    if found.st_size > most:
        problem = f"the file has {found.st_size >> 20} MiB, and {most >> 20} at most are read"
        raise HistoryError(problem, "Is it what its name says?", place=str(path))


def _linked(path: Path) -> HistoryError:
    problem = "this is a symbolic link, which is not followed"
    return HistoryError(problem, "Put what it leads to in its place.", place=str(path))
