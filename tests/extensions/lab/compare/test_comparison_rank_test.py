"""The statistics, against what is known of them and against scipy."""

import math
import random
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.extensions.lab.compare.comparison import (
    compare_ranks,
    compute_fewer_p,
    correct_p_values,
    double_ranks,
)

# Coarse on purpose: recovery times in tenths of seconds are tied all the time.
values = st.integers(0, 12).map(lambda tenth: tenth / 10)
samples = st.lists(values, min_size=1, max_size=7)
distinct = st.lists(st.floats(0, 1e6), min_size=2, max_size=14, unique=True)


def test_samples_that_do_not_overlap_give_the_least_p() -> None:
    found = compare_ranks([1, 2, 3, 4], [5, 6, 7, 8])

    assert found.p == found.lowest_p == 2 / 70
    assert found.delta == 1


def test_three_repeats_of_each_can_show_nothing() -> None:
    assert compare_ranks([1, 2, 3], [7, 8, 9]).lowest_p == pytest.approx(0.1)


@given(samples, samples)
def test_the_sides_may_be_exchanged(first: list[float], second: list[float]) -> None:
    there, back = compare_ranks(first, second), compare_ranks(second, first)

    assert there.p == pytest.approx(back.p)
    assert there.delta == -back.delta
    assert 0 < there.p <= 1


@given(samples, st.data())
def test_the_order_of_values_says_nothing(first: list[float], data: st.DataObject) -> None:
    second = data.draw(samples)

    shuffled = data.draw(st.permutations(second))

    assert compare_ranks(first, shuffled) == compare_ranks(first, second)


@given(samples)
def test_a_sample_is_like_itself(sample: list[float]) -> None:
    assert compare_ranks(sample, sample).p == 1
    assert compare_ranks(sample, sample).delta == 0


@given(distinct, st.data())
def test_without_ties_it_is_scipys_exact_test(numbers: list[float], data: st.DataObject) -> None:
    stats = pytest.importorskip("scipy.stats")
    cut = data.draw(st.integers(1, len(numbers) - 1))
    first, second = numbers[:cut], numbers[cut:]

    assert compare_ranks(first, second).p == pytest.approx(
        stats.mannwhitneyu(first, second, method="exact").pvalue
    )


@given(samples.filter(lambda s: len(s) < 5), samples.filter(lambda s: len(s) < 5))
def test_with_ties_it_is_the_share_of_all_choices(first: list[float], second: list[float]) -> None:
    ranks = double_ranks([*first, *second])
    middle = len(second) * (len(ranks) + 1)
    out = abs(sum(ranks[len(first) :]) - middle)
    choices = [sum(chosen) for chosen in combinations(ranks, len(second))]
    far = sum(abs(total - middle) >= out for total in choices)

    assert compare_ranks(first, second).p == pytest.approx(far / len(choices))


def test_many_values_are_told_by_the_normal_approximation_as_scipy_does() -> None:
    stats = pytest.importorskip("scipy.stats")
    first = [n % 7 / 2 for n in range(51)]
    second = [n % 5 + 0.5 for n in range(51)]

    assert compare_ranks(first, second).p == pytest.approx(
        stats.mannwhitneyu(first, second, method="asymptotic").pvalue
    )
    assert compare_ranks([1.0] * 51, [1.0] * 51).p == 1


@pytest.mark.parametrize(
    ("first", "second"), [(3, 30), (30, 3), (1, 40), (16, 16), (30, 30), (50, 50), (5, 900)]
)
def test_a_small_sample_beside_a_large_one_is_told_exactly_as_by_scipy(
    first: int, second: int
) -> None:
    stats = pytest.importorskip("scipy.stats")
    draws = random.Random(first)
    ours = [draws.gauss(0, 1) for _ in range(first)]
    theirs = [draws.gauss(1, 1) for _ in range(second)]

    assert compare_ranks(ours, theirs).p == pytest.approx(
        stats.mannwhitneyu(ours, theirs, method="exact").pvalue, rel=1e-12
    )


def test_the_least_p_of_three_against_thirty_is_reached() -> None:
    found = compare_ranks([1, 2, 3], list(range(4, 34)))

    assert found.p == found.lowest_p == 2 / math.comb(33, 3)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_never_lowers_a_p_and_keeps_their_order(found: list[float]) -> None:
    corrected = correct_p_values(found)

    assert all(before <= after <= 1 for before, after in zip(found, corrected, strict=True))
    by_p = [after for _, after in sorted(zip(found, corrected, strict=True))]
    assert all(less <= more for less, more in pairwise(by_p))
    assert min(corrected) == pytest.approx(min(1, min(found) * len(found)))


def test_holm_as_in_the_textbook() -> None:
    assert correct_p_values([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(st.integers(0, 8), st.integers(1, 8), st.integers(0, 8), st.integers(1, 8))
def test_fewer_is_fishers_exact_test(stood: int, before: int, stands: int, after: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    stood, stands = min(stood, before), min(stands, after)
    table = [[stands, after - stands], [stood, before - stood]]

    assert compute_fewer_p(stood, before, stands, after) == pytest.approx(
        stats.fisher_exact(table, alternative="less").pvalue
    )
