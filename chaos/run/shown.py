"""A path as people read it."""

from pathlib import Path


def shown(path: Path) -> str:
    """Return a path as people would type it: relative where it lies below where they are."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
