"""The benchmark of judging runs: a small one, of a run that is right."""

import pytest

from tests.bench.judging import measure
from tests.bench.lanes import Costs, Way, simulated


@pytest.mark.parametrize("ranks", [8, 64])
def test_a_small_run_is_decoded_and_judged(ranks: int) -> None:
    told = measure(2_000, ranks)

    assert "events/s decoded" in told
    assert "judged" in told


def test_more_lanes_gain_until_the_harness_is_busy_throughout() -> None:
    way = Way(run_s=10.0, harness_s=1.0)
    one, two, many = (way.makespan(100, lanes) for lanes in (1, 2, 50))

    assert one == 100 * (10 + 1)
    assert two == one / 2 + 1
    assert many == 10 + 100
    assert way.most_lanes == 11


def test_lanes_that_judge_leave_the_harness_its_other_work() -> None:
    costs = Costs(run_s=10.0, judge_s=1.0, here_s=2.0, there_s=0.25)

    assert costs.in_harness.makespan(1000, 256) == 10 + 1000 * 1.25
    assert costs.in_lanes.makespan(1000, 256) == 11 + 1000 * 0.25
    assert costs.in_lanes.makespan(1, 1) == costs.in_harness.makespan(1, 1)
    assert all("simulated" in line or "lanes" in line or " s " in line for line in simulated(costs))
