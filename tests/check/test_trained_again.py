"""What `expect.sampling: at_least_once` allows a restart to train again, and what it does not."""

from typing import Any

import pytest

from chaos.check.judge import judge
from chaos.model.bounds import Tolerance
from chaos.model.event import FileSaved
from chaos.model.verdict import CheckResult
from tests.accepted import expect_text
from tests.check.shorthand import plan_of, told_in
from tests.check.tamper import changed

FED = "g s:ab/cd s:ef/gh r c s:ga/hb s:ce/df r c ."
STRUCK = "g s:ab/cd s:ef/gh r c s:ga/hb x g<c0"
AGAIN = f"{STRUCK} s:ga/hb s:ga/hb s:ce/df r c ."


def on(check: str, run: str, baseline: str = FED, **expect: Any) -> CheckResult:
    plan = plan_of(run, **{"sampling": "at_least_once", **expect})
    results = judge(plan, told_in(run), told_in(baseline)).results
    return next(result for result in results if result.check == check)


def test_a_step_for_each_that_was_thrown_away_may_be_trained_again() -> None:
    expect_text(on("cursor", AGAIN).summary)
    assert on("samples", AGAIN).summary.endswith("each at least as often")
    assert on("cursor", AGAIN, sampling="exactly_once").status == "fail"


def test_what_a_source_hands_out_again_may_be_older_than_the_checkpoint() -> None:
    run = f"{STRUCK} s:ef/gh s:ga/hb s:ce/df r c ."

    assert on("cursor", run).status == on("samples", run).status == "pass"
    assert on("cursor", run, sampling="exactly_once").status == "fail"


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (f"{STRUCK} s:ga/hb s:ga/hb s:ga/hb s:ce/df r c .", "repeated 2 steps of epoch 1"),
        (
            "g s:ab/cd s:ef/gh r c x g<c0 s:ga/hb s:ga/hb s:ce/df r c .",
            "3 instead of 2; it threw away 0",
        ),
        (f"{STRUCK} s:ce/df r c .", "skipped 1 step of epoch 1"),
    ],
)
def test_more_than_was_thrown_away_is_too_much_and_less_than_the_epoch_too_little(
    run: str, words: str
) -> None:
    found = on("cursor", run)

    assert found.status == "fail"
    assert words in found.summary


def test_without_the_inputs_nobody_knows_what_was_trained_again() -> None:
    found = on("cursor", "g s s r c s x g<c0 s s s r c .", "g s s r c s s r c .")

    assert found.status == "inconclusive"
    expect_text(found.summary)


def test_without_a_baseline_nothing_is_known_to_be_too_long() -> None:
    results = judge(plan_of(AGAIN, sampling="at_least_once"), told_in(AGAIN)).results

    assert next(r for r in results if r.check == "cursor").status == "inconclusive"


OTHER = f"{STRUCK} s:ga/hb s:ga/hb! s:ce/df! r c ."


def test_what_follows_a_step_that_was_made_twice_has_no_equal() -> None:
    found = on("trajectory", OTHER)

    assert found.status == "inconclusive"
    expect_text(found.summary)
    assert on("trajectory", OTHER, sampling="exactly_once").status == "fail"


def test_a_tolerance_that_is_stated_holds_for_it_too() -> None:
    def found(by: float) -> str:
        return on("trajectory", OTHER, loss_tolerance=Tolerance(absolute=by)).status

    assert (found(9.0), found(0.01)) == ("pass", "fail")


def test_what_went_wrong_before_it_is_as_wrong_as_ever() -> None:
    baseline = "g s:ab/cd r c s:ef/gh r c s:ga/hb s:ce/df r c ."
    run = "g s:ab/cd r c x g<c0 s:ef/gh! r c s:ga/hb x g<c1 s:ga/hb s:ga/hb s:ce/df r c ."

    found = on("trajectory", run, baseline)

    assert found.status == "fail"
    assert "from epoch 1, step 1 on" in found.summary


def test_a_state_that_did_not_come_back_is_no_step_made_twice() -> None:
    state = "@model={0},opt={0}"
    begun = f"g {state.format(0)} s:ab/cd s:ef/gh r c {state.format(2)}"
    baseline = f"{begun} s:ga/hb s:ce/df r c ."
    lost = f"{begun} s:ga/hb x g<c0 @model=2,opt= s:ga/hb s:ga/hb! s:ce/df! r c ."

    assert on("state", lost, baseline).status == "fail"


LOOSE: dict[str, Any] = {"loss_tolerance": Tolerance(absolute=9.0)}


@pytest.mark.parametrize(
    ("run", "baseline"),
    [
        (f"{STRUCK} s:ef/gh! s:ga/hb! s:ce/df! r c .", FED),  # an older step, so another order
        (
            f"{STRUCK} s:ga/hb s:ga/hb s:c/d r c .",  # the small last batch one step later
            "g s:ab/cd s:ef/gh r c s:ga/hb s:c/d r c .",
        ),
    ],
)
def test_no_other_check_refuses_what_is_allowed(run: str, baseline: str) -> None:
    plan = plan_of(run, sampling="at_least_once", **LOOSE)

    assert judge(plan, told_in(run), told_in(baseline)).status == "pass"


def test_a_file_that_counts_the_repeated_steps_is_no_doubt() -> None:
    first, second = "s:ab/cd s:ef/gh w:m.pt u r c", "s:ga/hb s:ce/df w:m.pt u r c"
    longer = "s:ga/hb s:ga/hb s:ce/df w:m.pt u r c"
    end = f"{first} {second} L:c0,c1,c2,c3 ."
    run, baseline = f"g {first} s:ga/hb x g<c0 {longer} {end}", f"g {first} {second} {end}"
    plan = plan_of(run, sampling="at_least_once", **LOOSE)

    due = {0: 2, 1: 4, 2: 6, 3: 8}
    ours = changed(
        told_in(run), FileSaved, counts=lambda e: {"steps": due[e.epoch] + (e.epoch > 0)}
    )
    theirs = changed(told_in(baseline), FileSaved, counts=lambda e: {"steps": due[e.epoch]})

    results = {result.check: result.status for result in judge(plan, ours, theirs).results}
    assert results["checkpoints"] == "pass"
    exact = plan_of(run, **LOOSE)
    results = {result.check: result.status for result in judge(exact, ours, theirs).results}
    assert results["checkpoints"] == "inconclusive"
