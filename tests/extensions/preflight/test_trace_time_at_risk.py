"""Which time of a trace counts: what was seen, from when on a place was held."""

from pathlib import Path

import pytest

from chaos.extensions.preflight.market import LossNotice
from chaos.extensions.preflight.trace import Trace, build_trace, fit_market
from chaos.extensions.preflight.trace_files import load_trace


def test_a_node_that_comes_for_the_first_time_was_never_away() -> None:
    ramp = [(0.0, 1), (1.0, 2), (2.0, 3), (3.0, 4), (1800.0, 3), (5400.0, 4), (9000.0, 3)]
    grows = build_trace("grows", ramp, format_="test", kind="held", span_s=9000)

    assert [change.back for change in grows.changes] == [0, 0, 0, 0, 0, 1, 0]
    assert grows.away_node_h == 1.0
    assert (
        fit_market(grows, notice=LossNotice(), price_ratio=0.3).away_h.value == 1.0
    )  # not some seconds


def gapped(folder: Path, after: int) -> Trace:
    rows = [f"2021-12-11, 11:{minute:02}:00, {5 - minute % 2}" for minute in range(9)]
    rows += [f"2021-12-11, 20:{minute:02}:00, {after - minute % 2}" for minute in range(2)]
    file = folder / f"{after}.txt"
    file.write_text("\n".join(rows), encoding="utf-8")
    return load_trace(file)


def test_a_gap_is_no_time_at_risk_and_said_not_to_be(tmp_path: Path) -> None:
    same = gapped(tmp_path, after=5)

    assert same.span_s == 9 * 60  # of nine hours
    assert same.node_h == pytest.approx((5 * 5 + 4 * 4) / 60)
    assert any("1 gap of" in said and "8.9 of 9.0 h" in said for said in same.repairs)
    assert fit_market(same, notice=LossNotice(), price_ratio=0.3).mtbf_h.value == pytest.approx(
        same.node_h / 5
    )


def test_a_change_across_a_gap_is_no_loss_that_was_seen(tmp_path: Path) -> None:
    fewer, more = gapped(tmp_path, after=3), gapped(tmp_path, after=7)

    assert fewer.drops == more.drops == (1,) * 5
    assert (fewer.returns, more.returns) == (4, 4)
    found = fit_market(fewer, notice=LossNotice(), price_ratio=0.3)
    assert found.mtbf_h.value == pytest.approx(fewer.node_h / 5)
