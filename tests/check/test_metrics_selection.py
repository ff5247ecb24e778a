"""What chooses and stops: the best value, patience, an early stop, and what is kept."""

from typing import Any

import pytest

from chaos.check.judge import judge
from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.verdict import CheckResult
from tests.check.story import Story, Strike
from tests.check.tamper import changed, restored_wrong, result_on, verdict_on
from tests.findings import expect_finding

KILLED = Story((Strike(2, 3, 1),))
BEST = Story(KILLED.strikes, best=True)
STOPS_AFTER = 4  # epochs without a better accuracy


def reporting(history: History, **values: Any) -> History:
    """Return that every rank reports more; a value is a function of the commit."""

    def metrics(done: ev.Committed) -> tuple[dict[str, Any], ...]:
        more = {name.replace("__", "."): value(done) for name, value in values.items()}
        return tuple({**record, **more} for record in done.metrics)

    return changed(history, ev.Committed, metrics=metrics)


def selection(run: History, baseline: History, story: Story = KILLED, **expect: Any) -> CheckResult:
    results = judge(story.plan(**expect), run, baseline).results
    return next(result for result in results if result.check == "selection")


def kept(done: ev.Committed) -> int:
    return done.epoch


def anew(done: ev.Committed) -> int:
    """Count from the resume."""
    return done.epoch if done.attempt == 0 else done.epoch - 2


@pytest.mark.parametrize(
    "name",
    [
        "patience",
        "early_stopping__wait",
        "bad_epochs",
        "num_bad_epochs",
        "val_stale",
        "es__patience__0",
    ],
)
def test_patience_that_is_counted_anew_is_found_by_the_name_that_it_is_reported_under(
    name: str,
) -> None:
    baseline = reporting(KILLED.baseline(), **{name: kept})
    right = reporting(KILLED.history(), **{name: kept})
    wrong = reporting(KILLED.history(), **{name: anew})

    assert selection(right, baseline).status == "pass"
    assert selection(right, baseline).evidence == 8 + 1  # and the checkpoints that are kept
    metric = name.replace("__", ".")
    expect_finding(
        selection(wrong, baseline),
        "choice-state-lost",
        metric=metric,
        epoch=2,
        value=0,
        expected_value=2,
        parts=(metric,),
    )


@pytest.mark.parametrize("name", ["should_stop", "stopped", "early_stop"])
def test_a_stop_that_does_not_come_is_found(name: str) -> None:
    def stops(done: ev.Committed) -> bool:
        return done.epoch + 1 >= STOPS_AFTER

    def forgets(done: ev.Committed) -> bool:
        return stops(done) and done.attempt == 0

    baseline = reporting(KILLED.baseline(), **{name: stops})
    result = selection(reporting(KILLED.history(), **{name: forgets}), baseline)

    expect_finding(
        result,
        "choice-state-lost",
        metric=name,
        epoch=3,
        value=False,
        expected_value=True,
        parts=(name,),
    )
    right = selection(reporting(KILLED.history(), **{name: stops}), baseline)
    assert right.status == "pass"


@pytest.mark.parametrize("name", ["bestow", "waiting", "nonstop_rate", "badge", "outstanding"])
def test_only_words_of_choosing_and_stopping_are_read(name: str) -> None:
    baseline = reporting(KILLED.baseline(), **{name: kept})
    wrong = reporting(KILLED.history(), **{name: anew})

    result = selection(wrong, baseline)

    assert (result.status, result.evidence) == ("pass", 0)


def test_an_ignored_metric_chooses_nothing() -> None:
    baseline = reporting(KILLED.baseline(), patience=kept)
    wrong = reporting(KILLED.history(), patience=anew)

    assert selection(wrong, baseline).status == "fail"
    assert selection(wrong, baseline, ignore_metrics=("patience",)).status == "pass"


def test_a_value_that_did_not_repeat_before_the_fault_proves_nothing() -> None:
    def never_the_same(done: ev.Committed) -> int:
        return 50 + done.epoch

    baseline = reporting(KILLED.baseline(), patience=kept)

    result = selection(reporting(KILLED.history(), patience=never_the_same), baseline)

    assert result.status == "pass"


def test_a_value_that_was_not_reported_before_the_fault_proves_nothing() -> None:
    story = Story((Strike(0, 2, 1),))
    baseline = reporting(story.baseline(), patience=kept)

    result = selection(reporting(story.history(), patience=anew), baseline, story)

    assert result.status == "pass"


def forgotten() -> History:
    def metrics(done: ev.Committed) -> tuple[dict[str, Any], ...]:
        return tuple({**record, "best": 0.0} for record in done.metrics)

    return changed(BEST.history(), ev.Committed, lambda e: e.attempt == 1, metrics=metrics)


def test_a_best_value_that_is_forgotten_is_named() -> None:
    assert verdict_on(BEST).status == "pass"
    expect_finding(
        result_on("selection", BEST, forgotten()),
        "choice-state-lost",
        metric="best",
        epoch=2,
        value=0.0,
    )


def test_a_best_value_that_follows_from_another_model_is_not_blamed() -> None:
    odd = ev.Component(name="model", digest="odd", size=7.0)
    history = restored_wrong(forgotten(), "model", odd)

    verdict = verdict_on(BEST, history)

    assert verdict.broken[0].check == "state"
    assert "selection" not in [result.check for result in verdict.broken]


def test_a_best_value_that_follows_from_another_accuracy_is_not_blamed() -> None:
    def metrics(done: ev.Committed) -> tuple[dict[str, Any], ...]:
        return tuple({**record, "accuracy": 0.1, "best": 0.1} for record in done.metrics)

    history = changed(BEST.history(), ev.Committed, lambda e: e.attempt == 1, metrics=metrics)

    assert result_on("selection", BEST, history).status == "pass"
    assert verdict_on(BEST, history).status == "fail"


def test_a_job_that_chooses_nothing_owes_nothing() -> None:
    plain = Story(KILLED.strikes, watch=False)

    result = result_on("selection", plain)

    assert (result.status, result.evidence) == ("pass", 0)
    assert result_on("selection", plain, alone=True).status == "inconclusive"


def unsaved(history: History) -> History:
    """Return that the report before the last carried no checkpoint."""
    last = max(event.epoch for _, event in history.select_events(ev.Committed))
    return changed(history, ev.Committed, lambda e: e.epoch == last - 1, checkpoint=None)


def test_a_job_that_saves_at_a_notice_as_well_keeps_other_checkpoints_than_its_baseline() -> None:
    result = selection(KILLED.history(), unsaved(KILLED.baseline()))

    assert (result.status, result.evidence) == ("pass", 0)


def test_a_job_that_saves_less_than_its_baseline_is_found_by_what_it_keeps() -> None:
    result = selection(unsaved(KILLED.history()), KILLED.baseline())

    assert result.status == "fail"
    expect_finding(result, "other-checkpoints-kept", epochs=(0, 1, 3), expected_epochs=(0, 1, 2, 3))
