"""Gradients that wait at a save, that are cleared, and that no step used."""

from typing import Any

import pytest
import torch

from chaos.probe.state.gradients import find_gradient_mark, is_empty_step
from tests.probe.stepping import Job
from tests.probe.stepping import restored_torch as restored_torch  # noqa: PLC0414 - a fixture


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
