"""Wilson's interval: known values, and what must hold of any."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.extensions.lab.selftest.score import Rate

totals = st.integers(1, 10_000)


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [
        # R. G. Newcombe, Statistics in Medicine 17 (1998) 857-872, table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_published_intervals_come_out(count: int, total: int, low: float, high: float) -> None:
    found_low, found_high = Rate(count, total).bounds

    assert found_low == pytest.approx(low, abs=5e-5)
    assert found_high == pytest.approx(high, abs=5e-5)


@given(totals.flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_share_lies_in_its_interval_and_both_within_0_and_1(pair: tuple[int, int]) -> None:
    count, total = pair
    low, high = Rate(count, total).bounds

    assert 0 <= low <= count / total <= high <= 1
    assert low < high


@given(totals.flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_what_is_left_over_has_the_mirrored_interval(pair: tuple[int, int]) -> None:
    count, total = pair
    low, high = Rate(count, total).bounds
    other_low, other_high = Rate(total - count, total).bounds

    assert other_low == pytest.approx(1 - high)
    assert other_high == pytest.approx(1 - low)


@given(st.integers(1, 5_000))
def test_more_runs_without_an_alarm_make_surer(total: int) -> None:
    assert Rate(0, total + 1).bounds[1] < Rate(0, total).bounds[1]


def test_nothing_counted_says_nothing() -> None:
    assert Rate(0, 0).bounds == (0.0, 1.0)
