"""Lives of nodes: which of a trace count, and the law that is chosen for them."""

from pathlib import Path

import numpy as np
import pytest

from chaos.errors import UsageError
from chaos.extensions.preflight.market import Exponential, LossNotice, Weibull, find_worst_market
from chaos.extensions.preflight.trace import (
    NodeLife,
    choose_law,
    find_lives,
    fit_market,
    fit_weibull,
)
from chaos.extensions.preflight.trace_files import load_trace


@pytest.mark.parametrize("shape", [0.6, 1.0, 2.5])
def test_a_weibull_is_found_again_with_lives_that_were_cut_off(shape: float) -> None:
    rng = np.random.Generator(np.random.PCG64(0))
    lives = 12 * rng.weibull(shape, 4000)
    seen, is_over = np.minimum(lives, 15), (lives < 15).astype(float)

    found = fit_weibull(seen, is_over=is_over)

    assert found.shape == pytest.approx(shape, rel=0.07)
    assert found.scale_h == pytest.approx(12, rel=0.07)


def test_a_weibull_of_one_life_is_refused() -> None:
    with pytest.raises(UsageError, match="at least two lives"):
        fit_weibull(np.array([1.0]))


def test_lives_that_nobody_saw_begin_are_left_out_and_shocks_cut_them_off() -> None:
    events = [
        (0.0, "add", ["old", "older"]),
        (3600.0, "add", ["a", "b", "c", "d"]),
        (7200.0, "remove", ["a"]),
        (10_800.0, "remove", ["b"]),
        (10_800.0, "remove", ["c", "old"]),
    ]

    lives = find_lives(events, end_s=18_000.0)

    cut_off = (NodeLife(2, is_over=False), NodeLife(2, is_over=False), NodeLife(4, is_over=False))
    assert lives == (NodeLife(1, is_over=True), *cut_off)


def drawn_lives(shape: float, count: int) -> list[NodeLife]:
    rng = np.random.Generator(np.random.PCG64(3))
    return [NodeLife(float(hours), is_over=True) for hours in 10 * rng.weibull(shape, count)]


@pytest.mark.parametrize("shape", [0.5, 2.0])
def test_weibull_is_taken_where_it_is_clearly_likelier(shape: float) -> None:
    law = choose_law(drawn_lives(shape, 200))

    assert law.weibull is not None
    assert law.weibull.shape == pytest.approx(shape, rel=0.2)
    assert "below that of exponential ones: they are taken" in law.why


def test_exponential_is_kept_where_it_does_as_well_or_lives_are_few() -> None:
    like, few = choose_law(drawn_lives(1.0, 200)), choose_law(drawn_lives(0.5, 20))

    assert (like.weibull, few.weibull) == (None, None)
    assert "that of exponential ones, which are taken" in like.why
    assert "20 nodes are seen from their beginning" in few.why
    assert "taken as exponential" in choose_law([]).why


@pytest.mark.parametrize(("shape", "kind"), [(0.4, Weibull), (1.0, Exponential)])
def test_a_trace_that_names_its_nodes_shows_the_law_of_their_lives(
    tmp_path: Path, shape: float, kind: type
) -> None:
    # Forty places, each with one node after the other, from the second row on.
    rng = np.random.Generator(np.random.PCG64(1))
    rows = [(0, "add", "first")]
    for place in range(40):
        at_ms = 1000 + place
        for turn in range(5):
            until_ms = at_ms + max(1, int(3.6e6 * rng.weibull(shape)))
            name = f"{place}-{turn}"
            rows += [(at_ms, "add", name), (until_ms, "remove", name)]
            at_ms = until_ms + 60_000
    path = tmp_path / "named.csv"
    path.write_text("\n".join(f"{a},{b},{c}" for a, b, c in sorted(rows)), encoding="utf-8")

    found = fit_market(load_trace(path), notice=LossNotice(), price_ratio=0.3)

    assert isinstance(found.market.lifetime, kind)
    assert any("of Weibull lives (shape" in note for note in found.notes)
    worst = find_worst_market(found.market)
    assert worst is not None
    assert isinstance(worst.lifetime, kind)
    assert found.market.doubt is not None
    assert worst.mtbf_h == pytest.approx(found.market.mtbf_h / found.market.doubt.losses)
