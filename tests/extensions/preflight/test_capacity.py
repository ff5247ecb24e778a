"""Do the engines lose nodes as their markets say?"""

import numpy as np
import pytest
from pydantic import ValidationError

from chaos.extensions.preflight.capacity import (
    Ageing,
    Memoryless,
    PoolCapacity,
    availability,
    capacity,
    draw_lives_s,
    find_up_quantile,
)
from chaos.extensions.preflight.market import (
    MARKETS,
    Bathtub,
    Exponential,
    Market,
    Replay,
    Shock,
    Weibull,
    loss_interval_s,
)

HOUR_S = 3600.0


def engine_of(market: Market, *, pool: int = 8, runs: int = 500, seed: int = 0) -> PoolCapacity:
    return capacity(market, pool, runs, np.random.Generator(np.random.SFC64(seed)))


def followed(engine: PoolCapacity, *, hours: float) -> tuple[float, float, float]:
    """Return node-hours held, nodes lost and loss events, each per run of `hours`."""
    held_s, lost, events = 0.0, 0, 0
    now_s = np.zeros(len(engine.up))
    end_s = hours * HOUR_S
    while (engine.next_s < end_s).any():
        at_s, up = np.minimum(engine.next_s, end_s), engine.up.copy()
        held_s += float(((at_s - now_s) * up).sum())
        now_s = at_s
        inside = engine.next_s < end_s
        taken = engine.change()
        lost += int(taken[inside].sum())
        events += int((taken[inside] > 0).sum())
    held_s += float(((end_s - now_s) * engine.up).sum())
    runs = len(engine.up)
    return held_s / HOUR_S / runs, lost / runs, events / runs


def test_a_repeated_trace_is_scaled_to_the_pool_also_where_losses_are_counted() -> None:
    replay = Replay(
        at_s=tuple(100.0 * n for n in range(32)),
        up=tuple((32 - n) / 32 for n in range(32)),
        span_s=3200.0,
    )
    market = Market(replay=replay)

    assert loss_interval_s(market, 32) == pytest.approx(3200 / 31)
    assert loss_interval_s(market, 2) == 3200 / 2
    _, _, events = followed(engine_of(market, pool=2), hours=100)
    assert 100 * HOUR_S / events == pytest.approx(loss_interval_s(market, 2), rel=0.02)


@pytest.mark.parametrize("away_h", [0.0, 0.5])
@pytest.mark.parametrize("shock", [None, Shock(every_h=10, share=0.4)])
@pytest.mark.parametrize(
    "lifetime", [Exponential(mtbf_h=5), Weibull(scale_h=5, shape=1.0)], ids=["counts", "clocks"]
)
def test_both_engines_lose_nodes_at_the_rate_of_the_market(
    lifetime: Exponential | Weibull, shock: Shock | None, away_h: float
) -> None:
    market = Market(lifetime=lifetime, shock=shock, away_h=away_h)

    held_h, lost, _ = followed(engine_of(market), hours=100)

    error = market.mtbf_h / (lost * 500) ** 0.5
    # A shock takes several at once, which makes counts less even than Poisson's.
    assert held_h / lost == pytest.approx(market.mtbf_h, abs=12 * error)


@pytest.mark.parametrize("market", MARKETS, ids=[m.name for m in MARKETS])
def test_up_never_leaves_the_pool_and_a_loss_is_a_fall(market: Market) -> None:
    engine = engine_of(market, pool=5, runs=200)
    for _ in range(300):
        before, when = engine.up.copy(), engine.next_s.copy()
        lost = engine.change()
        assert ((engine.up >= 0) & (engine.up <= 5)).all()
        assert ((lost >= 0) & (lost <= before)).all()
        assert (engine.next_s >= when).all()
        if market.away_h:
            assert np.array_equal(np.maximum(before - engine.up, 0), lost)


def test_the_interval_between_losses_is_that_of_the_events() -> None:
    market = Market(lifetime=Exponential(mtbf_h=50), shock=Shock(every_h=4, share=0.3))

    _, _, events = followed(engine_of(market), hours=200)

    assert 200 * HOUR_S / events == pytest.approx(loss_interval_s(market, 8), rel=0.03)


def test_nodes_are_up_as_long_as_up_and_down_rates_say() -> None:
    market = Market(lifetime=Exponential(mtbf_h=4), away_h=1.0)
    engine = engine_of(market)

    held_h, _, _ = followed(engine, hours=200)

    assert held_h / (8 * 200) == pytest.approx(4 / 5, rel=0.02)
    # The stationary law is binomial(8, 0.8), whose 5 % quantile is 4.
    assert find_up_quantile(market, 8, 0.05) in {4, 5}


