"""The resources of a machine for a run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LauncherPrograms:
    """The programs that a launcher needs beside Python packages."""

    launcher: str
    missing: tuple[str, ...]
    #: the jobs that need it
    use: str


@dataclass(frozen=True)
class Machine:
    """Plain values; sizes in GiB. A version is None where the package is not installed."""

    #: the version, and where it was installed from
    chaos: str
    system: str
    python: tuple[int, int]
    ray: str | None
    torch: str | None
    launchers: tuple[LauncherPrograms, ...]
    #: of chaos, by name
    extras: dict[str, str | None]
    cpus: int
    memory_free: float
    shm_free: float | None
    disk_free: float
    disk_used: float
    can_write: bool
    can_listen: bool
    can_signal: bool
    #: None where lanes can have views of their own (`processes.view`)
    view_problem: str | None
    clock_back_ns: int
