"""The passes over the data that data loaders begin: which one a step's batch came from.

Samples show them as well, but not where they are augmented at random.
"""

import functools
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any

from chaos.probe.imported import once_imported

_MODULE, _OF_ITERATOR = "torch.utils.data.dataloader", "_chaos_pass"


class LoaderPasses:
    """Counts iterations over data loaders, and knows from which one the last batch came."""

    def __init__(self) -> None:
        self._begun = 0
        #: the pass of the last batch, and the newest one that a step had a batch of
        self._latest, self._newest = 0, 0
        #: whether a loader draws from generators of its own, of which no state is known
        self.draws_apart = False

    def install(self) -> None:
        """Watch torch's data loaders from now on; nothing of them is changed."""
        once_imported({_MODULE}, self._watch)

    def begins(self) -> bool:
        """Return whether the first batch of a pass came since the last call.

        A loader that another one interrupts, such as that of an evaluation, goes on with its pass.
        """
        was, self._newest = self._newest, max(self._newest, self._latest)
        return self._newest > was

    def _watch(self, module: ModuleType) -> None:
        iterator = getattr(module, "_BaseDataLoaderIter", None)  # torch 2.13
        if iterator is not None:
            module.DataLoader.__iter__ = self._iterating(module.DataLoader.__iter__)
            iterator.__next__ = self._giving(iterator.__next__)

    def _iterating(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(original)
        def iterate(loader: Any) -> Any:
            found = original(loader)
            self._begun += 1
            with suppress(Exception):  # an iterator of the job's own, with slots
                setattr(found, _OF_ITERATOR, self._begun)
            with suppress(Exception):  # a property of the job's own
                self.draws_apart |= _draws_apart(loader)
            return found

        return iterate

    def _giving(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        from torch import is_grad_enabled

        @functools.wraps(original)
        def give(iterator: Any) -> Any:
            batch = original(iterator)
            # Without gradients it is of an evaluation. Where training has its data from elsewhere,
            # no later batch would take its place.
            if is_grad_enabled():
                self._latest = getattr(iterator, _OF_ITERATOR, 0)
            return batch

        return give


def _draws_apart(loader: Any) -> bool:
    # Workers that stay are seeded once, and go on by themselves from pass to pass.
    drawn = (getattr(one, "generator", None) for one in (loader, loader.sampler))
    return loader.persistent_workers or any(one is not None for one in drawn)
