"""Bands: jobs that do not repeat themselves are not blamed for it, and defects still show."""

import random
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.check.judge import judge
from chaos.check.prediction_band import (
    PROFILES,
    BandCounts,
    Interval,
    Series,
    find_student_quantile,
    learn_intervals,
)
from chaos.model import event as ev
from chaos.model.bounds import Tolerance
from chaos.model.history import Baseline, History
from chaos.model.verdict import CheckResult, Verdict
from tests.accepted import expect_text
from tests.check.clean_runs import DEFECTS, NOISES, found, rate
from tests.check.shorthand import plan_of, told_in
from tests.check.story import Story, Strike
from tests.check.tamper import changed

STORY = Story(strikes=(Strike(epoch=2, step=3, rank=1),), watch=False)


def noisy(history: History, seed: int, *, part: float = 1e-3, since: int = 0) -> History:
    """Return a history whose losses are off by a part that grows with training, as rounding does.

    `since` shifts them for good from that attempt on: a defect of 5 %.
    """
    draws = random.Random(seed)
    entries = []
    for entry in history:
        what = entry.event
        if isinstance(what, ev.StepDone) and what.losses is not None:
            off = draws.gauss(0, part * (1 + what.epoch))
            wrong = 1.05 if since and what.attempt >= since else 1.0
            losses = tuple(float(loss) * (1 + off) * wrong for loss in what.losses)
            what = msgspec.structs.replace(what, losses=losses)
        entries.append(msgspec.structs.replace(entry, event=what))
    return History(entries)


def clean(count: int, *, part: float = 1e-3) -> Baseline:
    return Baseline([noisy(STORY.baseline(), seed, part=part) for seed in range(count)])


def verdict(history: History, baseline: History, **expect: Any) -> Verdict:
    return judge(STORY.plan(**expect), history, baseline)


def trajectory(found: Verdict) -> CheckResult:
    return next(result for result in found.results if result.check == "trajectory")


def test_a_job_that_does_not_repeat_itself_is_judged_by_its_band() -> None:
    found = verdict(noisy(STORY.history(), 99), clean(5), band="strict")

    assert found.status == "pass", found.headline
    assert "within the band of 5 clean runs" in found.headline


def test_no_one_in_many_struck_runs_is_blamed() -> None:
    baseline = clean(5)

    found = [verdict(noisy(STORY.history(), seed), baseline, band="strict") for seed in range(60)]

    assert [v.headline for v in found if v.status == "fail"] == []


def test_a_defect_wider_than_the_band_is_found() -> None:
    found = verdict(noisy(STORY.history(), 99, since=1), clean(5), band="strict")

    assert [result.check for result in found.broken] == ["trajectory"]


def test_the_summary_says_how_large_a_defect_the_band_would_hide() -> None:
    strict = trajectory(verdict(noisy(STORY.history(), 99), clean(5), band="strict"))
    relaxed = trajectory(verdict(noisy(STORY.history(), 99), clean(5), band="relaxed"))

    assert "would not be seen" in strict.summary
    hidden = [float(str(r.measures["hidden_relative_median"])) for r in (strict, relaxed)]
    assert 1e-3 < hidden[0] < hidden[1]


def test_where_clean_runs_differ_by_more_than_a_loss_nothing_is_said_of_percent() -> None:
    baseline = clean(5, part=0.9)
    right = trajectory(verdict(noisy(STORY.history(), 99, part=0.01), baseline, band="relaxed"))

    expect_text(right.summary)
    assert "would not be seen" not in right.summary


def test_the_summary_says_how_far_each_metric_could_be_off() -> None:
    def varied(history: History, seed: int) -> History:
        draws = random.Random(seed)

        def metrics(done: ev.Committed) -> tuple[dict[str, Any], ...]:
            off = 1 + draws.gauss(0, 1e-3)
            return tuple({**m, "accuracy": m["accuracy"] * off} for m in done.metrics)

        return changed(noisy(history, seed), ev.Committed, metrics=metrics)

    baseline = Baseline([varied(STORY.baseline(), seed) for seed in range(5)])
    found = trajectory(verdict(varied(STORY.history(), 99), baseline, band="strict"))
    ignored = verdict(
        varied(STORY.history(), 99), baseline, band="strict", ignore_metrics=("accuracy",)
    )

    told = dict(re.findall(r"`(\w+)` by ([\d.e-]+)", str(found.measures["hidden_of_metrics"])))
    assert float(told["accuracy"]) > 1e-3 > float(told["epoch"])
    expect_text(found.summary)
    assert "accuracy" not in str(trajectory(ignored).measures["hidden_of_metrics"])


