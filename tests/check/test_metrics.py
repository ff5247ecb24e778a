"""What a job reports, value by value: which are compared, which are left out and named."""

from collections.abc import Callable
from typing import Any

import pytest

from chaos.check.analysis import RunAnalysis
from chaos.check.divergence import find_divergence
from chaos.check.judge import judge
from chaos.check.values import flatten_values
from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.verdict import CheckResult, Verdict
from tests.accepted import expect_text
from tests.check.story import Story, Strike
from tests.check.tamper import changed, result_on, verdict_on, without
from tests.findings import expect_finding

KILLED = Story((Strike(2, 3, 1),))
AT_ONCE = Story((Strike(0, 3, 1),))
More = Callable[[ev.Committed], dict[str, Any]]


def reporting(history: History, more: More) -> History:
    """Return the history of a job that reports more."""
    return changed(
        history, ev.Committed, metrics=lambda e: tuple({**m, **more(e)} for m in e.metrics)
    )


def judged(more: More, baseline: More, story: Story = KILLED, **expect: Any) -> Verdict:
    ours, theirs = reporting(story.history(), more), reporting(story.baseline(), baseline)
    return judge(story.plan(**expect), ours, theirs)


def trajectory(verdict: Verdict) -> CheckResult:
    return verdict.results[-1]


def resumed(event: ev.Committed) -> bool:
    return event.attempt == 1


def test_a_metric_first_seen_after_the_fault_is_compared_and_fine_where_it_is_equal() -> None:
    result = result_on("trajectory", AT_ONCE)

    assert (result.status, result.evidence) == ("pass", 64)
    assert result.measures["metrics_compared"] == 16


def test_a_metric_first_seen_after_the_fault_that_differs_is_never_silently_valid() -> None:
    late = judged(
        lambda e: {"val_acc": 0.2} if resumed(e) else {},
        lambda e: {"val_acc": 0.5} if e.epoch >= 2 else {},
    )

    assert late.status == "inconclusive"
    expect_text(late.headline)
    assert trajectory(late).measures["metrics_without_control"] == "val_acc"


def test_all_metrics_that_differ_and_were_not_seen_before_are_named() -> None:
    verdict = judged(
        lambda e: {"b": 1, "a": 1, "c": 1}, lambda e: {"b": 2, "a": 2, "c": 1}, AT_ONCE
    )

    expect_text(trajectory(verdict).summary)
    assert trajectory(verdict).measures["metrics_compared"] == 24


def test_without_a_restart_such_a_metric_differs_after_the_fault() -> None:
    late = Story((Strike(3, 2, kind="preempt_node", drift=99),))
    verdict = judged(
        lambda e: {"test": 1} if e.epoch == 3 else {},
        lambda e: {"test": 2} if e.epoch == 3 else {},
        late,
    )

    expect_text(trajectory(verdict).summary)


def test_a_loss_that_differs_accuses_the_job_all_the_same() -> None:
    history = changed(
        reporting(AT_ONCE.history(), lambda e: {"seconds": 1}),
        ev.StepDone,
        lambda e: (e.attempt, e.epoch, e.step) == (1, 1, 4),
        losses=(9.0,),
    )

    result = result_on("trajectory", AT_ONCE, history)

    assert result.status == "fail"
    expect_finding(
        result,
        "numbers-differ-later",
        number_type="loss",
        first_pair={
            "epoch": 1,
            "step": 4,
            "rank": 0,
            "value_name": "loss",
            "baseline_value": 1.002,
            "attempt": 1,
        },
    )


def test_a_metric_that_differs_before_the_fault_is_left_out_by_name() -> None:
    verdict = judged(lambda e: {"s": {"up": e.epoch}}, lambda e: {"s": {"up": -1}})

    assert verdict.status == "pass"
    assert trajectory(verdict).measures["metrics_not_compared"] == "s.up"


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        (
            {"val": {"acc": 0.5}},
            {"val": {"acc": 0.2}},
            "`val.acc` differs from the baseline's: 0.2",
        ),
        (
            {"hist": [1, 2]},
            {"hist": [1, 3]},
            "`hist.1` differs from the baseline's: 3 instead of 2",
        ),
        ({"hist": [1, 2]}, {"hist": [1]}, "`hist.1` differs from the baseline's: nothing instead"),
        ({"a": [{"b": 1}]}, {"a": [{"b": 2}]}, "`a.0.b` differs"),
        ({"phase": "warm"}, {"phase": "cold"}, "`phase` differs from the baseline's: 'cold' inst"),
        ({"phase": "x" * 90}, {"phase": "y"}, f"'y' instead of '{'x' * 39}…; 4 of 24 differ"),
        ({"done": True}, {"done": False}, "`done` differs from the baseline's: False instead of"),
        ({"done": True}, {"done": 1}, "`done` differs from the baseline's: 1 instead of True"),
        ({"loss": 1.5}, {"loss": "nan"}, "the metric `loss` differs from the baseline's: nan"),
    ],
)
def test_every_value_is_compared_whatever_its_kind_and_wherever_it_stands(
    right: dict[str, Any], wrong: dict[str, Any], words: str
) -> None:
    same = judged(lambda e: right, lambda e: right)
    other = judged(lambda e: wrong if resumed(e) else right, lambda e: right)

    assert same.status == "pass"
    assert trajectory(same).evidence > 64
    assert trajectory(other).status == "fail"
    assert words in trajectory(other).summary


