"""Optimizer steps and their losses, seen through torch itself.

The step comes from torch's global post hook, which every optimizer of the
process calls. The loss is whatever `backward()` was called on since the last
step. Reading a loss that lives on a GPU would make the host wait for the GPU,
so such losses are kept where they are and read at the next report, or when
`PENDING_MAX` of them have gathered.
"""

import math
import os
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

Losses: TypeAlias = tuple[float | str, ...]
PENDING_MAX = 512


class StepHook:
    """Hooks into torch once per worker process."""

    _installed: ClassVar["StepHook | None"] = None

    def __init__(
        self,
        step_done: Callable[[Losses | None], tuple[int, int]],
        resolved: Callable[[int, int, Losses], None],
        failed: Callable[[str, Exception], None],
    ) -> None:
        self._step_done = step_done
        self._resolved = resolved
        self._failed = failed
        self._since_step: list[Any] = []
        self._pending: list[tuple[int, int, tuple[Any, ...]]] = []
        self._pid = os.getpid()

    def install(self) -> None:
        """Watch optimizer steps and `Tensor.backward` from now on; without torch, nothing."""
        try:
            import torch
            from torch.optim.optimizer import register_optimizer_step_post_hook
        except ImportError:  # a boosting job has no optimizer steps
            return
        original = torch.Tensor.backward

        def backward(tensor: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            result = original(tensor, *args, **kwargs)
            self._backward_called(tensor)
            return result

        torch.Tensor.backward = backward
        register_optimizer_step_post_hook(lambda *_: self._stepped())
        StepHook._installed = self

    @classmethod
    def forget_open_window(cls) -> None:
        """Begin the next epoch's losses afresh: a resumed process could not have the rest."""
        if cls._installed is not None:
            cls._installed._since_step.clear()  # noqa: SLF001 - its own class

    @classmethod
    def settle(cls) -> None:
        """Read the losses that are still on an accelerator."""
        if cls._installed is not None:
            cls._installed.read_pending()

    def _backward_called(self, tensor: Any) -> None:  # noqa: ANN401 - a torch.Tensor
        if os.getpid() == self._pid and tensor.numel() == 1:
            self._since_step.append(tensor.detach())

    def _stepped(self) -> None:
        if os.getpid() != self._pid:
            return  # a forked child, such as a data loader's, is not this rank
        try:
            losses, self._since_step = tuple(self._since_step), []
            if any(loss.device.type != "cpu" for loss in losses):
                epoch, step = self._step_done(None)
                self._pending.append((epoch, step, losses))
                if len(self._pending) >= PENDING_MAX:
                    self.read_pending()
            else:
                self._step_done(tuple(spell(loss.item()) for loss in losses))
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's step
            self._failed("step", error)

    def read_pending(self) -> None:
        """Read them now, in the order in which they were made."""
        pending, self._pending = self._pending, []
        for epoch, step, losses in pending:
            self._resolved(epoch, step, tuple(spell(loss.item()) for loss in losses))


def spell(value: float) -> float | str:
    """Give a number as JSON can carry it, to the last bit; "nan", "inf", "-inf" by name."""
    return value if math.isfinite(value) else str(value)