def test_four_baselines_are_too_few_to_learn_from() -> None:
    found = trajectory(verdict(noisy(STORY.history(), 99), clean(4), band="standard"))

    assert found.status == "inconclusive"
    expect_text(found.summary)


def test_a_job_noisier_than_its_baselines_showed_is_not_known_to_be_right_or_wrong() -> None:
    found = trajectory(verdict(noisy(STORY.history(), 99, part=0.5), clean(5), band="strict"))

    assert found.status == "inconclusive"
    assert "`expect.band` is too narrow" in found.summary


def test_a_metric_that_is_mostly_noise_is_left_out_by_name() -> None:
    def timed(history: History, seed: int) -> History:
        draws = random.Random(seed)
        entries = []
        for entry in history:
            what = entry.event
            if isinstance(what, ev.Committed):
                metrics = tuple({**m, "seconds": draws.uniform(1, 9)} for m in what.metrics)
                what = msgspec.structs.replace(what, metrics=metrics)
            entries.append(msgspec.structs.replace(entry, event=what))
        return History(entries)

    baseline = Baseline([timed(run, seed) for seed, run in enumerate(clean(5).runs)])

    found = verdict(timed(noisy(STORY.history(), 9), 9), baseline, band="strict")

    assert found.status == "pass", found.headline
    assert trajectory(found).measures["metrics_not_compared"] == "seconds"


def after(epochs: int, end: str = "L:c0 .") -> str:
    """Tell of a run that was struck in epoch 1 and trained so many epochs."""
    return " ".join(["g s s u r c s x g<c0", *["s s u r c"] * (epochs - 1), end])


@pytest.mark.parametrize(
    ("clean_epochs", "struck", "epochs", "terminates"),
    [
        ((3, 3, 3, 3, 3), after(5), "fail", "pass"),
        ((3, 5, 3, 4, 3), after(6), "pass", "pass"),
        ((3, 5, 3, 4, 3), after(2), "pass", "pass"),
        ((3, 5, 3, 4, 3), after(6, "H"), "inconclusive", "inconclusive"),
        ((3, 5, 3, 4, 3), after(6, "s s H"), "inconclusive", "inconclusive"),
        ((3, 3, 3, 3, 3), after(3, "+30 H"), "inconclusive", "fail"),
    ],
    ids=["a fixed number", "more", "fewer", "still training", "in mid-epoch", "hung"],
)
def test_how_many_epochs_are_due_is_not_known_where_clean_runs_differ_in_it(
    clean_epochs: Sequence[int], struck: str, epochs: str, terminates: str
) -> None:
    runs = [
        noisy(told_in(" ".join(["g", *["s s u r c"] * count, "L:c0 ."])), seed)
        for seed, count in enumerate(clean_epochs)
    ]

    found = judge(plan_of(struck, band="standard"), noisy(told_in(struck), 9), Baseline(runs))

    told = {result.check: result.status for result in found.results}
    assert (told["epochs"], told["terminates"]) == (epochs, terminates), found.headline


# -- the arithmetic ------------------------------------------------------------------------------

FINITE = st.floats(-1e6, 1e6)
ONE = BandCounts(numbers=1, windows=1)


@given(st.lists(st.lists(FINITE, min_size=5, max_size=5), min_size=1, max_size=30))
def test_every_number_that_was_learnt_from_lies_in_its_band(numbers: list[list[float]]) -> None:
    series: Series = {place: {(place,): values} for place, values in enumerate(numbers)}

    bands = learn_intervals(series, BandCounts.from_series([series]))

    for place, values in enumerate(numbers):
        band = bands[(place,)]
        slack = Tolerance(absolute=1e-9 * max(1.0, *map(abs, values)))
        assert all(band.add_tolerance(slack).contains(value) for value in values)


@given(st.lists(FINITE, min_size=2, max_size=6), st.integers(1, 1000), st.integers(1, 1000))
def test_the_more_is_compared_the_wider_is_the_band(
    values: Sequence[float], few: int, more: int
) -> None:
    narrow, wide = (
        learn_intervals({0: {("x",): values}}, BandCounts(count, count))[("x",)].half_width
        for count in sorted((few, few + more))
    )

    assert narrow <= wide


@given(FINITE, st.integers(2, 6))
def test_runs_that_agree_leave_no_band(value: float, runs: int) -> None:
    band = learn_intervals({0: {("x",): [value] * runs}}, BandCounts(10, 10))[("x",)]

    assert band.half_width <= 1e-9 * max(1.0, abs(value))


