"""A model and an optimizer whose steps are followed."""

import sys
from typing import Any

import pytest
import torch

from chaos.model.places import TrainingPlace
from chaos.probe.state.gradients import find_gradients
from chaos.probe.steps import StepHook
from tests.probe.scripted import Scripted


class Job:
    """One weight and its optimizer, watched: the losses of each step."""

    def __init__(self, kind: Any = torch.optim.SGD, **settings: Any) -> None:
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.optimizer = kind([self.weight], **{"lr": 0.1, **settings})
        self.steps: list[Any] = []
        self.began = 0
        self.waited: list[int] = []
        self.dropped: list[int] = []
        self.listener = Scripted(
            step_begins=self._begins,
            step_done=self._step_done,
            gradients_ready=self._gradients_due,
        )
        self.hook = StepHook(self.listener, self.listener, self._failed)
        self.hook.install()

    def watch_gradients(self) -> None:
        """Look for cleared gradients, as the watchers do."""
        self.listener.answer(list_optimizers=lambda: [self.optimizer])

    def backward(self, factor: float) -> None:
        (self.weight.sum() * 0.0 + factor * (self.weight / self.weight.detach()).sum()).backward()

    def _begins(self, _: Any) -> None:
        self.began += 1

    def _gradients_due(self, *, is_second: bool) -> None:
        if is_second:
            self.dropped.append(len(self.waited))
        else:
            self.waited.append(len(list(find_gradients([self.optimizer]))))

    def _step_done(self, losses: Any, _: Any) -> TrainingPlace:
        self.steps.append(losses)
        return TrainingPlace(0, len(self.steps))

    def _failed(self, where: str, error: Exception) -> None:
        raise AssertionError(where) from error


@pytest.fixture(autouse=True)
def restored_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put torch back afterwards."""
    optimizer = sys.modules["torch.optim.optimizer"]
    monkeypatch.setattr(torch.Tensor, "backward", torch.Tensor.backward)
    for owner in (torch.optim.Optimizer, torch.nn.Module):
        monkeypatch.setattr(owner, "zero_grad", owner.zero_grad)
    monkeypatch.setattr(torch.nn.Module, "load_state_dict", torch.nn.Module.load_state_dict)
    for hooks in ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks"):
        monkeypatch.setattr(optimizer, hooks, type(getattr(optimizer, hooks))())
