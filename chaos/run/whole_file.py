"""Small files that are written whole or not at all, even for a reader at the same time."""

import errno
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chaos.errors import HarnessError
from chaos.run.record_file import read_record

_OF_THE_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG}


def write_text(path: Path, text: str) -> Path:
    """Write a file into an existing folder; return its path."""
    return write_bytes(path, text.encode())


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
def full_disk_told(folder: str, left: str) -> Iterator[None]:
    """Turn an error of the disk into a `HarnessError` that states what is left; pass others on."""
    try:
        yield
    except OSError as error:
        if error.errno not in _OF_THE_DISK:
            raise
        raise HarnessError(unwritten(folder, error, left)) from error


def unwritten(folder: str, error: OSError, left: str) -> str:
    """Return the error for a record that could not be written; `left`: what there is anyway."""
    return f"{folder}: cannot write there: {error.strerror}. {left}"


def write_fields(path: Path, fields: Mapping[str, Any]) -> None:
    """Write a JSON object; make its folder if there is none."""
    path.parent.mkdir(exist_ok=True)
    write_text(path, json.dumps(fields))


def read_fields(path: Path) -> dict[str, Any] | None:
    """Return the object of `write_fields`, None if there is no file."""
    try:
        fields: dict[str, Any] = json.loads(read_record(path))
    except FileNotFoundError:
        return None
    return fields
