"""A path for display."""

from pathlib import Path


def shown(path: Path) -> str:
    """Return a path as a user would type it: relative if it is below the working directory."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
