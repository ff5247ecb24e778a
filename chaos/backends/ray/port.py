"""The chaos controller's actor, as the other processes of a run see it."""

from typing import Any, Self

import ray

from chaos.backends.ray.settings import NAMESPACE
from chaos.backends.train.address import ControllerPort


class RayController(ControllerPort):
    """The port to the actor."""

    def __init__(self, actor: Any) -> None:  # noqa: ANN401 - an actor handle
        self._actor = actor

    @classmethod
    def connect(cls, name: str) -> Self:
        """Find the actor by its name, in the namespace `chaos`."""
        return cls(ray.get_actor(name, namespace=NAMESPACE))

    def run_files(self) -> dict[str, bytes]:
        """Return the files of the run that a process needs on a host that does not see them."""
        files: dict[str, bytes] = ray.get(self._actor.run_files.remote())
        return files

    def ask(self, question: str, *arguments: object) -> Any:  # noqa: ANN401 - the question's answer
        """Return the actor's answer."""
        return ray.get(self._actor.ask.remote(question, *arguments))

    def tell(self, question: str, *arguments: object) -> None:
        """Send a question to the actor, without waiting."""
        self._actor.ask.remote(question, *arguments)
