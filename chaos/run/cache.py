"""What takes a second to make and is always the same, kept for the next process.

It lies in the user's own cache: `$XDG_CACHE_HOME`, else `~/.cache`. A cache that cannot be
read or written costs time and nothing else.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

FOLDER = "ray-train-chaos"


def kept(name: str, *made_of: str, make: Callable[[], str]) -> str:
    """Return the text that is made of these, made anew where no process has kept it.

    `made_of` names everything that the text follows from: where one of them is
    another, it is another text. What was damaged since is made anew.
    """
    name = f"{_digest(*made_of)[:16]}-{name}"
    if (text := _found(name)) is None:
        text = make()
        _keep(name, text)
    return text


def _found(name: str) -> str | None:
    try:
        digest, _, text = (_folder() / name).read_text(encoding="utf-8").partition("\n")
    except (OSError, RuntimeError, UnicodeDecodeError):  # Path.home() raises a RuntimeError
        return None
    return text if digest == _digest(text) else None


def _keep(name: str, text: str) -> None:
    """Put the text in place at once: another process finds all of it or nothing."""
    try:
        folder = _folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as making:
            file = Path(making) / name
            file.write_text(f"{_digest(text)}\n{text}", encoding="utf-8")
            file.replace(folder / name)
    except (OSError, RuntimeError):
        return


def _folder() -> Path:
    named = os.environ.get("XDG_CACHE_HOME")
    return (Path(named) if named else Path.home() / ".cache") / FOLDER


def _digest(*texts: str) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode())
        digest.update(b"\0")
    return digest.hexdigest()
