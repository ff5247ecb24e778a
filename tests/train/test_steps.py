"""Losses are those of the step they led to, and of no earlier epoch."""

from typing import Any

import pytest
import torch

from chaos.backends.train.steps import StepHook


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Install the hook on a torch that is put back afterwards; gives the losses of each step."""
    monkeypatch.setattr(torch.Tensor, "backward", torch.Tensor.backward)
    monkeypatch.setattr(StepHook, "_installed", None)
    steps: list[Any] = []

    def step_done(losses: Any, _: Any) -> tuple[int, int]:
        steps.append(losses)
        return 0, len(steps)

    def failed(where: str, error: Exception) -> None:
        raise AssertionError(where) from error

    StepHook(step_done, lambda *_: None, failed).install()
    return steps


def test_each_micro_batch_of_a_step_is_seen(seen: list[Any]) -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.0)

    for factor in (1.0, 2.0):
        (weight * factor).sum().backward()
    optimizer.step()

    assert seen[-1] == (1.0, 2.0)


def test_a_window_left_open_at_a_report_does_not_reach_into_the_next_epoch(
    seen: list[Any],
) -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    (weight * 5.0).sum().backward()

    StepHook.forget_open_window()
    (weight * 2.0).sum().backward()
    optimizer.step()

    assert seen[-1] == (2.0,)


def test_a_loss_that_is_not_a_number_is_named(seen: list[Any]) -> None:
    weight = torch.nn.Parameter(torch.tensor([float("nan")]))
    optimizer = torch.optim.SGD([weight], lr=0.0)

    weight.sum().backward()
    optimizer.step()

    assert seen[-1] == ("nan",)
