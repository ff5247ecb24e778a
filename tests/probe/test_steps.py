"""Losses are those of the step they led to, and of no earlier epoch."""

import sys
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.state_dict import get_state_dict

from chaos.model.places import Place
from chaos.probe.state.gradients import is_empty_step, waiting
from chaos.probe.steps import StepHook


class Job:
    """One weight and its optimizer, watched: the losses of each step."""

    def __init__(self, kind: Any = torch.optim.SGD, **settings: Any) -> None:
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.optimizer = kind([self.weight], **{"lr": 0.1, **settings})
        self.steps: list[Any] = []
        self.began = 0
        self.waited: list[int] = []
        self.hook = StepHook(
            self._step_done,
            lambda *_: None,
            self._failed,
            step_begins=self._begins,
            gradients_due=self._gradients_due,
        )
        self.hook.install()

    def backward(self, factor: float) -> None:
        (self.weight.sum() * 0.0 + factor * (self.weight / self.weight.detach()).sum()).backward()

    def _begins(self, _: Any) -> None:
        self.began += 1

    def _gradients_due(self) -> None:
        self.waited.append(len(list(waiting([self.optimizer]))))

    def _step_done(self, losses: Any, _: Any) -> Place:
        self.steps.append(losses)
        return Place(0, len(self.steps))

    def _failed(self, where: str, error: Exception) -> None:
        raise AssertionError(where) from error


@pytest.fixture(autouse=True)
def _own_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put torch back afterwards."""
    optimizer = sys.modules["torch.optim.optimizer"]
    monkeypatch.setattr(torch.Tensor, "backward", torch.Tensor.backward)
    monkeypatch.setattr(StepHook, "_installed", None)
    for owner in (torch.optim.Optimizer, torch.nn.Module):
        monkeypatch.setattr(owner, "zero_grad", owner.zero_grad)
    for hooks in ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks"):
        monkeypatch.setattr(optimizer, hooks, type(getattr(optimizer, hooks))())


def test_each_micro_batch_of_a_step_is_seen() -> None:
    job = Job()

    for factor in (1.0, 2.0):
        job.backward(factor)
    job.optimizer.step()

    assert job.steps == [(1.0, 2.0)]


def test_a_window_left_open_at_a_report_does_not_reach_into_the_next_epoch() -> None:
    job = Job()
    job.backward(5.0)

    StepHook.forget_open_window()
    job.backward(2.0)
    job.optimizer.step()

    assert job.steps == [(2.0,)]


@pytest.mark.parametrize(("thrown_away", "waited"), [(False, [0, 1]), (True, [0, 0])])
def test_gradients_are_looked_for_once_after_a_report_within_a_window(
    thrown_away: bool, waited: list[int]
) -> None:
    job = Job()
    job.backward(5.0)

    StepHook.forget_open_window()
    if thrown_away:
        job.optimizer.zero_grad()
    for _ in range(2):
        job.backward(2.0)

    assert job.waited == waited


def test_gradients_that_a_step_left_behind_wait_for_nothing() -> None:
    job = Job()
    job.backward(5.0)
    job.optimizer.step()

    StepHook.forget_open_window()
    job.backward(2.0)

    assert job.waited == [0]


def test_a_loss_that_is_not_a_number_is_named() -> None:
    job = Job()

    job.backward(float("nan"))
    job.optimizer.step()

    assert job.steps == [("nan",)]


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_a_step_by_which_torch_makes_an_optimizers_state_is_none_of_training(kind: Any) -> None:
    job = Job(kind)
    model = torch.nn.Module()
    model.weight = job.weight

    get_state_dict(model, job.optimizer)
    assert (job.steps, job.began, job.hook.has_trained) == ([], 0, False)

    job.backward(1.0)
    job.optimizer.step()
    job.optimizer.zero_grad()
    get_state_dict(model, job.optimizer)
    assert (job.steps, job.began) == ([(1.0,)], 1)


def test_a_first_step_of_a_warm_up_is_one_of_training() -> None:
    job = Job(lr=0.0)

    job.backward(1.0)
    job.optimizer.step()
    (job.weight.grad,) = torch.autograd.grad(job.weight.sum(), [job.weight])
    job.optimizer.step()

    assert job.steps == [(1.0,), ()]


def test_an_empty_step_has_neither_rate_nor_gradient() -> None:
    weight = torch.nn.Parameter(torch.ones(1))

    def empty(**settings: Any) -> bool:
        return is_empty_step(torch.optim.SGD([weight], **settings))

    assert empty(lr=0.0)
    assert empty(lr=torch.tensor(0.0))
    assert not empty(lr=0.1)
    weight.grad = torch.zeros(1)
    assert empty(lr=0.0)
    weight.grad += 1
    assert not empty(lr=0.0)
    assert not is_empty_step(object())


def test_a_backward_whose_gradients_are_thrown_away_is_no_part_of_a_step() -> None:
    job = Job()
    job.hook.has_gradients = lambda: any(waiting([job.optimizer]))

    job.backward(0.5)
    job.optimizer.zero_grad()  # a trial, before training begins
    for factor in (1.0, 2.0):
        job.backward(factor)
    job.optimizer.step()
    job.optimizer.zero_grad()

    assert job.steps == [(1.0, 2.0)]
    assert job.waited == [0, 0]


def test_gradients_that_moved_the_parameters_before_they_are_cleared_are_part_of_the_step() -> None:
    job = Job()
    job.hook.has_gradients = lambda: any(waiting([job.optimizer]))
    job.hook.versions = lambda: (job.weight._version,)

    job.backward(0.5)
    with torch.no_grad():
        job.weight.add_(0.1)
    job.optimizer.zero_grad()
    job.backward(2.0)
    job.optimizer.step()

    assert job.steps == [(0.5, 2.0)]
