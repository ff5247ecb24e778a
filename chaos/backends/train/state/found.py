"""The objects that hold a job's state, remembered as the job makes them.

They are referenced weakly: an object that the job drops is no longer its state.
They are in the order of their making, which a job repeats in every attempt.
"""

import functools
import weakref
from collections.abc import Callable
from typing import Any


def kind_of(stepped: Any) -> str:  # noqa: ANN401 - whatever begins a step
    """Return the kind of an object that makes steps: `optimizer` (torch), `keras` or `booster`."""
    if hasattr(stepped, "param_groups"):
        return "optimizer"
    return "keras" if hasattr(type(stepped), "trainable_weights") else "booster"


class Found:
    """Optimizers, schedules, scalers and averaged models of this process."""

    def __init__(self, optimizer_made: Callable[[], None] = lambda: None) -> None:
        self._optimizer_made = optimizer_made
        self._stepped: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._seen: dict[str, list[weakref.ref[Any]]] = {}

    def watch(self) -> None:
        """Remember objects as they are made from now on."""
        import torch
        from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
        from torch.optim.swa_utils import AveragedModel

        self._watch_making("optimizer", torch.optim.Optimizer)
        self._watch_making("schedule", LRScheduler)
        self._watch_making("schedule", ReduceLROnPlateau)  # does not call its base's constructor
        self._watch_making("scaler", torch.amp.GradScaler)
        self._watch_making("ema", AveragedModel)

    def add(self, kind: str, found: Any) -> None:  # noqa: ANN401 - any object of that kind
        """Remember an object, unless it is known; an optimizer is also added at its first step."""
        if not any(known is found for known in self.all(kind)):
            self._seen.setdefault(kind, []).append(weakref.ref(found))
            if kind == "optimizer":
                self._optimizer_made()

    def all(self, kind: str) -> list[Any]:
        """Return the objects of a kind that still exist."""
        return [o for ref in self._seen.get(kind, ()) if (o := ref()) is not None]

    def stepped(self, optimizer: Any, epoch: int) -> None:  # noqa: ANN401
        """Remember the epoch of an optimizer's last step."""
        self._stepped[optimizer] = epoch

    def optimizers(self, epoch: int) -> list[Any]:
        """Return the optimizers that train, in the order of their making.

        An optimizer that made steps, but none since the last epoch began, trains no more: it is
        of an earlier phase, or of a trial of the job. Another attempt may not have it.
        """
        return [o for o in self.all("optimizer") if self._stepped.get(o, epoch) >= epoch - 1]

    def _watch_making(self, kind: str, cls: Any) -> None:  # noqa: ANN401 - a class
        original: Callable[..., None] = cls.__init__

        @functools.wraps(original)
        def make(made: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
            original(made, *args, **kwargs)
            self.add(kind, made)

        cls.__init__ = make
