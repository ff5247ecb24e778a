"""The harness's side of the gates, for workers that torchrun starts."""

import threading

from chaos.backends.fork.server import GateServer
from chaos.backends.fork.world import ForkWorld
from chaos.run.controller import ChaosController


class RoundServer(GateServer):
    """The server of one run; a round is launched once all its ranks have begun the script."""

    def __init__(
        self, name: str, controller: ChaosController, world: ForkWorld, *, ranks: int
    ) -> None:
        self._chaos = controller
        self._ranks = ranks
        self._there: dict[int, set[int]] = {}
        self._counting = threading.Lock()
        super().__init__(name, controller, world)
        self._answers["began"] = self._began  # before any process of the run is started

    def _began(self, attempt: int, rank: int) -> None:
        with self._counting:
            there = self._there.setdefault(attempt, set())
            there.add(rank)
            is_whole = len(there) == self._ranks
        if is_whole:
            self._chaos.group_launched(attempt)