def test_the_width_of_a_band_follows_from_the_spread_of_its_runs() -> None:
    # Two runs, s = sqrt(2); 63.657 is Student's quantile of one degree, for one false alarm in 100,
    # two-sided.
    two = learn_intervals({0: {("x",): [1.0, 3.0]}}, ONE)[("x",)]
    # Five runs, s = 0.4472; 4.6041 is that of four degrees.
    five = learn_intervals({0: {("x",): [2.0, 2.0, 2.0, 3.0, 2.0]}}, ONE)[("x",)]

    assert two.middle == 2.0
    assert two.half_width == pytest.approx(63.657 * 2**0.5 * 1.5**0.5, 1e-4)
    assert five.middle == pytest.approx(2.2)
    assert five.half_width == pytest.approx(4.6041 * 0.2**0.5 * 1.2**0.5, 1e-4)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 30, 101, 200])
@pytest.mark.parametrize("tail", [0.4, 0.005, 1e-4, 1e-7])
def test_students_quantiles_are_scipys(degrees: int, tail: float) -> None:
    stats = pytest.importorskip("scipy.stats")

    assert find_student_quantile(tail, degrees) == pytest.approx(
        float(stats.t.isf(tail, degrees)), 1e-8
    )


def test_what_all_clean_runs_agree_in_is_not_counted() -> None:
    varying: Series = {
        place: {(place, 0): [1.0, 2.0], (place, 1): [3.0, 3.0]} for place in range(9)
    }
    still: Series = {0: {("x",): [5.0, 5.0]}}

    assert BandCounts.from_series([varying, still]) == BandCounts(numbers=9, windows=1)
    assert BandCounts.from_series([still]) == ONE


@pytest.mark.parametrize("noise", NOISES)
def test_one_clean_run_in_a_hundred_leaves_a_band_whatever_the_noise(noise: str) -> None:
    # At a rate of 1 %, more than 5 of 200 leave it with 2 of 100 seeds.
    assert rate(noise, clean=5, trials=200) <= 5


@pytest.mark.parametrize("noise", [0.01, 0.03])
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_shows_where_runs_drift_apart(defect: str, noise: float) -> None:
    seen = found(defect, clean=5, trials=30, noise=noise, allowance=PROFILES["standard"][1])

    assert seen <= 1 if defect == "none" else seen >= 27


def test_the_spread_is_pooled_over_eight_places_to_either_side() -> None:
    series: dict[int, dict[tuple[object, ...], list[float]]] = {
        place: {(place,): [1.0, 1.0]} for place in range(18)
    }
    series[9] = {(9,): [1.0, 3.0]}

    bands = learn_intervals(series, BandCounts.from_series([series]))

    assert [place for place in range(18) if bands[(place,)].half_width > 0] == list(range(1, 18))


def test_one_run_has_no_spread() -> None:
    with pytest.raises(ValueError, match="two runs or more"):
        learn_intervals({0: {("x",): [1.0]}}, ONE)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_held_only_by_its_like(value: float) -> None:
    band = learn_intervals({0: {("x",): [value, value]}}, ONE)[("x",)]

    assert band.contains(value)
    assert not band.contains(1.0)
    assert not Interval(1.0, 0.5).contains(value)


ANY = st.one_of(FINITE, st.sampled_from([float("nan"), float("inf"), float("-inf")]))


@given(st.lists(ANY, min_size=2, max_size=6), st.lists(FINITE, min_size=2, max_size=6), st.data())
def test_a_band_does_not_depend_on_which_run_came_first(
    values: list[float], beside: list[float], data: st.DataObject
) -> None:
    turned = data.draw(st.permutations(values))

    one, other = (
        learn_intervals({0: {("x",): v}, 1: {("y",): beside}}, BandCounts(2, 1))
        for v in (values, turned)
    )

    for key, band in one.items():
        assert (repr(other[key].middle), other[key].half_width) == (
            repr(band.middle),
            band.half_width,
        )
        assert other[key].special_values == band.special_values


@given(st.lists(ANY, min_size=2, max_size=6))
def test_what_any_run_was_is_in_its_band_number_or_not(values: list[float]) -> None:
    band = learn_intervals({0: {("x",): values}}, ONE)[("x",)]

    slack = Tolerance(absolute=1e-9 * max([1.0, *(abs(v) for v in values if abs(v) <= 1e6)]))
    assert all(band.add_tolerance(slack).contains(value) for value in values)
