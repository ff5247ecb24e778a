"""A cache of texts that take a second to make and are always the same.

It is in the user's own cache: `$XDG_CACHE_HOME`, else `~/.cache`. A cache that cannot be
read or written only costs time.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

FOLDER = "ray-train-chaos"


def get_cached(name: str, *inputs: str, make: Callable[[], str]) -> str:
    """Return the text that is made of `inputs`, from the cache or made anew.

    `inputs` names everything that the text depends on; it is the key. A damaged text is
    made anew.
    """
    name = f"{_digest(*inputs)[:16]}-{name}"
    if (text := _load_text(name)) is None:
        text = make()
        _store_text(name, text)
    return text


def _load_text(name: str) -> str | None:
    try:
        digest, _, text = (_folder() / name).read_text(encoding="utf-8").partition("\n")
    except (OSError, RuntimeError, UnicodeDecodeError):  # Path.home() raises a RuntimeError
        return None
    return text if digest == _digest(text) else None


def _store_text(name: str, text: str) -> None:
    """Write the text so that another process finds all of it or none."""
    try:
        folder = _folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as draft_folder:
            file = Path(draft_folder) / name
            file.write_text(f"{_digest(text)}\n{text}", encoding="utf-8")
            file.replace(folder / name)
    except (OSError, RuntimeError):
        return


def _folder() -> Path:
    cache_home = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache_home) if cache_home else Path.home() / ".cache") / FOLDER


def _digest(*texts: str) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode())
        digest.update(b"\0")
    return digest.hexdigest()
