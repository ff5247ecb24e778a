"""Whatever a job reports can be written down, to the last bit."""

import json
import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.launch.raytrain.observer import convert_value


class Odd:
    def __repr__(self) -> str:
        return "odd"


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.float64(0.1), 0.1),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (np.str_("a"), "a"),
        (np.bool_(True), True),
        (True, True),
        (float("nan"), "nan"),
        (np.float64("-inf"), "-inf"),
        ({"val": {"acc": np.float64(0.25)}}, {"val": {"acc": 0.25}}),
        ((1, [2.5, None]), [1, [2.5, None]]),
        (Odd(), "odd"),
    ],
)
def test_a_reported_value_becomes_one_that_json_has(value: Any, plain: Any) -> None:
    assert convert_value(value) == plain
    assert type(convert_value(value)) in (bool, int, float, str, dict, list)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_no_bit_of_a_float_is_lost(value: float) -> None:
    written = json.loads(msgspec.json.encode(convert_value(np.float64(value))))

    assert math.copysign(1, written) == math.copysign(1, value)
    assert float(written).hex() == value.hex()
