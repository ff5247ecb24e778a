"""The benchmark of judging runs: a small one, of a run that is right."""

import pytest

from tests.bench.judging import measure
from tests.bench.lanes import makespan


@pytest.mark.parametrize("ranks", [8, 64])
def test_a_small_run_is_decoded_and_judged(ranks: int) -> None:
    told = measure(2_000, ranks)

    assert "events/s decoded" in told
    assert "judged" in told


def test_more_lanes_gain_until_the_harness_is_busy_throughout() -> None:
    one, two, many = (makespan(100, lanes, run_s=10.0, judge_s=1.0) for lanes in (1, 2, 50))

    assert one == 100 * (10 + 1)
    assert two == one / 2 + 1
    assert many == 10 + 100
