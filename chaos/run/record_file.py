"""The files of a run: read with care, since a folder from elsewhere may be malicious.

No symbolic link is followed, since it may lead out of the folder. A pipe without
a writer, or anything else that is no file, is refused and not waited for. A file
that is too large for its kind is not read.

Small ones are written whole or not at all, even for a reader at the same time.
"""

import errno
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chaos.errors import HarnessError, HistoryError

# Of folders from elsewhere: what is larger is no record of a run, and would fill the memory.
HISTORY_BYTES = 8 << 30
SMALL_BYTES = 64 << 20  # plan, verdict, summary and the like

_HINT = "Nothing was read of it. A folder that chaos has made holds files alone."


def read_small_file(path: Path, *, bytes_max: int = SMALL_BYTES) -> bytes:
    """Return a file's content.

    Raises `HistoryError` if it is a link, is no file, or has more than `bytes_max`
    bytes; `OSError` if it is missing or cannot be read.
    """
    file = _open(path)
    try:
        _check_file(os.fstat(file), path, bytes_max)
    except BaseException:
        os.close(file)
        raise
    with os.fdopen(file, "rb") as reader:
        return reader.read()


def refuse_link(folder: Path) -> None:
    """Raise `HistoryError` if a folder of a run is a symbolic link."""
    if folder.is_symlink():
        raise _build_link_error(folder)


def digest_history(path: Path) -> str | None:
    """Return 32 hexadecimal digits over a history's bytes, None if it cannot be read."""
    try:
        content = read_small_file(path, bytes_max=HISTORY_BYTES)
    except (OSError, HistoryError):
        return None
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _open(path: Path) -> int:
    try:
        # O_NONBLOCK: a pipe is opened at once, even without a writer.
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _build_link_error(path) from None
        if error.errno == errno.ENXIO:  # a socket
            problem = "this is not a file, but a socket"
            raise HistoryError(problem, _HINT, location=str(path)) from None
        raise


def _check_file(status: os.stat_result, path: Path, bytes_max: int) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        raise HistoryError("this is not a file, but a pipe or a device", _HINT, location=str(path))
    if status.st_size > bytes_max:
        problem = f"the file has {status.st_size >> 20} MiB, and {bytes_max >> 20} at most are read"
        raise HistoryError(problem, "Is it what its name says?", location=str(path))


def _build_link_error(path: Path) -> HistoryError:
    problem = "this is a symbolic link, which is not followed"
    return HistoryError(problem, "Put what it leads to in its place.", location=str(path))


_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG}


def write_text(path: Path, text: str) -> Path:
    """Write a file into an existing folder; return its path.

    Half of a character, which a damaged record may have, is written as its number.
    """
    return write_bytes(path, text.encode(errors="backslashreplace"))


def write_bytes(path: Path, content: bytes) -> Path:
    """Write a file into an existing folder; return its path. A link in its place is replaced."""
    # A random name and O_EXCL: the bytes go into a new file of this folder, and through no link.
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(draft, flags, 0o666), "wb") as file:
            file.write(content)
        return draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


@contextmanager
def translate_disk_errors(folder: str, remainder: str) -> Iterator[None]:
    """Turn an error of the disk into a `HarnessError` that states what is left; pass others on."""
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK_ERRORS:
            raise
        raise HarnessError(describe_write_error(folder, error, remainder)) from error


def describe_write_error(folder: str, error: OSError, remainder: str) -> str:
    """Return the error for a record that could not be written; `remainder`: what is there."""
    return f"{folder}: cannot write there: {error.strerror}. {remainder}"


def write_fields(path: Path, fields: Mapping[str, Any]) -> None:
    """Write a JSON object; make its folder if there is none."""
    path.parent.mkdir(exist_ok=True)
    write_text(path, json.dumps(fields))


def read_fields(path: Path) -> dict[str, Any] | None:
    """Return the object of `write_fields`, None if there is no file."""
    try:
        fields: dict[str, Any] = json.loads(read_small_file(path))
    except FileNotFoundError:
        return None
    return fields
