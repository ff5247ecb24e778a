"""A training whose steps are none of torch's optimizers: the guard cannot watch it, and says so."""

from collections.abc import Callable, Iterable
from typing import Any

from chaos.guard.content import hashes, is_dense

CHANGES = 3  # of the parameters, each after a backward pass: a load between two is no training
LOOKS_MAX = 16


class UnwatchedTraining:
    """Looks, until the first step, whether parameters change without one."""

    def __init__(self, report: Callable[[], None]) -> None:
        self._report = report
        self._looks = self._changes = 0
        self._known: frozenset[str] = frozenset()

    @property
    def is_over(self) -> bool:
        """Whether it looks no more."""
        return self._looks >= LOOKS_MAX

    def look(self, models: Iterable[Any]) -> None:
        """Compare the parameters with those of the last look; `models` are torch modules."""
        if self.is_over:
            return
        self._looks += 1
        trained = (p for model in models for p in model.parameters() if p.requires_grad)
        now = frozenset(found for _, found in hashes(filter(is_dense, trained)))
        self._changes += bool(self._known) and now != self._known
        self._known = now
        if self._changes >= CHANGES:
            self._looks = LOOKS_MAX
            self._report()
