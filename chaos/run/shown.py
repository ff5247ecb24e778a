"""A path for display."""

from functools import cache
from pathlib import Path


def shown(path: Path) -> str:
    """Return a path as a user would type it: relative if it is below the working directory."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def for_others(path: str | Path) -> str:
    """Return a path as another machine finds it: from the root of its git repository.

    Outside of a repository it is from the working folder, or absolute if it is not below that.
    """
    whole = Path.cwd() / path
    root = repository_around(whole.parent)
    return shown(whole) if root is None else str(whole.relative_to(root))


@cache
def repository_around(folder: Path) -> Path | None:
    """Return the root of the git repository that a folder is in, None without one."""
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)
