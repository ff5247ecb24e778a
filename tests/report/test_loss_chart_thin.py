"""Fewer points, the same line."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.report.loss_chart import thin_rows


@given(
    numbers=st.lists(st.floats(allow_infinity=False), max_size=300),
    limit=st.integers(2, 50),
    kept=st.integers(0, 299),
)
def test_thinning_keeps_extremes_ends_and_what_must_be_kept(
    numbers: list[float], limit: int, kept: int
) -> None:
    rows = list(enumerate(numbers))
    thin = thin_rows(rows, limit, value=lambda row: row[1], is_kept=lambda row: row[0] == kept)
    finite = [number for number in numbers if math.isfinite(number)]
    left = [number for _, number in thin if math.isfinite(number)]

    assert thin == sorted(thin, key=lambda row: row[0])
    assert thin[:1] == rows[:1]
    assert thin[-1:] == rows[-1:]
    assert (min(finite, default=0), max(finite, default=0)) == (
        min(left, default=0),
        max(left, default=0),
    )
    assert kept >= len(rows) or any(place == kept for place, _ in thin)
    assert any(map(math.isnan, numbers)) == any(math.isnan(number) for _, number in thin)
    assert len(thin) <= 2 * limit + limit + 4


@pytest.mark.parametrize("length", [0, 1, 2_000])
def test_a_short_line_is_not_thinned(length: int) -> None:
    rows = list(range(length))

    assert thin_rows(rows, 2_000, value=float, is_kept=lambda _: False) == rows
