"""Small files that are written whole or not at all, whoever reads them meanwhile."""

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
    """Write a file into a folder that is there; gives its path."""
    return write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> Path:
    """Write a file into a folder that is there; gives its path. A link in its place is replaced."""
    # A name that nobody can guess, and O_EXCL: what is written lands in a new file of this folder.
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
    """Turn an error of the disk into a `HarnessError` that says what is left; others pass."""
    try:
        yield
    except OSError as error:
        if error.errno not in _OF_THE_DISK:
            raise
        raise HarnessError(unwritten(folder, error, left)) from error


def unwritten(folder: str, error: OSError, left: str) -> str:
    """Return that a record could not be written; `left`: what there is all the same."""
    return f"{folder}: cannot write there: {error.strerror}. {left}"


def write_fields(path: Path, fields: Mapping[str, Any]) -> None:
    """Write a JSON object, and make its folder where there is none."""
    path.parent.mkdir(exist_ok=True)
    write_text(path, json.dumps(fields))


def read_fields(path: Path) -> dict[str, Any] | None:
    """Read what `write_fields` wrote, None where there is no file."""
    try:
        fields: dict[str, Any] = json.loads(read_record(path))
    except FileNotFoundError:
        return None
    return fields
