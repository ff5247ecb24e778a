"""What a job saves, entry by entry."""

import random
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch

from chaos.model.event import SavedPart
from chaos.probe.state.content import BYTES_MAX, PARTS_MAX, count_elements, list_parts
from chaos.probe.state.part import UnreadComponent


def named(saved: Any) -> dict[str, SavedPart]:
    return {part.name: part for part in list_parts(saved)}


def test_a_modules_state_is_one_part_and_an_optimizers_has_two() -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    found = named({"model": model.state_dict(), "opt": optimizer.state_dict(), "epoch": 3})

    assert set(found) == {"model", "epoch", "opt.state", "opt.param_groups"}
    assert found["model"].size == pytest.approx(
        torch.cat([p.flatten() for p in model.parameters()]).norm().item()
    )
    assert (found["epoch"].kind, found["epoch"].size) == ("counts", 3.0)
    assert (found["model"].first, found["epoch"].first) == ("weight", "")


def test_a_saved_module_has_the_digest_of_its_parameters_and_of_what_they_are_widened_to() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    due = (
        UnreadComponent.from_tensors("model", list(model.parameters()), with_size=True)
        .build_component()
        .digest
    )
    small = {name: tensor.to(torch.bfloat16) for name, tensor in model.state_dict().items()}
    saved = named({"own": model.state_dict(), "small": small, "list": [torch.ones(2)]})

    model.load_state_dict(small)
    after = (
        UnreadComponent.from_tensors("model", list(model.parameters()), with_size=True)
        .build_component()
        .digest
    )

    assert (saved["own"].tensors, saved["own"].dtype, saved["own"].widened) == (due, "float32", "")
    assert (saved["small"].dtype, saved["small"].widened) == ("bfloat16", after)
    assert saved["list"].tensors == ""


def test_a_file_that_is_a_modules_state_has_its_digest_at_the_first_entry() -> None:
    model = torch.nn.Linear(2, 3)
    due = (
        UnreadComponent.from_tensors("model", list(model.parameters()), with_size=True)
        .build_component()
        .digest
    )

    found = named(model.state_dict())

    assert [part.tensors for part in found.values()] == [due, ""]


def test_a_tensor_with_two_names_is_saved_once() -> None:
    weight = torch.ones(3, 2)
    due = UnreadComponent.from_tensors("model", [weight], with_size=True).build_component().digest

    assert named({"tied": {"a": weight, "b": weight}})["tied"].tensors == due


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (0.5, "numbers"),
        (np.float32(0.5), "numbers"),
        (np.ones(3), "numbers"),
        ([1, 0.5], "numbers"),
        (torch.ones(2), "numbers"),
        (torch.nn.Linear(1, 1), "numbers"),
        (7, "counts"),
        (torch.arange(3), "counts"),
        (np.arange(3), "counts"),
        ("abc", "words"),
        (True, "words"),
        (None, "words"),
        (["a", None], "words"),
        (torch.get_rng_state(), "random"),
        (random.getstate(), "random"),
        (np.random.RandomState(0).get_state(), "random"),
        (np.random.default_rng(0).bit_generator.state, "random"),
        (torch.Generator(), "random"),
        ({"torch": torch.get_rng_state(), "python": random.getstate()}, "random"),
        (torch.zeros(5, dtype=torch.uint8), "counts"),
    ],
)
def test_a_part_is_of_one_kind(value: Any, kind: str) -> None:
    assert named({"it": value})["it"].kind == kind


def test_equal_content_has_equal_digests_whatever_way_it_was_made() -> None:
    name = "a" * 3
    one = OrderedDict(b=1.0, a={"x": (1.0, 2.0), name: {3, 1}})
    other = {"a": {"aaa": {1, 3}, "x": [1.0, 2.0]}, "b": 1.0}

    assert {p.name: p.digest for p in list_parts(one)} == {
        p.name: p.digest for p in list_parts(other)
    }


def test_a_settings_mapping_is_opened_three_deep_and_no_mapping_by_number_is() -> None:
    found = named({"a": {"b": {"c": {"d": 1.0}}}, "by": {0: 1.0, 1: 2.0}, "_own": 1})

    assert set(found) == {"a.b.c", "by"}
    assert found["by"].count == 2


def test_what_is_no_mapping_is_one_part_without_a_name() -> None:
    assert [(p.name, p.kind, p.count) for p in list_parts([1.0, 2.0])] == [("", "numbers", 2)]


def test_the_parts_are_bounded_by_number_and_by_bytes() -> None:
    many = {"many": {str(n): 1.0 for n in range(2 * PARTS_MAX)}, "epoch": 1}
    huge = torch.empty(0, dtype=torch.float64).expand(0).new_empty(1).expand(BYTES_MAX // 8 + 1)

    assert set(named(many)) == {"many", "epoch"}
    assert named({"huge": huge})["huge"].digest == ""


def test_the_numbers_in_a_file_are_counted_without_those_of_generators() -> None:
    net = torch.nn.Linear(3, 2)
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    state = {"net": net.state_dict(), "sgd": sgd.state_dict(), "rng": torch.get_rng_state()}

    assert count_elements({"net": net.state_dict(), "rng": torch.get_rng_state()}) == 8
    assert (count_elements(state) or 0) < 30
    assert count_elements({"step": 3, "name": "a", "rows": np.zeros((2, 5))}) == 11


def test_of_an_object_that_is_no_collection_nothing_is_counted() -> None:
    assert count_elements({"net": torch.nn.Linear(3, 2)}) is None