@pytest.mark.parametrize(
    "life",
    [
        Exponential(mtbf_h=3),
        Weibull(scale_h=3, shape=0.7),
        Bathtub(early_share=0.4, early_h=1, late_h=20, late_shape=4, cap_h=24),
    ],
    ids=lambda life: life.kind,
)
def test_lives_have_the_mean_that_their_record_states(
    life: Exponential | Weibull | Bathtub,
) -> None:
    drawn = draw_lives_s(life, (200_000,), np.random.Generator(np.random.PCG64(0))) / HOUR_S

    assert drawn.mean() == pytest.approx(life.mean_h, rel=0.02)
    assert not isinstance(life, Bathtub) or drawn.max() <= life.cap_h


def test_the_engine_is_the_cheap_one_where_lives_are_memoryless() -> None:
    assert isinstance(engine_of(MARKETS[0]), Memoryless)
    assert isinstance(engine_of(next(m for m in MARKETS if "bathtub" in m.name)), Ageing)


def test_availability_over_time_starts_full_and_settles() -> None:
    seen = availability(Market(lifetime=Exponential(mtbf_h=4), away_h=1), 20, hours=40, seed=0)

    assert seen.middle[0] == 20
    assert np.mean(seen.middle[20:]) == pytest.approx(16, abs=1)
    assert np.mean(seen.losses_per_h[20:]) == pytest.approx(16 / 4, rel=0.1)
    assert all(low <= high for low, high in zip(seen.low, seen.high, strict=True))


def test_the_seam_of_a_repeated_trace_is_no_loss_and_takes_its_nodes() -> None:
    ramp = Replay(at_s=(0.0, 100.0, 200.0), up=(0.25, 0.5, 1.0), span_s=300.0)
    engine = engine_of(Market(replay=ramp), pool=32, runs=50)
    cuts = 0
    for _ in range(20):
        before = engine.up.copy()
        lost = engine.change()
        assert engine.cut is not None
        assert not lost.any()
        assert np.array_equal(np.maximum(0, before - engine.up), engine.cut)
        cuts += int((engine.cut == 24).sum())

    assert cuts > 50


def test_a_pool_larger_than_its_trace_loses_more_often_and_not_more_at_once() -> None:
    replay = Replay(at_s=(0.0, 900.0, 1800.0), up=(1.0, 0.75, 0.5), span_s=3600.0, peak=8)
    market = Market(replay=replay)
    engine = engine_of(market, pool=24, runs=200)
    largest = max(int(engine.change().max()) for _ in range(30))
    _, _, events = followed(engine_of(market, pool=24), hours=50)

    assert largest == 2
    assert events == pytest.approx(3 * followed(engine_of(market, pool=8), hours=50)[2], rel=0.05)
    assert 50 * HOUR_S / events == pytest.approx(loss_interval_s(market, 24), rel=0.05)


@pytest.mark.parametrize("life", [Exponential(mtbf_h=1e6), Weibull(scale_h=1e6, shape=1.0)])
def test_shocks_are_of_the_sizes_that_were_seen(life: Exponential | Weibull) -> None:
    shock = Shock(every_h=1.0, share=0.3, seen=((2, 20), (2, 20), (14, 20)))
    engine = engine_of(Market(lifetime=life, shock=shock, away_h=0.001), pool=20, runs=50)
    lost = np.concatenate([engine.change() for _ in range(60)])

    assert set(np.unique(lost[lost > 0])) <= {1, 2, 13, 14}
    assert (lost >= 13).sum() / (lost > 0).sum() == pytest.approx(1 / 3, abs=0.1)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (Weibull, {"scale_h": 1.0, "shape": 0.001}),
        (Bathtub, {"early_share": 0.1, "early_h": 1, "late_h": 2, "late_shape": 1e9, "cap_h": 24}),
    ],
)
def test_lives_that_no_number_can_hold_are_refused(
    kind: type[Weibull | Bathtub], wrong: dict[str, float]
) -> None:
    with pytest.raises(ValidationError, match=r"shape"):
        kind.model_validate(wrong)


def test_a_bathtub_with_a_far_cap_has_a_mean() -> None:
    life = Bathtub(early_share=0.5, early_h=1, late_h=1, late_shape=50, cap_h=1e8)

    assert 0 <= life.mean_h < 1e8
