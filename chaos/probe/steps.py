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
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any

from chaos.errors import InjectedError, ResumeMismatchError
from chaos.probe.libraries import watch_batches, watch_rounds
from chaos.probe.state.gradients import (
    find_gradient_mark,
    find_gradients,
    find_versions,
    is_empty_step,
)
from chaos.probe.state.inputs import StepInputs
from chaos.probe.training_listener import Losses, TrainingListener, TrainingQuestions

# Steps whose losses may wait on an accelerator for a report.
PENDING_MAX = 512


class StepHook:
    """The hooks in torch, installed once per worker process."""

    def __init__(
        self,
        listener: TrainingListener,
        questions: TrainingQuestions,
        report_failure: Callable[[str, Exception], None],
    ) -> None:
        self._listener, self._questions = listener, questions
        self._report_failure = report_failure
        self._versions: tuple[int, ...] = ()
        self._gradient_mark: tuple[int, ...] | None = ()
        self._can_have_gradients = True  # and the listener has not looked at them
        self._has_seen_gradients = False  # at the gradients of the open window
        self._is_empty_step = self._is_stepping = False
        self.has_trained = False
        self._open_losses: list[Any] = []
        self._pending_steps: list[tuple[int, int, tuple[Any, ...], StepInputs | None]] = []
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
            self._prepare_window()
            result = original(tensor, *args, **kwargs)
            self._record_loss(tensor)
            return result

        torch.Tensor.backward = backward
        # A window lies between two steps. What a trial before training leaves in it, such as a
        # backward pass whose gradients are thrown away, would be taken for a micro-batch of the
        # step that follows, in each attempt anew.
        for owner in (torch.optim.Optimizer, torch.nn.Module):
            owner.zero_grad = self._wrap_zero_grad(owner.zero_grad)
        torch.nn.Module.load_state_dict = self._wrap_load(torch.nn.Module.load_state_dict)
        self._watch_steps()

    def _watch_steps(self) -> None:
        from torch.optim import Optimizer, optimizer

        # Every `step()` runs within this code, that of an optimizer within another's as well (torch
        # 2.13): ZeRO and SAM have one inside.
        step_code = Optimizer.profile_hook_step(lambda: None).__code__

        def begin_step(optimizer: Any, *_: Any) -> None:
            if not _is_within_step(step_code):
                self._begin_step(optimizer)

        def end_step(*_: Any) -> None:
            if not _is_within_step(step_code):
                self._end_step()

        optimizer.register_optimizer_step_pre_hook(begin_step)
        optimizer.register_optimizer_step_post_hook(end_step)

    def _wrap_zero_grad(self, zero_grad: Callable[..., None]) -> Callable[..., None]:
        """Return a `zero_grad` that drops an open window if no gradient of it is left.

        A job may try its model before it trains, at each start; no step has part of that.
        """

        @functools.wraps(zero_grad)
        def clear_gradients(owner: Any, *args: Any, **kwargs: Any) -> None:
            zero_grad(owner, *args, **kwargs)
            if sys.modules["torch"].compiler.is_compiling():
                return  # nothing of chaos becomes a part of a compiled step
            if self._open_losses and os.getpid() == self._pid and not self._is_stepping:
                self._drop_if_empty()

        return clear_gradients

    def _wrap_load(self, load: Callable[..., Any]) -> Callable[..., Any]:
        """Return a `load_state_dict` that is no move of the parameters by an open window."""

        @functools.wraps(load)
        def load_state(owner: Any, *args: Any, **kwargs: Any) -> Any:
            result = load(owner, *args, **kwargs)
            if os.getpid() == self._pid:
                if self._open_losses:
                    self._versions = self._find_versions()
                self._listener.state_loaded()
            return result

        return load_state

    def _prepare_window(self) -> None:
        """Look at the gradients before a `backward()` adds to them.

        The open window is dropped if they were cleared by assignment, or in place.
        """
        if os.getpid() != self._pid:
            return
        try:
            if self._open_losses and not self._is_stepping:
                optimizers = self._questions.list_optimizers() or ()
                if find_gradient_mark(optimizers) != self._gradient_mark:
                    self._drop_if_empty()
            if self._can_have_gradients:
                is_second = self._has_seen_gradients
                self._can_have_gradients, self._has_seen_gradients = False, True
                self._listener.gradients_ready(is_second=is_second)
            if not self._open_losses:
                self._versions = self._find_versions()
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's step
            self._report_failure("gradients", error)

    def _find_versions(self) -> tuple[int, ...]:
        return find_versions(self._questions.list_optimizers() or ())

    def _drop_if_empty(self) -> None:
        try:
            # Sharpness-aware training moves the parameters by gradients that it then throws away.
            # Optimizers that were made since are no sign of that.
            optimizers = self._questions.list_optimizers()
            has_moved = self._find_versions()[: len(self._versions)] != self._versions
            if optimizers is not None and not has_moved and not any(find_gradients(optimizers)):
                self.forget_window()
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's call
            self._report_failure("gradients", error)

    def install_libraries(self) -> None:
        """Watch boosting rounds and Keras's batches from now on, of libraries imported by now."""
        watch_rounds(self._begin_step, self._end_step)
        watch_batches(self._begin_step, self._end_step)

    def note_save(self) -> None:
        """Look at what is accumulated so far, before more is: the job has saved a file."""
        if self._open_losses and os.getpid() == self._pid:
            self._can_have_gradients = True

    def list_open_losses(self) -> Losses:
        """Return the losses since the last step; waits for the accelerator."""
        return _encode_losses(self._open_losses)

    def forget_window(self) -> None:
        """Drop losses and inputs since the last step, which a resumed process would not have."""
        if self._open_losses:
            self._can_have_gradients = True
        self._open_losses.clear()
        self._has_seen_gradients = False
        self._listener.window_dropped()

    def resolve_pending(self) -> None:
        """Read the pending losses and inputs, in the order of their steps."""
        pending, self._pending_steps = self._pending_steps, []
        for epoch, step, losses, unread_inputs in pending:
            inputs = None if unread_inputs is None else unread_inputs.load_inputs()
            self._listener.losses_resolved(epoch, step, _encode_losses(losses), inputs)

    # -- inside ------------------------------------------------------------------------------

    def _record_loss(self, tensor: Any) -> None:  # a torch.Tensor
        if os.getpid() == self._pid and tensor.numel() == 1:
            self.has_trained = True
            self._open_losses.append(tensor.detach())
            try:
                self._gradient_mark = find_gradient_mark(self._questions.list_optimizers() or ())
            except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's step
                self._report_failure("gradients", error)

    def _begin_step(self, optimizer: Any) -> None:  # see `find_kind`
        if os.getpid() != self._pid:
            return
        self._is_stepping = True  # L-BFGS calls its closure, which clears gradients, in its step
        try:
            # Libraries call `step()` to make an optimizer's state: that is no step of training.
            self._is_empty_step = not self._open_losses and is_empty_step(optimizer)
            if not self._is_empty_step:
                self._listener.step_begins(optimizer)
        except (InjectedError, ResumeMismatchError):
            raise  # such an error is meant for the user's step
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's step
            self._report_failure("step", error)

    def _end_step(self) -> None:
        if os.getpid() != self._pid:
            return  # a forked child, such as a data loader's, is not this rank
        self._is_stepping = False
        if self._is_empty_step:
            self._is_empty_step = False
            return
        self.has_trained = True
        try:
            self._record_step()
        except InjectedError:
            raise  # an injected error is meant for the user's step
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's step
            self._report_failure("step", error)

    def _record_step(self) -> None:
        # The step is recorded at once, with what can be read without a wait. What is on an
        # accelerator is read later and recorded as another event: a kill in between loses the
        # numbers of some steps, and not the steps.
        losses, self._open_losses = tuple(self._open_losses), []
        self._has_seen_gradients = False
        unread_inputs = self._questions.close_inputs()
        has_late_losses = any(loss.device.type != "cpu" for loss in losses)
        has_late_inputs = unread_inputs is not None and unread_inputs.is_on_accelerator
        epoch, step = self._listener.step_done(
            None if has_late_losses else _encode_losses(losses),
            None if unread_inputs is None or has_late_inputs else unread_inputs.load_inputs(),
        )
        if has_late_losses or has_late_inputs:
            self._pending_steps.append(
                (epoch, step, losses, unread_inputs if has_late_inputs else None)
            )
            if len(self._pending_steps) >= PENDING_MAX:
                self.resolve_pending()


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


def _encode_losses(losses: Iterable[Any]) -> Losses:
    return tuple(encode_number(loss.item()) for loss in losses)


def encode_number(value: float) -> float | str:
    """Return a number as JSON can hold it, to the last bit; "nan", "inf", "-inf" by name."""
    return value if math.isfinite(value) else str(value)
