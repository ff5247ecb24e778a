"""The address by which a process finds its run, and its port to the run's chaos controller."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Self

from chaos.declaration import TOKEN_ENV
from chaos.faults.order import Order
from chaos.faults.world import Target
from chaos.model.event import Committed, FailureDecided
from chaos.registry import EXTENSIONS_ENV, EXTENSIONS_OFF
from chaos.run.directory import RunDirectory

DIRECTORY_ENV = "CHAOS_RUN_DIRECTORY"
CONTROLLER_ENV = "CHAOS_CONTROLLER"
# Of the emulated metadata service: http://host:port, whatever the cloud; Azure's clients take no
# variable. The others are those that the clouds' own clients take for its address.
METADATA_ENV = "CHAOS_METADATA"
METADATA_VARIABLES = (
    METADATA_ENV,
    "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    "GCE_METADATA_HOST",
    "GCE_METADATA_IP",
)


class ControllerPort(ABC):
    """The chaos controller, seen from another process of the run.

    A question is the name of a method, with its arguments; a subclass is a transport for it, which
    finds the controller by its name.
    """

    @abstractmethod
    def __init__(self, name: str) -> None: ...

    @staticmethod
    def run_directory(address: "RunAddress") -> RunDirectory:
        """Return the folder for this process's files: the run's, or one on its own host.

        Node agents copy the files of the latter to the harness.
        """
        return RunDirectory(address.directory)

    @abstractmethod
    def ask(self, question: str, *arguments: object) -> Any:  # the question's answer
        """Return the answer to a question."""

    def send(self, question: str, *arguments: object) -> None:
        """Send a question without an answer; waits no longer than the transport must."""
        self.ask(question, *arguments)

    def next_attempt(self, attempt_count: int) -> int:
        """Return the number of the attempt that begins now; so many are known to its driver."""
        return int(self.ask("next_attempt", attempt_count))

    def group_started(self, group: Mapping[int, tuple[Target, Any]]) -> None:
        """Report the worker of each rank, with Ray's handle to it."""
        self.ask("group_started", dict(group))

    def group_launched(self, attempt: int) -> None:
        """Report that every rank of an attempt has begun its train function."""
        self.send("group_launched", attempt)

    def rendezvous_hosted(self, port: int) -> None:
        """Report the port at which an agent of torchrun hosts the rendezvous."""
        self.send("rendezvous_hosted", port)

    def rendezvous_port(self) -> int:
        """Wait for and return the port of the rendezvous."""
        return int(self.ask("rendezvous_port"))

    def node_taken(self) -> bool:
        """Return whether a fault has taken one of torchrun's nodes."""
        return bool(self.ask("node_taken"))

    def agent_ready(self, node_id: str) -> None:
        """Wait, in an agent of torchrun, until the agents of all nodes of the start are ready."""
        self.ask("agent_ready", node_id)

    def attempt_of(self, start: int, rank: int, pid: int) -> int:
        """Return the number of the attempt that a process takes a rank in, in a start of a job."""
        return int(self.ask("attempt_of", start, rank, pid))

    def part_started(self, attempt: int, ranks: int, workers: Mapping[int, Target]) -> None:
        """Report the workers of one of torchrun's agents, in an attempt of so many ranks."""
        self.ask("part_started", attempt, ranks, dict(workers))

    def began(self, attempt: int, rank: int) -> None:
        """Report that a rank that torchrun started begins the job's script."""
        self.send("began", attempt, rank)

    def resumed(self, attempt: int, epoch: int) -> None:
        """Report that an attempt goes on at an epoch, by a save of the job's own."""
        self.send("resumed", attempt, epoch)

    def committed(self, event: Committed) -> None:
        self.send("committed", event)

    def failure_decided(self, event: FailureDecided) -> None:
        """Report Ray's decision about a failure."""
        self.send("failure_decided", event)

    def may_poll(self) -> None:
        """Wait until Ray's controller may poll its workers again."""
        self.ask("may_poll")

    def await_hold(self, op: int) -> bool:
        """Wait until Ray's controller is held for an op; return whether it is."""
        return bool(self.ask("await_hold", op))

    def enter_state(self, op: int) -> None:
        """Wait, in Ray's controller, until the fault of an op at this state is injected."""
        self.ask("enter_state", op)

    def arrive(self, op: int, target: Target) -> Order | None:
        """Wait at an op's place until the worker may continue; return its order, if it has one."""
        order: Order | None = self.ask("arrive", op, target)
        return order

    def obeyed(self, token: str) -> None:
        """Report that this worker carries out an order, by the order's token."""
        self.ask("obeyed", token)

    # -- asked by a driver of emulated nodes, which a cluster would answer -----------------------

    def placed(self, pid: int, node_id: str) -> None:
        """Report the node that a worker was started on."""
        self.ask("placed", pid, node_id)

    def live_nodes(self) -> list[str] | None:
        """Return the nodes that are neither lost nor announced to be; None: no fault takes any."""
        node_ids: list[str] | None = self.ask("live_nodes")
        return node_ids

    def draining(self) -> dict[str, int]:
        """Return the nodes that were announced to be lost, with deadlines (unix ms)."""
        return dict(self.ask("draining") or {})

    def preempted(self) -> list[str]:
        """Return the nodes that were lost after their loss had been announced."""
        return list(self.ask("preempted") or ())

    def exhausted(self) -> list[int]:
        """Return the pids whose end is to look like one by Ray's memory monitor."""
        return list(self.ask("exhausted") or ())


class Unattended(ControllerPort):
    """The port of a training without faults: a trial beside the one under test, an earlier fit."""

    def __init__(self, name: str = "") -> None:
        del name

    def ask(self, question: str, *arguments: object) -> Any:  # None
        del question, arguments

    def next_attempt(self, attempt_count: int) -> int:
        return attempt_count


@dataclass(frozen=True)
class RunAddress:
    """A run's directory, its token, and where its chaos controller is."""

    directory: Path
    token: str
    #: `ray:<name of an actor>`, `unix:<name of a socket>`, or `none:`
    controller: str
    #: the variables by which a job finds the emulated metadata service, if there is one
    metadata: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_env(cls) -> Self:
        return cls(
            directory=Path(os.environ[DIRECTORY_ENV]),
            token=os.environ[TOKEN_ENV],
            controller=os.environ[CONTROLLER_ENV],
            metadata=find_metadata_variables(),
        )

    def build_variables(self) -> dict[str, str]:
        return {
            DIRECTORY_ENV: str(self.directory),
            TOKEN_ENV: self.token,
            CONTROLLER_ENV: self.controller,
            EXTENSIONS_ENV: EXTENSIONS_OFF,
            **self.metadata,
        }

    def run_directory(self) -> RunDirectory:
        """Return the folder for this process's files (see `ControllerPort`)."""
        return self._find_port().run_directory(self)

    def connect(self) -> ControllerPort:
        return self._find_port()(self.controller.partition(":")[2])

    def _find_port(self) -> type[ControllerPort]:
        # By name, and imported here: a worker of torchrun needs no Ray, and has none to import.
        port: type[ControllerPort] = resolve_name(_PORTS[self.controller.partition(":")[0]])
        return port


_PORTS = {
    "none": f"{__name__}:Unattended",
    "unix": "chaos.probe.gates:SocketController",
    "ray": "chaos.launch.raytrain.ray_controller:RayController",
}


def find_metadata_variables() -> dict[str, str]:
    """Return the variables of the run's metadata service in this process; none if it has none."""
    if METADATA_ENV not in os.environ:
        return {}
    return {name: os.environ[name] for name in METADATA_VARIABLES if name in os.environ}
