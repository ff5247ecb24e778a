"""The chaos controller's actor, as the other processes of a run see it."""

from collections.abc import Mapping
from typing import Any, Self

import ray

from chaos.backends.ray.settings import NAMESPACE
from chaos.faults.order import Order
from chaos.faults.world import Victim
from chaos.model.event import Committed, FailureDecided


class RayController:
    """Calls on the actor that wait for their answer, except where the port says otherwise."""

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

    def group_started(self, group: Mapping[int, tuple[Victim, Any]]) -> None:
        """Tell who holds each rank, and by which handle."""
        ray.get(self._actor.group_started.remote(dict(group)))

    def group_launched(self, attempt: int) -> None:
        """Tell that every rank of an attempt has begun its train function; does not wait."""
        self._actor.group_launched.remote(attempt)

    def committed(self, event: Committed) -> None:
        """Tell of a commit; does not wait."""
        self._actor.committed.remote(event)

    def may_poll(self) -> None:
        """Wait until Ray's controller may poll its workers again."""
        ray.get(self._actor.may_poll.remote())

    def await_hold(self, op: int) -> bool:
        """Wait until Ray's controller is held for an op, and say whether it is."""
        return bool(ray.get(self._actor.await_hold.remote(op)))

    def enter_state(self, op: int) -> None:
        """Wait, in Ray's controller, until the strike of an op that waits for its state is over."""
        ray.get(self._actor.enter_state.remote(op))

    def arrive(self, op: int, victim: Victim) -> Order | None:
        """Wait at an op's place until the worker may go on; gives what it is to do to itself."""
        order: Order | None = ray.get(self._actor.arrive.remote(op, victim))
        return order

    def obeyed(self, token: str) -> None:
        """Tell that this worker does as it was told."""
        ray.get(self._actor.obeyed.remote(token))

    def failure_decided(self, event: FailureDecided) -> None:
        """Tell what Ray has decided to do about a failure."""
        self._actor.failure_decided.remote(event)
