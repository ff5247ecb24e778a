"""The whole numbers in what a job saves."""

from collections import OrderedDict
from typing import Any

import pytest

from chaos.probe.state.content import COUNTS_MAX, LOOKED_AT_MAX, find_counts


@pytest.mark.parametrize(
    ("saved", "counts"),
    [
        ({"epoch": 3, "loss": 0.5, "best": None}, {"epoch": 3}),
        ({"resumed": True, "name": "a"}, {}),
        ({"loop": OrderedDict(step=7)}, {"loop.step": 7}),
        ({"optimizer": {"state": {0: {"step": 9}}}}, {"optimizer.state.0.step": 9}),
        ({"schedule": {"last_epoch": 2, "_step_count": 3}}, {"schedule.last_epoch": 2}),
        ({"a": {"b": {"c": {"d": {"e": 1}}}}}, {}),
        ({("a", 1): 4, "list": [1, 2]}, {}),
        ({"seed": 2**64, "epoch": 2**63 - 1}, {"epoch": 2**63 - 1}),
        ([1, 2], {}),
        (7, {}),
    ],
)
def test_they_are_named_by_the_way_to_them(saved: Any, counts: dict[str, int]) -> None:
    assert find_counts(saved) == counts


def test_the_shallowest_come_first_and_they_are_bounded() -> None:
    deep = {str(number): number for number in range(2 * COUNTS_MAX)}
    found = find_counts({"state": deep, "epoch": 1})

    assert len(found) == COUNTS_MAX
    assert next(iter(found)) == "epoch"


def test_a_large_mapping_is_not_looked_through() -> None:
    large = {f"n{number}": 0.5 for number in range(3 * LOOKED_AT_MAX)}

    assert find_counts({"large": large, "late": {"epoch": 1}}) == {}


def test_what_contains_itself_comes_to_an_end() -> None:
    saved: dict[str, Any] = {"epoch": 1}
    saved["self"] = saved

    assert find_counts(saved)["self.self.epoch"] == 1
