"""Equal values have equal bytes, whatever a file made of them on the way; others do not."""

import math
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from chaos.probe.state.canonical import Encoding, begin_norm, encode_value

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@dataclass
class Held:
    step: int


class Sampler:
    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch}


@given(plain, plain)
def test_two_values_have_the_same_bytes_only_if_they_look_the_same(one: Any, other: Any) -> None:
    assert (encode_value(one) == encode_value(other)) == (shown(one) == shown(other))


def shown(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{','.join(sorted(f'{k!r}:{shown(v)}' for k, v in value.items()))}}}"
    if isinstance(value, list):
        return f"[{','.join(map(shown, value))}]"
    return repr(value)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ([1, 2], (1, 2)),
        (np.float64(0.1), 0.1),
        (np.int64(3), 3),
        ({3, 1, 2}, {1, 2, 3}),
        (Sampler(1), Sampler(1)),
        (Held(1), Held(1)),
        (random.Random(1), random.Random(1)),
        (np.random.default_rng(1), np.random.default_rng(1)),
        (torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)),
        (float("nan"), math.nan),
    ],
)
def test_what_is_the_same_is_the_same(one: Any, other: Any) -> None:
    assert encode_value(one) == encode_value(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.0, -0.0),
        (1, 1.0),
        (1, True),
        ("1", 1),
        (["ab"], ["a", "b"]),
        (Sampler(1), Sampler(2)),
        (Held(1), Held(2)),
        (random.Random(1), random.Random(2)),
        (np.random.default_rng(1), np.random.default_rng(2)),
        (np.zeros(2), np.zeros(3)),
        (np.array([0.0]), np.array([-0.0])),
        (torch.zeros(1), [0.0]),
    ],
)
def test_what_differs_differs(one: Any, other: Any) -> None:
    assert encode_value(one) != encode_value(other)


def test_an_object_without_a_state_is_the_same_wherever_it_lies() -> None:
    assert encode_value([object()]) == encode_value([object()])


def test_a_value_that_contains_itself_comes_to_an_end() -> None:
    endless: list[Any] = []
    endless.append(endless)

    assert encode_value(endless).endswith(b"...")


def test_a_norm_is_that_of_all_tensors_together() -> None:
    tensors = [torch.tensor([3.0]), torch.tensor([[4.0]]), torch.tensor([7])]

    assert begin_norm(tensors)() == 5.0
    assert begin_norm([torch.tensor([1])])() is None


def test_a_sparse_or_conjugate_tensor_is_read_too() -> None:
    dense = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    numbers = torch.tensor([1 + 2j])
    encoding = Encoding()
    encoding.add(dense.to_sparse())

    assert encoding.digest()
    assert encode_value(numbers.conj()) == encode_value(numbers.conj().resolve_conj())


def test_a_tensor_without_numbers_is_told_by_its_type_and_shape() -> None:
    one, same = torch.empty(3, device="meta"), torch.empty(3, device="meta")

    assert encode_value(one) == encode_value(same) != encode_value(torch.empty(4, device="meta"))
    assert begin_norm(Encoding().tensors)() is None


def test_the_storage_of_a_tensor_is_read_as_its_bytes() -> None:
    one, same, other = torch.ones(3), torch.ones(3), torch.zeros(3)

    assert encode_value(one.untyped_storage()) == encode_value(same.untyped_storage())
    assert encode_value(one.untyped_storage()) != encode_value(other.untyped_storage())
    assert encode_value(torch.ones(1 << 20).untyped_storage())  # at once: byte by byte it takes 2 s
