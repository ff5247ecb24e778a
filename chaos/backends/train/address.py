"""How a process of a run finds the run, and what it can ask of the chaos controller there."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from chaos.declared import TOKEN_ENV
from chaos.faults.order import Order
from chaos.faults.world import Victim
from chaos.model.event import Committed, FailureDecided
from chaos.plugins import EXTENSIONS_ENV, OFF
from chaos.run.apart import folder_apart, sees, unpack
from chaos.run.directory import RunDirectory
from chaos.run.leavings import hold

DIRECTORY_ENV = "CHAOS_RUN_DIRECTORY"
CONTROLLER_ENV = "CHAOS_CONTROLLER"
CALLBACK = "chaos.backends.train.callback.ChaosCallback"


class ControllerPort(ABC):
    """The chaos controller, seen from another process of the run.

    A question is the name of a method, with its arguments; a transport says how one is asked.
    """

    @abstractmethod
    def ask(self, question: str, *arguments: object) -> Any:  # noqa: ANN401 - the question's answer
        """Ask, and wait for the answer."""

    def tell(self, question: str, *arguments: object) -> None:
        """Ask what has no answer; waits no longer than the transport must."""
        self.ask(question, *arguments)

    def group_started(self, group: Mapping[int, tuple[Victim, Any]]) -> None:
        """Tell who holds each rank, and by which handle."""
        self.ask("group_started", dict(group))

    def group_launched(self, attempt: int) -> None:
        """Tell that every rank of an attempt has begun its train function."""
        self.tell("group_launched", attempt)

    def committed(self, event: Committed) -> None:
        """Tell of a commit."""
        self.tell("committed", event)

    def failure_decided(self, event: FailureDecided) -> None:
        """Tell what Ray has decided to do about a failure."""
        self.tell("failure_decided", event)

    def may_poll(self) -> None:
        """Wait until Ray's controller may poll its workers again."""
        self.ask("may_poll")

    def await_hold(self, op: int) -> bool:
        """Wait until Ray's controller is held for an op, and say whether it is."""
        return bool(self.ask("await_hold", op))

    def enter_state(self, op: int) -> None:
        """Wait, in Ray's controller, until the strike of an op that waits for its state is over."""
        self.ask("enter_state", op)

    def arrive(self, op: int, victim: Victim) -> Order | None:
        """Wait at an op's place until the worker may go on; gives what it is to do to itself."""
        order: Order | None = self.ask("arrive", op, victim)
        return order

    def obeyed(self, token: str) -> None:
        """Tell that this worker does as it was told."""
        self.ask("obeyed", token)


class Unattended(ControllerPort):
    """The port of what nothing is done to: a trial beside the one that faults strike."""

    def ask(self, question: str, *arguments: object) -> Any:  # noqa: ANN401 - None
        """Ask nobody."""
        del question, arguments


@dataclass(frozen=True)
class RunAddress:
    """A run's directory, its token, and where its chaos controller is.

    That is `ray:<name of an actor>`, `unix:<name of a socket>`, or `none:`.
    """

    directory: Path
    token: str
    controller: str

    @classmethod
    def from_env(cls) -> Self:
        """Read the address from this process's environment."""
        return cls(
            directory=Path(os.environ[DIRECTORY_ENV]),
            token=os.environ[TOKEN_ENV],
            controller=os.environ[CONTROLLER_ENV],
        )

    def as_env(self) -> dict[str, str]:
        """Return the variables that carry the address."""
        return {
            DIRECTORY_ENV: str(self.directory),
            TOKEN_ENV: self.token,
            CONTROLLER_ENV: self.controller,
            EXTENSIONS_ENV: OFF,
        }

    def run_directory(self) -> RunDirectory:
        """Return where this process writes: the run's directory, or a folder of its host's own.

        From the latter, node agents bring what is written to the harness.
        """
        kind, _, name = self.controller.partition(":")
        if kind != "ray" or sees(self.directory, self.token):
            return RunDirectory(self.directory)
        import ray

        from chaos.backends.ray.port import RayController

        folder = folder_apart(self.token, ray.get_runtime_context().get_node_id())
        hold(folder)
        return unpack(RayController.connect(name).run_files(), folder)

    def connect(self) -> ControllerPort:
        """Find the chaos controller, wherever its backend keeps it."""
        kind, _, name = self.controller.partition(":")
        if kind == "none":
            return Unattended()
        if kind == "ray":
            from chaos.backends.ray.port import RayController

            return RayController.connect(name)
        assert kind == "unix"
        from chaos.backends.fork.port import SocketController

        return SocketController(name)
