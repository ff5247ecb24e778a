"""Sums of bytes show every change, and are the same on the host and on a device."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from chaos.probe.state.canonical import Encoding
from chaos.probe.state.fingerprint import (
    BLOCK,
    host_bytes,
    split_words,
    sum_blocks,
    sum_device_blocks,
    sum_device_rows,
    sum_rows,
)

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool]


def on_host(tensor: torch.Tensor) -> list[int]:
    return [int(n) for n in sum_blocks(split_words(host_bytes(tensor)))]


def on_device(tensor: torch.Tensor) -> list[int]:
    return [int(n) for n in sum_device_blocks(tensor).numpy().view(np.uint64)]


def digest(value: Any) -> str:
    encoding = Encoding()
    encoding.add(value)
    return encoding.digest()


@given(st.lists(st.integers(0, 255), max_size=40), st.sampled_from(DTYPES))
def test_host_and_device_agree_to_the_last_bit(numbers: list[int], dtype: torch.dtype) -> None:
    tensor = torch.tensor(numbers).to(dtype)

    assert on_host(tensor) == on_device(tensor)


def test_they_agree_over_several_blocks_and_on_a_view_that_begins_between_words() -> None:
    tensor = torch.randn(2 * BLOCK + 17, generator=torch.Generator().manual_seed(0))

    assert on_host(tensor) == on_device(tensor)
    assert on_host(tensor.half()[1:]) == on_device(tensor.half()[1:])
    assert len(on_host(tensor)) == 3


@given(st.integers(2, 30), st.sampled_from([torch.float32, torch.bfloat16, torch.uint8]))
def test_rows_agree_as_well(width: int, dtype: torch.dtype) -> None:
    rows = (torch.arange(4 * width).reshape(4, width) % 251).to(dtype)

    device = sum_device_rows(rows).numpy().view(np.uint64)
    assert sum_rows(rows).tolist() == device.tolist()


@pytest.mark.parametrize("size", [8, 5000])  # hashed as it is, and summed
def test_what_is_swapped_or_changes_its_sign_shows(size: int) -> None:
    zeros = torch.zeros(size)
    other, moved = zeros.clone(), zeros.clone()
    other[1], moved[2] = -0.0, -0.0

    assert len({digest(t) for t in (zeros, other, moved)}) == 3
    assert on_device(other) != on_device(moved)
    pair = torch.arange(float(size))
    swapped = pair.clone()
    swapped[[1, 2]] = pair[[2, 1]]
    assert digest(pair) != digest(swapped)
    assert on_device(pair) != on_device(swapped)


def test_type_and_shape_are_part_of_a_digest() -> None:
    zeros = torch.zeros(2, 3)

    others = [zeros.T.contiguous(), zeros.int(), zeros.reshape(6)]
    assert digest(zeros) not in {digest(other) for other in others}


def test_how_a_tensor_lies_in_memory_is_not() -> None:
    tensor = torch.arange(12.0).reshape(3, 4)

    assert digest(tensor.T) == digest(tensor.T.contiguous())
    assert digest(tensor.clone().requires_grad_()) == digest(tensor)


def test_rows_whose_columns_are_permuted_do_not_collide() -> None:
    rows = torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [2.0, 1.0, 3.0]])

    assert len(set(sum_rows(rows).tolist())) == 3


def test_a_batch_of_nothing_has_no_rows() -> None:
    assert sum_rows(torch.zeros(0, 3)).tolist() == []
    assert sum_rows(torch.zeros(2, 0)).tolist() == [0, 0]
