"""A training whose steps are none of torch's optimizers: the guard cannot watch it, and says so."""

from collections.abc import Callable, Iterable
from typing import Any

from chaos.extensions.guard.content import hash_tensors, is_dense

CHANGES = 3  # of the parameters, each after a backward pass: a load between two is no training
LOOKS_MAX = 16


class UnwatchedTraining:
    """Looks, until the first step, whether parameters change without one."""

    def __init__(self, report: Callable[[], None]) -> None:
        self._report = report
        self._look_count = self._change_count = 0
        self._last_hashes: frozenset[str] = frozenset()

    @property
    def has_finished(self) -> bool:
        """Whether it looks no more."""
        return self._look_count >= LOOKS_MAX

    def compare_parameters(self, models: Iterable[Any]) -> None:
        """Compare the parameters with those of the last look; `models` are torch modules."""
        if self.has_finished:
            return
        self._look_count += 1
        trained_parameters = (p for model in models for p in model.parameters() if p.requires_grad)
        current_hashes = frozenset(
            digest for _, digest in hash_tensors(filter(is_dense, trained_parameters))
        )
        self._change_count += bool(self._last_hashes) and current_hashes != self._last_hashes
        self._last_hashes = current_hashes
        if self._change_count >= CHANGES:
            self._look_count = LOOKS_MAX
            self._report()
