"""Optimizer steps, their losses and their inputs, seen through torch itself.

Steps are seen by torch's global hooks, which every optimizer of the process calls. In a
job that boosts trees a round is a step, in one that trains with Keras a batch (see
`libraries`). The losses are the numbers that `backward()` was called on since
the last step, the inputs are the arguments of the model's calls. To read a tensor on a
GPU would make the host wait for the GPU. So it stays there, and is read at the next
report, or when `PENDING_MAX` of them have gathered.
"""

import functools
import math
import os
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, ClassVar, Protocol, TypeAlias

from chaos.errors import InjectedError, ResumeMismatchError
from chaos.model.event import Inputs
from chaos.model.places import Place
from chaos.probe.libraries import watch_batches, watch_rounds
from chaos.probe.state.gradients import is_empty_step

Losses: TypeAlias = tuple[float | str, ...]
# Steps whose losses may wait on an accelerator for a report.
PENDING_MAX = 512


class GivenInputs(Protocol):
    """The inputs of the model for one step."""

    @property
    def is_late(self) -> bool:
        """Whether a part of them still is on an accelerator."""

    def read(self) -> Inputs | None:
        """Return their digests; waits for the accelerator."""


class StepHook:
    """The hooks in torch, installed once per worker process.

    `gradients_due` is called before the first `backward()` of an attempt, and before the
    first one after a report, or a save, that came while gradients were accumulated for a
    step. Set later: `drop_gradients` is called at a second such place of one step, as an
    attempt may resume from either; `has_gradients` returns whether any gradient is left for
    a step, `versions` how often parameters were changed, `gradient_mark` what differs once
    gradients were cleared, and `drop_inputs` drops the inputs that were backpropagated.
    """

    _installed: ClassVar["StepHook | None"] = None

    def __init__(
        self,
        step_done: Callable[[Losses | None, Inputs | None], Place],
        resolved: Callable[[int, int, Losses, Inputs | None], None],
        failed: Callable[[str, Exception], None],
        *,
        step_begins: Callable[[Any], None] | None = None,
        given: Callable[[], GivenInputs] | None = None,
        gradients_due: Callable[[], None] | None = None,
    ) -> None:
        self._step_done = step_done
        self._resolved = resolved
        self._failed = failed
        self._step_begins = step_begins
        self._given = given
        self._gradients_due = gradients_due
        self.has_gradients: Callable[[], bool] = lambda: True
        self.versions: Callable[[], tuple[int, ...]] = tuple
        self.gradient_mark: Callable[[], tuple[int, ...] | None] = tuple
        self.drop_inputs: Callable[[], None] = lambda: None
        self.drop_gradients: Callable[[], None] = lambda: None
        self._versions: tuple[int, ...] = ()
        self._mark: tuple[int, ...] | None = ()
        self._may_wait = gradients_due is not None
        self._has_looked = False  # at the gradients of the open window
        self._is_empty = self._is_stepping = False
        self.has_trained = False
        self._since_step: list[Any] = []
        self._pending: list[tuple[int, int, tuple[Any, ...], GivenInputs | None]] = []
        self._pid = os.getpid()

    def install(self) -> None:
        """Watch optimizer steps and `Tensor.backward` from now on, if torch is there."""
        try:
            import torch
        except ImportError:  # a job that boosts trees needs no torch
            return
        # torch has no global hook for `backward()`, so the method itself is replaced. A loss
        # counts once the call has returned.
        original = torch.Tensor.backward

        def backward(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if self._since_step:
                self._drop_if_cleared()
            if self._may_wait:
                self._backward_begins()
            if not self._since_step:
                self._window_begins()
            result = original(tensor, *args, **kwargs)
            self._backward_called(tensor)
            return result

        torch.Tensor.backward = backward
        # A window lies between two steps. What a trial before training leaves in it, such as a
        # backward pass whose gradients are thrown away, would be taken for a micro-batch of the
        # step that follows, in each attempt anew.
        for owner in (torch.optim.Optimizer, torch.nn.Module):
            owner.zero_grad = self._dropping(owner.zero_grad)
        torch.nn.Module.load_state_dict = self._loading(torch.nn.Module.load_state_dict)
        self._watch_steps()
        StepHook._installed = self

    def _watch_steps(self) -> None:
        from torch.optim import Optimizer, optimizer

        # Every `step()` runs within this code, that of an optimizer within another's as well (torch
        # 2.13): ZeRO and SAM have one inside.
        step_code = Optimizer.profile_hook_step(lambda: None).__code__

        def begins(optimizer: Any, *_: Any) -> None:
            if not _is_within_step(step_code):
                self._begins(optimizer)

        def stepped(*_: Any) -> None:
            if not _is_within_step(step_code):
                self._stepped()

        optimizer.register_optimizer_step_pre_hook(begins)
        optimizer.register_optimizer_step_post_hook(stepped)

    def _dropping(self, zero_grad: Callable[..., None]) -> Callable[..., None]:
        """Return a `zero_grad` that drops an open window if no gradient of it is left.

        A job may try its model before it trains, at each start; no step has part of that.
        """

        @functools.wraps(zero_grad)
        def dropping(owner: Any, *args: Any, **kwargs: Any) -> None:
            zero_grad(owner, *args, **kwargs)
            if sys.modules["torch"].compiler.is_compiling():
                return  # nothing of chaos becomes a part of a compiled step
            if self._since_step and os.getpid() == self._pid and not self._is_stepping:
                self._drop_if_empty()

        return dropping

    def _loading(self, load: Callable[..., Any]) -> Callable[..., Any]:
        """Return a `load_state_dict` that is no move of the parameters by an open window."""

        @functools.wraps(load)
        def loading(owner: Any, *args: Any, **kwargs: Any) -> Any:
            result = load(owner, *args, **kwargs)
            if self._since_step and os.getpid() == self._pid:
                self._window_begins()
            return result

        return loading

    def _window_begins(self) -> None:
        try:
            self._versions = self.versions()
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's step
            self._failed("gradients", error)

    def _drop_if_cleared(self) -> None:
        """Drop the open window if its gradients were cleared by assignment, or in place."""
        if os.getpid() != self._pid or self._is_stepping:
            return
        try:
            is_cleared = self.gradient_mark() != self._mark
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's call
            self._failed("gradients", error)
            return
        if is_cleared:
            self._drop_if_empty()

    def _drop_if_empty(self) -> None:
        try:
            # Sharpness-aware training moves the parameters by gradients that it then throws away.
            # Optimizers that were made since are no sign of that.
            versions = self.versions()[: len(self._versions)]
            if versions == self._versions and not self.has_gradients():
                self._forget()
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's call
            self._failed("gradients", error)

    def install_libraries(self) -> None:
        """Watch boosting rounds and Keras's batches from now on, of libraries imported by now."""
        watch_rounds(self._begins, self._stepped)
        watch_batches(self._begins, self._stepped)

    def saved(self) -> None:
        """Look at what is accumulated so far, before more is: the job has saved a file."""
        if self._since_step and os.getpid() == self._pid:
            self._may_wait = self._gradients_due is not None

    def open_losses(self) -> Losses:
        """Return the losses since the last step; waits for the accelerator."""
        return tuple(spell(loss.item()) for loss in self._since_step)

    @classmethod
    def forget_open_window(cls) -> None:
        """Drop losses and inputs since the last step, which a resumed process would not have."""
        if cls._installed is not None:
            cls._installed._forget()  # noqa: SLF001 - its own class

    @classmethod
    def settle(cls) -> None:
        """Read the losses and inputs that are still on an accelerator."""
        if cls._installed is not None:
            cls._installed.read_pending()

    def read_pending(self) -> None:
        """Read the pending losses and inputs, in the order of their steps."""
        pending, self._pending = self._pending, []
        for epoch, step, losses, given in pending:
            spelled = tuple(spell(loss.item()) for loss in losses)
            self._resolved(epoch, step, spelled, None if given is None else given.read())

    # -- inside ------------------------------------------------------------------------------

    def _forget(self) -> None:
        if self._since_step:
            self._may_wait = self._gradients_due is not None
        self._since_step.clear()
        self._has_looked = False
        self.drop_inputs()

    def _backward_begins(self) -> None:
        """Look at the gradients before this `backward()` adds to them."""
        if os.getpid() != self._pid or self._gradients_due is None:
            return
        look = self.drop_gradients if self._has_looked else self._gradients_due
        self._may_wait, self._has_looked = False, True
        try:
            look()
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's step
            self._failed("gradients", error)

    def _backward_called(self, tensor: Any) -> None:  # a torch.Tensor
        if os.getpid() == self._pid and tensor.numel() == 1:
            self.has_trained = True
            self._since_step.append(tensor.detach())
            try:
                self._mark = self.gradient_mark()
            except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's step
                self._failed("gradients", error)

    def _begins(self, optimizer: Any) -> None:  # see `kind_of`
        if os.getpid() != self._pid:
            return
        self._is_stepping = True  # L-BFGS calls its closure, which clears gradients, in its step
        try:
            # Libraries call `step()` to make an optimizer's state: that is no step of training.
            self._is_empty = not self._since_step and is_empty_step(optimizer)
            if self._step_begins is not None and not self._is_empty:
                self._step_begins(optimizer)
        except (InjectedError, ResumeMismatchError):
            raise  # such an error is meant for the user's step
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's step
            self._failed("step", error)

    def _stepped(self) -> None:
        if os.getpid() != self._pid:
            return  # a forked child, such as a data loader's, is not this rank
        self._is_stepping = False
        if self._is_empty:
            self._is_empty = False
            return
        self.has_trained = True
        try:
            self._record_step()
        except InjectedError:
            raise  # an injected error is meant for the user's step
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's step
            self._failed("step", error)

    def _record_step(self) -> None:
        # The step is recorded at once, with what can be read without a wait. What is on an
        # accelerator is read later and recorded as another event: a kill in between loses the
        # numbers of some steps, and not the steps.
        losses, self._since_step = tuple(self._since_step), []
        self._has_looked = False
        given = None if self._given is None else self._given()
        losses_late = any(loss.device.type != "cpu" for loss in losses)
        given_late = given is not None and given.is_late
        epoch, step = self._step_done(
            None if losses_late else tuple(spell(loss.item()) for loss in losses),
            None if given is None or given_late else given.read(),
        )
        if losses_late or given_late:
            self._pending.append((epoch, step, losses, given if given_late else None))
            if len(self._pending) >= PENDING_MAX:
                self.read_pending()


def _is_within_step(step_code: CodeType) -> bool:
    """Return whether the step whose hook this is was called by another one."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - as a debugger does
    steps = 0
    while frame is not None:
        steps += frame.f_code is step_code
        if steps > 1:
            return True
        frame = frame.f_back
    return False


def spell(value: float) -> float | str:
    """Return a number as JSON can hold it, to the last bit; "nan", "inf", "-inf" by name."""
    return value if math.isfinite(value) else str(value)
