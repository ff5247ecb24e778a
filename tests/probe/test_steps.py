"""Losses are those of the step they led to, and of no earlier epoch."""

import sys
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.state_dict import get_state_dict

from chaos.model.places import TrainingPlace
from chaos.probe.state.gradients import find_gradient_mark, find_gradients, is_empty_step
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
def _own_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put torch back afterwards."""
    optimizer = sys.modules["torch.optim.optimizer"]
    monkeypatch.setattr(torch.Tensor, "backward", torch.Tensor.backward)
    for owner in (torch.optim.Optimizer, torch.nn.Module):
        monkeypatch.setattr(owner, "zero_grad", owner.zero_grad)
    monkeypatch.setattr(torch.nn.Module, "load_state_dict", torch.nn.Module.load_state_dict)
    for hooks in ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks"):
        monkeypatch.setattr(optimizer, hooks, type(getattr(optimizer, hooks))())


def test_each_micro_batch_of_a_step_is_seen() -> None:
    job = Job()

    for factor in (1.0, 2.0):
        job.backward(factor)
    job.optimizer.step()

    assert job.steps == [(1.0, 2.0)]


def test_a_step_within_a_step_is_no_other_step() -> None:
    class Wrapped(torch.optim.SGD):  # type: ignore[misc] # torch is not typed here
        """An optimizer that leaves its step to one inside."""

        def __init__(self, parameters: Any, **settings: Any) -> None:
            super().__init__(parameters, **settings)
            self.inside = torch.optim.Adam(parameters, **settings)

        def step(self, closure: Any = None) -> None:
            del closure
            self.inside.step()

    job = Job(Wrapped)
    for factor in (1.0, 2.0):
        job.backward(factor)
        job.optimizer.step()
    job.optimizer.inside.step()  # beside it, that is a step of its own

    assert (job.steps, job.began) == ([(1.0,), (2.0,), ()], 3)


def test_a_window_left_open_at_a_report_does_not_reach_into_the_next_epoch() -> None:
    job = Job()
    job.backward(5.0)

    job.hook.forget_window()
    job.backward(2.0)
    job.optimizer.step()

    assert job.steps == [(2.0,)]


@pytest.mark.parametrize(("thrown_away", "waited"), [(False, [0, 1]), (True, [0, 0])])
def test_gradients_are_looked_for_once_after_a_report_within_a_window(
    thrown_away: bool, waited: list[int]
) -> None:
    job = Job()
    job.backward(5.0)

    job.hook.forget_window()
    if thrown_away:
        job.optimizer.zero_grad()
    for _ in range(2):
        job.backward(2.0)

    assert job.waited == waited


def test_gradients_are_looked_for_after_a_save_within_a_window() -> None:
    job = Job()
    job.backward(5.0)
    job.optimizer.step()
    job.optimizer.zero_grad()
    job.hook.note_save()  # no gradient is pending: of the next window nothing is saved
    job.backward(2.0)
    job.hook.note_save()
    job.backward(2.0)

    assert (job.waited, job.dropped) == ([0, 1], [])


def test_gradients_of_two_saves_within_a_window_are_those_of_neither() -> None:
    job = Job()
    job.backward(5.0)
    job.optimizer.step()
    job.optimizer.zero_grad()
    for _ in range(3):
        job.backward(2.0)
        job.hook.note_save()

    assert (job.waited, job.dropped) == ([0, 1], [2])


def test_gradients_that_a_step_left_behind_wait_for_nothing() -> None:
    job = Job()
    job.backward(5.0)
    job.optimizer.step()

    job.hook.forget_window()
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
    job.watch_gradients()

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
    job.watch_gradients()

    job.backward(0.5)
    with torch.no_grad():
        job.weight.add_(0.1)
    job.optimizer.zero_grad()
    job.backward(2.0)
    job.optimizer.step()

    assert job.steps == [(0.5, 2.0)]


def assign_none(weight: Any) -> None:
    weight.grad = None


def assign_zeros(weight: Any) -> None:
    weight.grad = torch.zeros_like(weight)


def zero_in_place(weight: Any) -> None:
    weight.grad.zero_()


CLEARED = pytest.mark.parametrize("clear", [assign_none, assign_zeros, zero_in_place])


@CLEARED
def test_gradients_that_are_cleared_by_hand_are_no_part_of_a_step(clear: Any) -> None:
    job = Job()
    job.watch_gradients()

    job.backward(0.5)
    clear(job.weight)  # a trial, before training begins
    for step in (1.0, 2.0):
        for factor in (step, step + 0.5):
            job.backward(factor)
        job.optimizer.step()
        clear(job.weight)

    assert job.steps == [(1.0, 1.5), (2.0, 2.5)]
    assert job.waited == [0, 0]


@CLEARED
def test_a_sharpness_aware_step_that_clears_by_hand_has_both_passes(clear: Any) -> None:
    job = Job()
    job.watch_gradients()

    for _ in range(2):
        job.backward(0.5)
        with torch.no_grad():
            job.weight.add_(0.1)
        clear(job.weight)
        job.backward(2.0)
        job.optimizer.step()
        clear(job.weight)

    assert job.steps == [(0.5, 2.0), (0.5, 2.0)]


def test_gradients_that_are_changed_between_micro_batches_are_not_cleared() -> None:
    job = Job()
    job.watch_gradients()

    job.backward(1.0)
    job.weight.grad.mul_(0.5)
    job.backward(2.0)
    job.optimizer.step()

    assert job.steps == [(1.0, 2.0)]


@CLEARED
def test_weights_that_are_loaded_after_a_trial_are_not_moved_by_it(clear: Any) -> None:
    job = Job()
    job.watch_gradients()
    model = torch.nn.Module()
    model.weight = job.weight

    job.backward(0.5)
    clear(job.weight)
    model.load_state_dict({"weight": torch.ones(1)})
    job.backward(2.0)
    job.optimizer.step()

    assert job.steps == [(2.0,)]


@pytest.mark.parametrize("clear", [assign_none, zero_in_place, None])
def test_a_trial_may_come_before_there_is_an_optimizer(clear: Any) -> None:
    job = Job()
    found: list[Any] = []
    job.listener.answer(list_optimizers=lambda: found)

    job.backward(0.5)
    if clear is not None:
        clear(job.weight)
    found.append(job.optimizer)
    job.backward(2.0)
    job.optimizer.step()

    assert job.steps == [(0.5, 2.0) if clear is None else (2.0,)]


def test_a_closure_that_clears_by_hand_is_one_step() -> None:
    job = Job(torch.optim.LBFGS, max_iter=3, line_search_fn=None)
    job.watch_gradients()

    def closure() -> Any:
        job.weight.grad = None
        loss = (job.weight - 3.0).square().sum()
        loss.backward()
        return loss

    job.optimizer.step(closure)

    [losses] = job.steps
    assert len(losses) == 3


def test_inputs_are_dropped_with_the_losses() -> None:
    job = Job()
    job.watch_gradients()
    dropped: list[int] = []
    job.listener.answer(window_dropped=lambda: dropped.append(len(job.steps)))

    job.backward(0.5)
    job.weight.grad = None
    job.backward(2.0)
    job.optimizer.step()

    assert dropped == [0]


def test_a_mark_differs_once_gradients_were_cleared_or_changed() -> None:
    first, second = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    optimizer = torch.optim.SGD([first, second], lr=0.1)
    assert find_gradient_mark([]) == ()
    assert find_gradient_mark([optimizer]) is None

    second.sum().backward()
    left = find_gradient_mark([optimizer])
    assert left == find_gradient_mark([optimizer])

    second.grad.zero_()
    assert find_gradient_mark([optimizer]) != left
    second.grad = None
    assert find_gradient_mark([optimizer]) is None