def test_long_texts_that_differ_at_their_end_are_told_in_full() -> None:
    same = "x" * 90
    verdict = judged(lambda e: {"t": f"{same}{e.attempt}"}, lambda e: {"t": f"{same}0"})

    assert f"'{same}1' instead of '{same}0'; 4 of" in trajectory(verdict).summary


def test_a_rank_whose_metrics_are_gone_after_the_restart_differs() -> None:
    history = changed(KILLED.history(), ev.Committed, resumed, metrics=lambda e: e.metrics[:1])

    assert "(rank 1) the metric `" in result_on("trajectory", KILLED, history).summary


def test_nested_values_have_dotted_names() -> None:
    value = {"a": {"b": [1, {"c": None}]}, "d": "inf", "e": [], "f": {}}

    assert list(flatten_values(value)) == [("a.b.0", 1), ("a.b.1.c", None), ("d", float("inf"))]


# -- ignored -------------------------------------------------------------------------------


def test_a_metric_can_be_ignored_and_is_named() -> None:
    def ours(event: ev.Committed) -> dict[str, Any]:
        return {"seconds": event.attempt, "val": {"s": [event.attempt]}, "value": 1}

    def theirs(_: ev.Committed) -> dict[str, Any]:
        return {"seconds": 0, "val": {"s": [0]}, "value": 1}

    assert judged(ours, theirs).status == "fail"
    verdict = judged(ours, theirs, ignore_metrics=("seconds", "val"))
    assert verdict.status == "pass"
    assert trajectory(verdict).measures["metrics_ignored"] == "seconds, val.s.0"
    assert trajectory(verdict).measures["metrics_compared"] == 24


def test_a_nested_metric_can_be_ignored_by_its_dotted_name() -> None:
    verdict = judged(
        lambda e: {"val": {"s": e.attempt, "acc": 1}},
        lambda e: {"val": {"s": 0, "acc": 1}},
        ignore_metrics=("val.s", "val.a"),
    )

    assert verdict.status == "pass"
    assert trajectory(verdict).measures["metrics_ignored"] == "val.s"


def test_a_metric_without_a_control_can_be_ignored() -> None:
    story = Story(AT_ONCE.strikes, wall=True)

    assert result_on("trajectory", story).status == "inconclusive"
    assert result_on("trajectory", story, ignore_metrics=("seconds",)).status == "pass"


# -- what shows nothing --------------------------------------------------------------------


def unresolved(history: History) -> History:
    return changed(history, ev.StepDone, lambda e: e.attempt == 1, losses=None)


def test_a_resumed_attempt_of_which_nothing_can_be_compared_is_unknown() -> None:
    everything = ("accuracy", "epoch")

    result = result_on(
        "trajectory", KILLED, unresolved(KILLED.history()), ignore_metrics=everything
    )

    assert result.status == "inconclusive"
    expect_text(result.summary)
    assert result.measures["steps_not_compared"] == 24


def test_every_resumed_attempt_has_to_be_compared() -> None:
    story = Story((Strike(1, 3), Strike(3, 2)))

    result = result_on(
        "trajectory", story, unresolved(story.history()), ignore_metrics=("accuracy", "epoch")
    )

    assert result.summary.startswith("nothing that attempt 1 did")


def test_an_attempt_of_which_nothing_survived_need_not_be_compared() -> None:
    story = Story((Strike(2, 3), Strike(2, 1)))

    assert result_on("trajectory", story, unresolved(story.history())).status == "pass"


def test_steps_that_could_not_be_compared_are_counted_and_not_called_equal() -> None:
    verdict = verdict_on(KILLED, unresolved(KILLED.history()))
    result = trajectory(verdict)

    assert result.status == "pass"
    assert result.measures["steps_not_compared"] == 24
    expect_text(result.summary, "summary")
    expect_text(verdict.headline, "headline")


def test_boosted_trees_are_compared_by_their_metrics() -> None:
    history = without(KILLED.history(), ev.StepDone)
    baseline = without(KILLED.baseline(), ev.StepDone)
    worse = reporting(history, lambda e: {"accuracy": 0.1} if resumed(e) else {})

    assert judge(KILLED.plan(), history, baseline).results[-1].status == "pass"
    assert "`accuracy` differs" in judge(KILLED.plan(), worse, baseline).results[-1].summary
    assert find_divergence(RunAnalysis(KILLED.plan(), worse, baseline)) is not None
    assert verdict_on(KILLED, history).status == "fail"


def test_two_reports_are_enough_to_know_a_counter_by() -> None:
    story = Story((Strike(1, 3, 1),), epochs=2)

    result = result_on("metrics", story)

    assert (result.evidence, result.measures["counters"]) == (4, "epoch")


def test_a_counter_is_judged_up_to_an_expected_error() -> None:
    story = Story((Strike(2, 3, 1),), budget=0)

    assert result_on("metrics", story, outcome="error").evidence == 4


def test_a_whole_number_that_had_other_values_before_the_fault_is_no_counter() -> None:
    story = Story((Strike(2, 3, 1),))
    history = changed(
        story.history(),
        ev.Committed,
        metrics=lambda e: tuple({**m, "epoch": m["epoch"] + 100} for m in e.metrics),
    )

    result = result_on("metrics", story, history)

    assert (result.status, result.evidence) == ("pass", 0)
