"""Losses are those of the step they led to, and of no earlier epoch."""

from typing import Any

import pytest
import torch
from torch.distributed.checkpoint.state_dict import get_state_dict

from tests.probe.stepping import Job
from tests.probe.stepping import restored_torch as restored_torch  # noqa: PLC0414 - a fixture


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
