"""The resources of a machine for a run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """Plain values; sizes in GiB. A version is None where the package is not installed."""

    #: the version, and where it was installed from
    chaos: str
    system: str
    python: tuple[int, int]
    ray: str | None
    torch: str | None
    #: the programs of a local Slurm that are missing
    missing_slurm_programs: tuple[str, ...]
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
