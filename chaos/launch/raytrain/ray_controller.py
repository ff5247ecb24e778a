"""The chaos controller on a Ray cluster, seen from another process of the run."""

from typing import Any, Self

import ray

from chaos.launch.ray.settings import NAMESPACE
from chaos.probe.address import ControllerPort, RunAddress
from chaos.run.directory import RunDirectory
from chaos.run.files_elsewhere import folder_elsewhere, sees, unpack
from chaos.run.leavings import hold


class RayController(ControllerPort):
    """The port to the controller's actor on a Ray cluster."""

    def __init__(self, actor: Any) -> None:  # an actor handle
        self._actor = actor

    @classmethod
    def connect(cls, name: str) -> Self:
        """Find the actor by its name, in the namespace `chaos`."""
        return cls(ray.get_actor(name, namespace=NAMESPACE))

    def run_files(self) -> dict[str, bytes]:
        """Return the files of the run that a process needs on a host that does not see them."""
        files: dict[str, bytes] = ray.get(self._actor.run_files.remote())
        return files

    def ask(self, question: str, *arguments: object) -> Any:  # the question's answer
        return ray.get(self._actor.ask.remote(question, *arguments))

    def tell(self, question: str, *arguments: object) -> None:
        """Send a question to the actor, without waiting."""
        self._actor.ask.remote(question, *arguments)


class _OverRay:
    """The transport of runs on a Ray cluster, whose hosts may not see the run's folder."""

    def connect(self, address: RunAddress) -> RayController:
        return RayController.connect(address.controller.partition(":")[2])

    def run_directory(self, address: RunAddress) -> RunDirectory:
        """Return the run's folder if this host sees it, or else one on this host."""
        if sees(address.directory, address.token):
            return RunDirectory(address.directory)
        folder = folder_elsewhere(address.token, ray.get_runtime_context().get_node_id())
        hold(folder)
        return unpack(self.connect(address).run_files(), folder)


TRANSPORT = _OverRay()
