"""Digests of files and of folders of files."""

import hashlib
from pathlib import Path
from typing import IO

# Above it a file is digested in `_SAMPLES` pieces, or in a folder by its size alone: a job waits
# for the digest of what it saves.
WHOLE_MAX = 64 << 20
_CHUNK = 1 << 20
_SAMPLES = 64


def file_digest(path: Path) -> str:
    """Return 16 hexadecimal digits over a file's bytes.

    For a file above 64 MiB, they cover its size and 64 pieces of 1 MiB, which are
    spread evenly over it and include the first and the last.
    """
    digest = hashlib.blake2b(digest_size=8)
    size = path.stat().st_size
    with path.open("rb") as file:
        if size <= WHOLE_MAX:
            while piece := file.read(_CHUNK):
                digest.update(piece)
        else:
            digest.update(b"%d;" % size)
            for number in range(_SAMPLES):
                file.seek(number * (size - _CHUNK) // (_SAMPLES - 1))
                digest.update(file.read(_CHUNK))
    return digest.hexdigest()


def stream_digest(stream: IO[bytes]) -> str:
    """Return the digest that `file_digest` returns for these bytes, at most 64 MiB."""
    digest = hashlib.blake2b(digest_size=8)
    while piece := stream.read(_CHUNK):
        digest.update(piece)
    return digest.hexdigest()


def folder_digests(folder: Path) -> dict[str, str]:
    """Return the digest of each file below a folder, by its path there.

    `size:<bytes>` replaces the digest of a file above 64 MiB. A file that is removed
    meanwhile is left out.
    """
    digests: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        try:
            if path.is_file():
                size = path.stat().st_size
                name = path.relative_to(folder).as_posix()
                digests[name] = f"size:{size}" if size > WHOLE_MAX else file_digest(path)
        except FileNotFoundError:
            continue
    return digests
