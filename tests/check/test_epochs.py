"""Every epoch is trained once, to its end: cursor, epochs."""

import pytest

from chaos.model import event as ev
from tests.accepted import expect_text
from tests.check.each import judge_each
from tests.check.story import Story, Strike
from tests.check.tamper import changed, result_on, told, verdict_on, without
from tests.findings import expect_finding

KILLED = Story((Strike(2, 3, 1),))


@pytest.mark.parametrize(
    ("surplus", "words"),
    [
        (5, "rank 0 repeated 5 steps of epoch 2 after the restart: 11 instead of 6"),
        (-3, "rank 0 skipped 3 steps of epoch 2 after the restart: 3 instead of 6"),
        (1, "repeated 1 step of"),
    ],
)
def test_an_epoch_that_is_not_as_long_as_it_was_is_counted(surplus: int, words: str) -> None:
    story = Story(KILLED.strikes, surplus=surplus)

    verdict = verdict_on(story)

    assert [result.check for result in verdict.broken] == ["cursor"]
    assert words in verdict.broken[0].summary


def test_a_repeated_part_of_an_epoch_is_seen_before_the_epoch_is_over() -> None:
    story = Story((Strike(1, 3, 1), Strike(1, 9, 1)), surplus=5)

    assert "repeated 3 steps of epoch 1" in result_on("cursor", story).summary


def test_an_epoch_cut_short_by_the_next_fault_is_no_skipped_one() -> None:
    story = Story((Strike(1, 3, 1), Strike(1, 1, 0)))

    assert result_on("cursor", story).status == "pass"


def test_the_cursor_cannot_be_told_without_a_baseline() -> None:
    assert result_on("cursor", KILLED, alone=True).status == "inconclusive"


@pytest.mark.parametrize("check", ["cursor", "epochs", "lost-work", "trajectory"])
@pytest.mark.parametrize("gone", [ev.RunEnded, ev.FitReturned, ev.Event])
def test_a_baseline_that_is_cut_short_is_none(check: str, gone: type[ev.Event]) -> None:
    verdict = judge_each(KILLED.plan(), KILLED.history(), without(KILLED.baseline(), gone))

    result = next(result for result in verdict.results if result.check == check)
    assert result.status == "inconclusive"
    expect_text(result.summary)


def test_a_baseline_that_was_interrupted_is_cut_short() -> None:
    baseline = changed(KILLED.baseline(), ev.RunEnded, interrupted=True)

    assert judge_each(KILLED.plan(), KILLED.history(), baseline).status == "inconclusive"


def test_a_job_that_starts_over_trains_too_many_epochs() -> None:
    story = Story(KILLED.strikes, extra=2)

    verdict = verdict_on(story)

    assert [result.check for result in verdict.broken] == ["epochs"]
    expect_finding(verdict.broken[0], "too-many-epochs", epochs=6, baseline_epochs=4)


def test_the_metric_that_carries_the_epoch_names_the_repeated_one() -> None:
    history = changed(
        KILLED.history(),
        ev.Committed,
        lambda e: e.epoch == 2,
        metrics=({"epoch": 0}, {"epoch": 0}),
    )

    expect_finding(
        result_on("epochs", KILLED, history, epoch_metric="epoch"),
        "epoch-metric-differs",
        report=2,
        metric="epoch",
        values=(0, 0),
        baseline_values=(2, 2),
    )
    assert result_on("epochs", KILLED, history).status == "pass"


def test_a_metric_that_is_gone_is_nothing() -> None:
    history = changed(KILLED.history(), ev.Committed, metrics=({}, {}))

    assert (
        "says `epoch` nothing" in result_on("epochs", KILLED, history, epoch_metric="epoch").summary
    )


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        ((1,), "epoch 1 was never committed, and epoch 2 was"),
        ((0, 1), "epochs 0-1 were never committed"),
        ((3,), "the job finished after 3 epochs, the baseline has 4"),
    ],
)
def test_an_epoch_that_is_missing_is_named(gone: tuple[int, ...], words: str) -> None:
    history = without(KILLED.history(), ev.Committed, lambda e: e.epoch in gone)

    result = result_on("epochs", KILLED, history)

    assert result.status == "fail"
    assert any(words in anomaly.message for anomaly in result.anomalies)


def test_an_epoch_that_was_committed_twice_is_named() -> None:
    history = changed(KILLED.history(), ev.Committed, lambda e: e.epoch == 3, epoch=2)

    messages = [anomaly.message for anomaly in result_on("epochs", KILLED, history).anomalies]

    assert "epoch 2 was committed twice" in messages


def test_an_epoch_after_the_first_that_is_too_short_is_named() -> None:
    history = without(KILLED.history(), ev.StepDone, lambda e: (e.epoch, e.step) == (3, 6))

    expect_finding(
        result_on("epochs", KILLED, history),
        "epoch-length-differs",
        rank=0,
        epoch=3,
        steps=5,
        baseline_steps=6,
    )


def test_an_epoch_that_was_begun_and_not_finished_is_not_too_short() -> None:
    history = KILLED.history()
    for kind in (ev.FitReturned, ev.ReportBegun):
        history = without(history, kind)
    history = without(history, ev.StepDone, lambda e: (e.epoch, e.step) == (3, 6))
    history = without(history, ev.Committed, lambda e: e.epoch == 3)
    base = without(Story().history(), ev.Committed, lambda e: e.epoch == 3)

    results = judge_each(KILLED.plan(), history, base).results

    assert next(r for r in results if r.check == "epochs").status == "inconclusive"


def test_a_job_that_did_not_finish_cannot_have_its_epochs_counted() -> None:
    history = without(KILLED.history(), ev.FitReturned)

    assert result_on("epochs", KILLED, history).summary == "the job did not finish"


def test_epochs_cannot_be_counted_without_a_baseline() -> None:
    assert "no baseline" in result_on("epochs", KILLED, alone=True).summary


def test_a_baseline_is_judged_by_itself() -> None:
    verdict = verdict_on(Story(), alone=True)

    assert verdict.status == "pass"
    expect_text(verdict.headline)


def test_an_expected_error_may_come_before_the_last_epoch() -> None:
    story = Story(KILLED.strikes, budget=0)

    assert result_on("epochs", story, outcome="error").status == "pass"
    assert "2 epochs" in result_on("epochs", story, outcome="error").summary


def test_an_expected_error_before_the_first_step_leaves_no_epoch_to_count() -> None:
    history = Story().history()
    for kind in (ev.StepDone, ev.Committed, ev.FitReturned):
        history = without(history, kind)
    raised = told(history, ev.FitRaised(error="E", message="m"))

    assert result_on("epochs", Story(), raised, outcome="error").status == "pass"
    struck = result_on("epochs", KILLED, raised, alone=True, outcome="error")
    assert struck.status == "inconclusive"
    expect_text(struck.summary)
