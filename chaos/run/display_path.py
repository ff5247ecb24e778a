"""A path for display."""

from functools import cache
from pathlib import Path


def format_path(path: Path) -> str:
    """Return a path as a user would type it: relative if it is below the working directory."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def format_portable_path(path: str | Path) -> str:
    """Return a path as another machine finds it: from the root of its git repository.

    Outside of a repository it is from the working folder, or absolute if it is not below that.
    """
    full_path = Path.cwd() / path
    root = find_repository(full_path.parent)
    return format_path(full_path) if root is None else str(full_path.relative_to(root))


@cache
def find_repository(folder: Path) -> Path | None:
    """Return the root of the git repository that a folder is in, None without one."""
    return next(
        (parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), None
    )
