"""One number of one tensor is changed, as ordered, and nothing else."""

from typing import Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from chaos.faults.order import Corrupt
from chaos.probe.corruption import corrupt

How = Literal["bit", "sign", "nan"]
KINDS: tuple[torch.dtype, ...] = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def stepped(dtype: torch.dtype = torch.float32, momentum: float = 0.9) -> torch.optim.Optimizer:
    weight = torch.nn.Parameter(torch.tensor([[0.5, -3.0], [1.0, 2.0]], dtype=dtype))
    optimizer = torch.optim.SGD([weight], lr=0.25, momentum=momentum)
    weight.grad = torch.ones_like(weight)
    optimizer.step()
    return optimizer


def weight_of(optimizer: torch.optim.Optimizer) -> torch.Tensor:
    found: torch.Tensor = optimizer.param_groups[0]["params"][0]
    return found


@pytest.mark.parametrize("dtype", KINDS, ids=str)
@pytest.mark.parametrize("how", ["bit", "sign", "nan"])
def test_the_largest_number_alone_is_changed(how: How, dtype: torch.dtype) -> None:
    optimizer = stepped(dtype)
    before = weight_of(optimizer).detach().clone()

    assert corrupt(optimizer, Corrupt("weight", how, None, is_lasting=False))

    after = weight_of(optimizer).detach()
    changed = (after != before) | after.isnan()
    assert changed.tolist() == [[False, True], [False, False]]


@given(bit=st.integers(0, 31))
def test_a_bit_that_is_flipped_twice_is_as_before(bit: int) -> None:
    number = torch.nn.Parameter(torch.tensor([1.5]))
    optimizer, order = torch.optim.SGD([number]), Corrupt("weight", "bit", bit, is_lasting=False)

    corrupt(optimizer, order)
    assert number.detach().view(torch.int32).item() != torch.tensor([1.5]).view(torch.int32).item()
    corrupt(optimizer, order)
    assert number.item() == 1.5


def test_the_highest_bit_is_the_sign() -> None:
    optimizer = stepped()
    before = weight_of(optimizer)[0, 1].item()

    corrupt(optimizer, Corrupt("weight", "bit", 63, is_lasting=False))

    assert weight_of(optimizer)[0, 1].item() == -before


def test_gradients_and_the_optimizers_state_are_found() -> None:
    optimizer = stepped()
    weight = weight_of(optimizer)

    assert corrupt(optimizer, Corrupt("gradient", "nan", None, is_lasting=False))
    assert corrupt(optimizer, Corrupt("optimizer", "nan", None, is_lasting=False))

    assert weight.grad is not None
    assert weight.grad.isnan().sum() == 1
    assert optimizer.state[weight]["momentum_buffer"].isnan().sum() == 1
    assert not weight.isnan().any()


@pytest.mark.parametrize("how", ["sign", "nan"])
def test_a_number_that_stays_what_it_was_is_no_corruption(how: How) -> None:
    value = 0.0 if how == "sign" else float("nan")
    weights = [torch.nn.Parameter(torch.full((2,), number)) for number in (value, 3.0)]
    order = Corrupt("weight", how, None, is_lasting=False)

    assert not corrupt(torch.optim.SGD(weights[:1]), order)
    assert corrupt(torch.optim.SGD(weights), order)
    assert weights[1][0].item() != 3.0


def test_an_optimizer_without_state_has_none_to_corrupt() -> None:
    assert not corrupt(stepped(momentum=0), Corrupt("optimizer", "sign", None, is_lasting=False))
    assert not corrupt(object(), Corrupt("weight", "sign", None, is_lasting=False))
