"""The chaos controller's actor, as the other processes of a run see it."""

from typing import Any, Self

import ray

from chaos.backends.ray.settings import NAMESPACE
from chaos.backends.train.address import ControllerPort


class RayController(ControllerPort):
    """Calls on the actor."""

    def __init__(self, actor: Any) -> None:  # noqa: ANN401 - an actor handle
        self._actor = actor

    @classmethod
    def connect(cls, name: str) -> Self:
        """Find the actor by its name, in the namespace `chaos`."""
        return cls(ray.get_actor(name, namespace=NAMESPACE))

    def run_files(self) -> dict[str, bytes]:
        """Return what a process needs of a run's directory that its host does not see."""
        files: dict[str, bytes] = ray.get(self._actor.run_files.remote())
        return files

    def ask(self, question: str, *arguments: object) -> Any:  # noqa: ANN401 - the question's answer
        """Ask the actor, and wait for the answer."""
        return ray.get(self._actor.ask.remote(question, *arguments))

    def tell(self, question: str, *arguments: object) -> None:
        """Tell the actor; does not wait."""
        self._actor.ask.remote(question, *arguments)
