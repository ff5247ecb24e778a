"""Reported values, in pairs."""

import math

import pytest

from chaos.check.values import NumberPair, parse_number
from chaos.model.bounds import Tolerance

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("ours", "baseline", "agrees"),
    [
        (NAN, NAN, True),
        (NAN, 1.0, False),
        (1.0, NAN, False),
        (INF, INF, True),
        (INF, -INF, False),
        (1.0, INF, False),
        (None, None, True),
        (None, 1.0, False),
        (1.0, 1.5, True),
        (1.0, 3.0, False),
    ],
)
def test_numbers_agree_within_a_tolerance(
    ours: float | None, baseline: float | None, agrees: bool
) -> None:
    pair = NumberPair(0, 1, 0, "loss", ours, baseline, 0, 0)

    assert pair.agrees(Tolerance(absolute=0.5)) is agrees


@pytest.mark.parametrize(
    ("value", "expected"), [("inf", INF), ("-inf", -INF), (3, 3), (True, None), ("3", None)]
)
def test_only_numbers_are_compared(value: object, expected: float | None) -> None:
    assert parse_number(value) == expected


def test_a_relative_difference_needs_something_to_be_relative_to() -> None:
    assert NumberPair(0, 1, 0, "loss", 1.0, 0.0, 0, 0).relative_difference is None
