"""The passes over the data that data loaders begin: which one a step's batch came from.

Samples show them as well, but not where they are augmented at random.
"""

import functools
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any

from chaos.probe.import_hooks import call_after_import

_MODULE, _OF_ITERATOR = "torch.utils.data.dataloader", "_chaos_pass"


class LoaderPasses:
    """Counts iterations over data loaders, and knows from which one the last batch came."""

    def __init__(self) -> None:
        self._pass_count = 0
        #: the pass of the last batch, and the newest one that a step had a batch of
        self._latest_pass, self._newest_pass = 0, 0
        #: whether a loader draws from generators of its own, of which no state is known
        self.has_private_generators = False

    def install(self) -> None:
        """Watch torch's data loaders from now on; nothing of them is changed."""
        call_after_import({_MODULE}, self._watch)

    def has_new_pass(self) -> bool:
        """Return whether the first batch of a pass came since the last call.

        A loader that another one interrupts, such as that of an evaluation, goes on with its pass.
        """
        previous_pass, self._newest_pass = (
            self._newest_pass,
            max(self._newest_pass, self._latest_pass),
        )
        return self._newest_pass > previous_pass

    def _watch(self, module: ModuleType) -> None:
        iterator = getattr(module, "_BaseDataLoaderIter", None)  # torch 2.13
        if iterator is not None:
            module.DataLoader.__iter__ = self._wrap_iterate(module.DataLoader.__iter__)
            iterator.__next__ = self._wrap_next(iterator.__next__)

    def _wrap_iterate(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(original)
        def iterate(loader: Any) -> Any:
            iterator = original(loader)
            self._pass_count += 1
            with suppress(Exception):  # an iterator of the job's own, with slots
                setattr(iterator, _OF_ITERATOR, self._pass_count)
            with suppress(Exception):  # a property of the job's own
                self.has_private_generators |= _has_private_generator(loader)
            return iterator

        return iterate

    def _wrap_next(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        from torch import is_grad_enabled

        @functools.wraps(original)
        def give(iterator: Any) -> Any:
            batch = original(iterator)
            # Without gradients it is of an evaluation. Where training has its data from elsewhere,
            # no later batch would take its place.
            if is_grad_enabled():
                self._latest_pass = getattr(iterator, _OF_ITERATOR, 0)
            return batch

        return give


def _has_private_generator(loader: Any) -> bool:
    # Workers that stay are seeded once, and go on by themselves from pass to pass.
    generator_list = (
        getattr(generator_owner, "generator", None) for generator_owner in (loader, loader.sampler)
    )
    return loader.persistent_workers or any(
        generator_owner is not None for generator_owner in generator_list
    )
