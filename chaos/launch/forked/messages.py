"""Messages between harness, root, zygotes, lanes and drivers."""

from dataclasses import dataclass

from chaos.launch.node_disk import NodeDisk
from chaos.model.event import ScriptRaised
from chaos.probe.address import RunAddress


@dataclass(frozen=True)
class StartRun:
    """The harness asks a lane for a driver."""

    address: RunAddress
    env: dict[str, str]


@dataclass(frozen=True)
class ScriptReady:
    """The script has called `fit()`; lanes can be asked for."""


@dataclass(frozen=True)
class ScriptFailed:
    """The script did not come to its `fit()`."""

    error: str
    message: str
    torchrun_request: str | None = None

    def build_event(self) -> ScriptRaised:
        return ScriptRaised(error=self.error, message=self.message, asked=self.torchrun_request)


@dataclass(frozen=True)
class WorkerKilled:
    """A worker was ended by a signal that its driver did not send."""

    pid: int
    code: int


@dataclass(frozen=True)
class StartWorker:
    """A driver asks its lane for a worker; the worker's end of their connection comes along."""

    disk: NodeDisk
    env: dict[str, str]
    log: str
    session: str


@dataclass(frozen=True)
class WorkerStuck:
    """A driver reports to its lane that the newest worker does not come to its first line."""


@dataclass(frozen=True)
class WorkerEnding:
    """A driver announces to its lane that it ends a worker now, as `ray.kill` does."""

    pid: int


@dataclass(frozen=True)
class ForkZygote:
    """The harness asks a root for a zygote; the zygote's end of their connection comes along."""

    run_directory: str
    cwd: str
    log: str
    env: dict[str, str]
    #: the process that holds the view that it enters, None for none
    view: int | None = None


@dataclass(frozen=True)
class ForkLane:
    """The harness asks a zygote for a lane; the lane's end of their connection comes along."""

    #: as of `ForkZygote`
    view: int | None = None
