"""Do the formulas agree with the simulation where they hold, and part where they do not?"""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from chaos.extensions.preflight.forecast import Outcomes, simulate
from chaos.extensions.preflight.intervals import (
    availability_optimal,
    daly,
    efficiency,
    find_exact_interval,
    young,
)
from chaos.extensions.preflight.question import Question
from tests.extensions.preflight.questions import memoryless

SIGMAS = 5  # a false alarm once in two million


def simulated(question: Question, *, runs: int = 1000) -> tuple[float, float, Outcomes]:
    """Return the mean time to finish without the first start, and its standard error."""
    outcomes = simulate(question, runs=runs, seed=3, horizon_s=1e8)
    assert question.costs is not None
    took = outcomes.end_s - question.costs.begin_s
    return float(took.mean()), float(took.std()) / math.sqrt(runs), outcomes


@settings(max_examples=15, deadline=None)
@given(
    loss_every_s=st.integers(500, 20_000),
    save_s=st.integers(0, 60),
    restart_s=st.integers(0, 300),
    every=st.integers(50, 1500),
)
def test_the_simulation_is_dalys_equation_where_losses_are_memoryless(
    loss_every_s: int, save_s: int, restart_s: int, every: int
) -> None:
    question = memoryless(
        loss_every_s=loss_every_s, save_s=save_s, restart_s=restart_s, every=every, commits=30
    )
    share = efficiency(every, save_s=save_s, loss_every_s=loss_every_s, restart_s=restart_s)

    mean, error, outcomes = simulated(question)

    assert outcomes.finished.all()
    assert abs(mean - question.work_s / share) <= SIGMAS * error + 1e-6 * mean


def test_shocks_part_from_the_formula() -> None:
    # As many node losses, all at once in a shock: far fewer restarts than the formula thinks.
    alone = memoryless(loss_every_s=1000, nodes=16)
    together = memoryless(
        loss_every_s=1e9, nodes=16, market__shock={"every_h": 16_000 / 3600, "share": 1.0}
    )
    assert together.market.mtbf_h == pytest.approx(alone.market.mtbf_h, rel=1e-3)
    formula = alone.work_s / efficiency(400, save_s=10, loss_every_s=1000, restart_s=180)

    mean, error, _ = simulated(together)

    assert mean < formula - 20 * error


def test_young_lives_part_from_the_formula() -> None:
    weibull = {"kind": "weibull", "scale_h": 0.5, "shape": 0.5}
    young_lives = memoryless(loss_every_s=900, nodes=1, market__lifetime=weibull)
    assert young_lives.market.mtbf_h == pytest.approx(1.0)
    formula = young_lives.work_s / efficiency(400, save_s=10, loss_every_s=3600, restart_s=180)

    mean, error, _ = simulated(young_lives)

    assert abs(mean - formula) > 10 * error


@given(st.floats(1, 100), st.floats(1e4, 1e7))
def test_where_saves_are_cheap_all_formulas_agree(save_s: float, loss_every_s: float) -> None:
    best = find_exact_interval(save_s, loss_every_s).seconds

    assert young(save_s, loss_every_s).seconds == pytest.approx(best, rel=0.12)
    assert daly(save_s, loss_every_s).seconds == pytest.approx(best, rel=0.005)
    assert availability_optimal(save_s, loss_every_s, 0).seconds == pytest.approx(best, rel=0.12)


@given(st.floats(0.1, 100), st.floats(10, 1e6), st.floats(0.01, 100))
def test_no_interval_is_better_than_the_exact_one(
    save_s: float, loss_every_s: float, factor: float
) -> None:
    best = find_exact_interval(save_s, loss_every_s).seconds

    def share(seconds: float) -> float:
        return efficiency(seconds, save_s=save_s, loss_every_s=loss_every_s, restart_s=10)

    assert share(best * factor) <= share(best) * (1 + 1e-9)


def test_a_formula_says_where_it_does_not_hold() -> None:
    assert young(10, 1000).out_of_range is None
    assert "tenth" in str(young(10, 50).out_of_range)
    assert daly(10, 50).out_of_range is None
    assert "2 M" in str(daly(200, 50).out_of_range)
    assert daly(200, 50).seconds == 50
    assert "restart" in str(availability_optimal(1, 50, 180).out_of_range)


def test_out_of_its_range_youngs_interval_is_visibly_worse() -> None:
    save_s, loss_every_s = 100, 100

    def share(seconds: float) -> float:
        return efficiency(seconds, save_s=save_s, loss_every_s=loss_every_s, restart_s=0)

    best = share(find_exact_interval(save_s, loss_every_s).seconds)

    assert young(save_s, loss_every_s).out_of_range is not None
    assert share(young(save_s, loss_every_s).seconds) < 0.9 * best


def test_with_no_losses_at_all_only_saves_cost() -> None:
    assert efficiency(90, save_s=10, loss_every_s=math.inf, restart_s=5) == pytest.approx(0.9)


def test_the_exact_optimum_is_where_scipy_finds_it() -> None:
    for save_s, every_s in ((1, 300), (10, 7515), (600, 400), (30, 1e7)):
        best = minimize_scalar(
            lambda tau, save_s=save_s, every_s=every_s: (
                -efficiency(tau, save_s=save_s, loss_every_s=every_s, restart_s=60)
            ),
            bounds=(1e-3, 3 * every_s),
            method="bounded",
            options={"xatol": 1e-9},
        )
        found = find_exact_interval(save_s, every_s).seconds
        assert found == pytest.approx(best.x, rel=1e-4)


@pytest.mark.parametrize("loss_every_s", [100.0, math.inf])
def test_saves_that_cost_nothing_are_best_made_all_the_time(loss_every_s: float) -> None:
    assert find_exact_interval(0, loss_every_s).seconds == 0
