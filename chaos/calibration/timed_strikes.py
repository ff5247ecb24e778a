"""Kills workers at given moments of a run, as a market does: by the clock, wherever training is.

A plan strikes at places, so that it repeats itself. What a forecast says of
the clock can be held only against harm that knows nothing of places.
"""

import os
import random
import signal
from collections.abc import Callable, Sequence
from typing import TypeAlias

from chaos.model.event import FitCalled, StepDone, WorkerGroupStarted
from chaos.model.history import Entry
from chaos.preflight.compression import Loss
from chaos.run.clock import Clock

Kill: TypeAlias = Callable[[int], bool]


def kill_process(pid: int) -> bool:
    """Kill a worker that this machine's own run has recorded; False where it is gone already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


class TimedStrikes:
    """Given a run's events as they come, kills workers when it is time.

    A loss that falls before a group's first step takes nobody, here and in the
    forecast that is held against it: a worker that dies while its group is
    being set up can leave the others waiting in torch's rendezvous for half an
    hour, which no forecast knows. `struck` counts the losses that took a worker.
    """

    def __init__(
        self, losses: Sequence[Loss], *, clock: Clock, seed: int, kill: Kill = kill_process
    ) -> None:
        self._losses, self._clock, self._kill = list(losses), clock, kill
        self._draws = random.Random(seed)  # noqa: S311  repeatable is what it must be
        self._since_ns: int | None = None
        self._attempt: int | None = None
        self._group: list[int] = []
        self._alive: list[int] = []
        self.struck = 0

    def __call__(self, entries: Sequence[Entry]) -> None:
        """Learn what is new, and strike if a loss is due."""
        for entry in entries:
            match entry.what:
                case FitCalled():
                    self._since_ns = entry.time_ns
                case WorkerGroupStarted(attempt=attempt, workers=workers):
                    self._attempt, self._group = attempt, [place.pid for place in workers]
                case StepDone(attempt=attempt) if attempt == self._attempt:
                    self._alive = self._group
                case _:
                    pass
        while self._is_due():
            self._strike(self._losses.pop(0))

    def _is_due(self) -> bool:
        if self._since_ns is None or not self._losses:
            return False
        return self._clock.now_ns() - self._since_ns >= self._losses[0].at_s * 1e9

    def _strike(self, loss: Loss) -> None:
        if not self._alive:
            return
        victims = self._draws.sample(self._alive, min(loss.workers, len(self._alive)))
        killed = [pid for pid in victims if self._kill(pid)]
        # One dead worker ends the group: until the next one is up nobody is there to be struck.
        self._alive, self._attempt = [], None
        self.struck += bool(killed)
