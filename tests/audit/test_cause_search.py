"""The fewest values without which training is not the baseline's."""

from hypothesis import given
from hypothesis import strategies as st

from chaos.audit.cause_search import (
    CauseOutcome,
    Paths,
    find_minimal_paths,
    find_nearest_cause,
    has_trained_equally,
)
from chaos.check.census import CensusDifference
from chaos.check.judge import judge_analysis
from chaos.model import event as ev
from chaos.model.events.state import IN_LOADER
from chaos.model.history import History
from tests.accepted import expect_text
from tests.check.story import Story, Strike
from tests.check.tamper import analysis_of, changed

names = st.lists(st.sampled_from("abcdefghijkl"), unique=True, min_size=1)


@given(names, st.data())
def test_the_cause_is_found_whatever_it_is(paths: list[str], data: st.DataObject) -> None:
    cause = data.draw(st.sets(st.sampled_from(paths), min_size=1))

    found = find_minimal_paths(tuple(paths), lambda part: cause <= set(part))

    assert found is not None
    assert set(found) == cause


@given(names, st.sets(st.frozensets(st.sampled_from("abcdefghijkl"), min_size=1)))
def test_none_of_what_is_found_can_be_left_out(
    paths: list[str], causes: set[frozenset[str]]
) -> None:
    def is_right(part: Paths) -> bool:
        return any(cause <= set(part) for cause in causes)

    found = find_minimal_paths(tuple(paths), is_right)

    assert (found is not None) == is_right(tuple(paths))
    if found is not None:
        assert not any(is_right(tuple(p for p in found if p != path)) for path in found)


@given(names)
def test_what_all_together_do_not_mend_costs_few_runs(paths: list[str]) -> None:
    tried: list[Paths] = []

    def is_right(part: Paths) -> bool:
        tried.append(part)
        return False

    assert find_minimal_paths(tuple(paths), is_right) is None
    assert len(tried) <= 3


def test_what_differs_earliest_is_tried_before_what_may_follow_from_it() -> None:
    tried: list[Paths] = []

    def is_right(part: Paths) -> bool:
        tried.append(part)
        return "count" in part or {"queue", "asked"} <= {*part}

    every = ("count", "queue", "asked")

    assert find_nearest_cause(("count",), every, is_right) == (("count",), ("count",))
    assert tried == [("count",)]
    assert find_nearest_cause((), ("queue", "asked"), is_right)[1] == ("queue", "asked")
    assert find_nearest_cause(("queue",), ("queue", "asked"), is_right)[1] == ("queue", "asked")
    assert find_nearest_cause((), (), is_right) == ((), None)


def test_the_sentence_of_a_copy_says_where_it_lies() -> None:
    epoch = CensusDifference(f"data.epoch{IN_LOADER}", "3", "0", is_initial=False)

    expect_text(CauseOutcome((epoch,), (epoch,)).sentence)


def test_the_sentence_says_what_was_set_and_no_more() -> None:
    value = CensusDifference("kl.value", "0.2", "0.3", is_initial=True)
    roots = CensusDifference("opt.roots", "", "", is_initial=False)

    expect_text(CauseOutcome((value, roots), (value,)).sentence, "value roots value sentence")
    expect_text(CauseOutcome((value, roots), (value, roots)).sentence, "roots value roots sentence")
    expect_text(CauseOutcome((value,), None).sentence, "value None sentence")
    assert "nothing could be given back" in CauseOutcome((), None).sentence
    besides = CauseOutcome((value, roots), (value,), idle=("opt.roots", "rng.torch")).sentence
    expect_text(besides, "besides")
    many = CauseOutcome((value,), (value,), idle=("a", "b", "c", "d")).sentence
    expect_text(many, "many")
    unread = CauseOutcome((), None, left_out=("bank",)).sentence
    expect_text(unread, "unread")
    within = CauseOutcome((value,), (value,), is_exact=False).sentence
    expect_text(within, "within")
    assert "bit" not in within


KILLED = Story((Strike(2, 3, 1),))


def trained_equally(history: History, check: str) -> bool:
    analysis = analysis_of(KILLED, history)
    return has_trained_equally(analysis, judge_analysis(analysis), check)


def test_another_wrong_metric_does_not_hide_that_samples_are_mended() -> None:
    wrong_metric = changed(
        KILLED.history(),
        ev.Committed,
        lambda e: e.epoch == 3,
        metrics=lambda e: (e.metrics[0], {**e.metrics[1], "accuracy": 0.5}),
    )

    assert trained_equally(wrong_metric, "samples")
    assert not trained_equally(wrong_metric, "trajectory")


def test_losses_that_differ_are_not_mended_whatever_the_samples_are() -> None:
    wrong_loss = changed(
        KILLED.history(),
        ev.StepDone,
        lambda e: (e.attempt, e.epoch, e.step) == (1, 2, 4),
        losses=lambda e: (e.losses[0] + 1.0,),
    )

    assert trained_equally(KILLED.history(), "samples")
    assert not trained_equally(wrong_loss, "samples")
