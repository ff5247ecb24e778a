"""What harness, root, zygotes, lanes and drivers say to each other."""

from dataclasses import dataclass

from chaos.backends.fork.node_disk import NodeDisk
from chaos.backends.train.address import RunAddress


@dataclass(frozen=True)
class StartRun:
    """The harness asks for a driver."""

    address: RunAddress
    env: dict[str, str]


@dataclass(frozen=True)
class Ready:
    """The script has called `fit()`; lanes can be asked for."""


@dataclass(frozen=True)
class Failed:
    """The script did not come to its `fit()`."""

    error: str
    message: str


@dataclass(frozen=True)
class Started:
    """What was asked for was forked."""

    pid: int


@dataclass(frozen=True)
class Exited:
    """What was forked has ended; negative codes are signals."""

    pid: int
    code: int


@dataclass(frozen=True)
class Spawn:
    """What a driver asks its lane to fork."""

    address: str
    key: int
    disk: NodeDisk
    env: dict[str, str]
    log: str
    session: str


@dataclass(frozen=True)
class ForkZygote:
    """The harness asks a root for a zygote; it is to answer at `address` (see `wire`)."""

    address: str
    run_directory: str
    cwd: str
    log: str
    env: dict[str, str]


@dataclass(frozen=True)
class ForkLane:
    """The harness asks a zygote for a lane; it is to answer at `address`."""

    address: str
