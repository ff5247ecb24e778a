"""The programs of a machine that a launcher needs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LauncherPrograms:
    """The programs that a launcher needs beside Python packages."""

    launcher: str
    missing: tuple[str, ...]
    #: the jobs that need it
    use: str
