"""All checks together."""

from typing import Any

import pytest

from chaos.check.analysis import RunAnalysis
from chaos.check.epochs import check_cursor
from chaos.check.judge import CHECKS, judge
from chaos.check.trajectory import TRAJECTORY
from chaos.faults.slow_worker import SlowWorker
from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.plan import Op
from chaos.model.trigger import AtStep
from tests.accepted import expect_text
from tests.check.story import Story, Strike
from tests.check.tamper import changed, told, verdict_on, without
from tests.findings import expect_in_headline

KILLED = Story((Strike(2, 3, 1),))


def test_checks_go_from_the_most_specific_to_the_one_that_everything_breaks() -> None:
    assert [check.NAME for check in CHECKS] == [
        "faults-happened",
        "watched",
        "start-decision",
        "committed-only",
        "agreement",
        "resume-point",
        "cursor",
        "state",
        "rank-randomness",
        "replicas",
        "selection",
        "batch",
        "sample-order",
        "samples",
        "epochs",
        "metrics",
        "retention",
        "checkpoints",
        "artifacts",
        "single-writer",
        "bystanders",
        "leftovers",
        "retry-budget",
        "attempts",
        "drain",
        "ack",
        "outcome",
        "recovery",
        "lost-work",
        "progress",
        "terminates",
        "trajectory",
    ]


def test_every_check_has_a_result_under_its_own_name() -> None:
    results = verdict_on(KILLED).results

    assert [result.check for result in results] == [check.NAME for check in CHECKS]


def test_a_job_that_came_out_the_same_is_told_in_one_sentence() -> None:
    expect_text(verdict_on(KILLED).headline)


@pytest.mark.parametrize(
    ("strikes", "words"),
    [
        ((Strike(0, 2),), "Rank 0 was killed at epoch 0, step 2; the job started again from scr"),
        ((Strike(1, 2, kind="kill_node"),), "The node of rank 0 was lost at epoch 1, step 2; "),
        (
            (Strike(1, 2, kind="preempt_node"),),
            "The node of rank 0 was given notice at epoch 1, step 2 and lost 1 s later; ",
        ),
        (
            (Strike(1, moment="reported"),),
            "Rank 0 was killed when report() of epoch 1 had returned and Ray had not comm",
        ),
        (
            (Strike(1, 1), Strike(2, 1), Strike(3, 1, 1)),
            "Rank 0 was killed at epoch 1, step 1, rank 0 was killed at epoch 2, step 1 and rank ",
        ),
    ],
)
def test_every_deed_has_its_words(strikes: tuple[Strike, ...], words: str) -> None:
    assert verdict_on(Story(strikes)).headline.startswith(words)


def test_many_restarts_are_counted_and_the_last_one_told() -> None:
    story = Story((Strike(1, 1), Strike(2, 1)))

    headline = verdict_on(story).headline
    assert "; the job restarted 2 times" in headline
    assert "from checkpoint_1_1 (epoch 1)" in headline


def test_several_broken_promises_are_told_after_the_first() -> None:
    story = Story(KILLED.strikes, surplus=2, extra=1)

    expect_text(verdict_on(story).headline)


def test_a_headline_does_not_claim_what_was_not_shown() -> None:
    history = changed(
        KILLED.history(),
        ev.StepDone,
        lambda e: e.epoch == 3,
        losses=(0.1,),
    )
    unheard = without(history, ev.WorkerStarted, lambda e: e.attempt == 1)

    assert verdict_on(KILLED, history).headline.endswith("number of steps are right.")
    assert not verdict_on(KILLED, unheard).headline.endswith("number of steps are right.")


def test_a_fault_that_never_landed_is_never_green() -> None:
    verdict = verdict_on(Story((Strike(9, 1),)))

    assert verdict.status == "inconclusive"
    assert verdict.headline.startswith("It is unknown whether")
    assert ": op 0" in verdict.headline


def test_a_check_that_fails_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: RunAnalysis) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(check_cursor, "check", fail)

    verdict = verdict_on(KILLED)

    assert verdict.status == "inconclusive"
    assert verdict.undecided[0].summary.endswith("ZeroDivisionError: by zero")


@pytest.mark.parametrize(
    ("expect", "as_expected", "expectation"),
    [
        ({}, False, "expected pass; got fail, first named by cursor"),
        ({"verdict": "fail"}, True, "fail, as expected"),
        (
            {"verdict": "fail", "check": "cursor"},
            True,
            "fail, first named by cursor, as expected",
        ),
        (
            {"verdict": "fail", "check": "trajectory"},
            False,
            "expected fail, first named by trajectory; got fail, first named by cursor",
        ),
        (
            {"verdict": "inconclusive", "check": "cursor"},
            False,
            "expected inconclusive, told by cursor; got fail, first named by cursor",
        ),
    ],
)
def test_a_guilty_job_is_as_expected_where_the_right_check_names_it(
    expect: dict[str, Any], as_expected: bool, expectation: str
) -> None:
    verdict = verdict_on(Story(KILLED.strikes, surplus=1), **expect)

    assert (verdict.as_expected, verdict.expectation) == (as_expected, expectation)


GUILTY = Story(KILLED.strikes, extra=1)
BLIND = ev.ObserverFailed(where="after_report", error="KeyError")
NUMB = ev.ProbeFailed(attempt=0, rank=1, where="on_step", error="OSError")


def test_a_defect_is_not_the_expected_one_where_the_fault_did_not_happen() -> None:
    history = changed(GUILTY.history(), ev.FaultEnded, status="info", detail="who knows")

    verdict = verdict_on(GUILTY, history, verdict="fail", check="epochs")

    assert (verdict.status, verdict.as_expected) == ("inconclusive", False)
    expect_text(verdict.expectation, "expectation")
    expect_text(verdict.headline, "headline")


def test_what_breaks_though_no_fault_happened_is_no_finding() -> None:
    history = without(without(GUILTY.history(), ev.FaultEnded), ev.FaultInvoked)

    verdict = verdict_on(GUILTY, history)

    assert verdict.status == "inconclusive"
    assert "epochs" in [result.check for result in verdict.broken]


def test_what_breaks_at_the_first_of_two_faults_is_a_finding() -> None:
    twice = Story((Strike(2, 3, 1), Strike(9, 9, 1)), extra=1)
    once = Story(twice.strikes[:1], extra=1)

    verdict = judge(twice.plan(), once.history(), once.baseline())

    assert verdict.status == "fail"


def test_an_expected_doubt_is_that_of_the_named_check() -> None:
    history = changed(KILLED.history(), ev.FaultEnded, status="info", detail="who knows")

    named = verdict_on(KILLED, history, verdict="inconclusive", check="faults-happened")
    other = verdict_on(KILLED, history, verdict="inconclusive", check="trajectory")

    assert named.as_expected
    expect_text(named.expectation)
    assert not other.as_expected


def test_a_defect_is_not_the_expected_one_where_not_all_was_seen() -> None:
    torn = History(GUILTY.history().entries, torn=("worker-1000",))

    verdict = verdict_on(GUILTY, torn, verdict="fail")

    assert (verdict.status, verdict.as_expected) == ("fail", False)
    assert verdict.expectation.endswith(", but watched is inconclusive")


def test_a_torn_journal_of_a_killed_worker_is_no_ground_for_doubt() -> None:
    torn = History(GUILTY.history().entries, torn=("worker-1001",))

    assert verdict_on(GUILTY, torn, verdict="fail").as_expected


@pytest.mark.parametrize("failure", [BLIND, NUMB], ids=["observer", "probe"])
def test_where_we_failed_to_see_nobody_is_accused(failure: ev.AnyEvent) -> None:
    verdict = verdict_on(GUILTY, told(GUILTY.history(), failure), verdict="fail")

    assert (verdict.status, verdict.as_expected) == ("inconclusive", False)
    assert " failed in " in verdict.headline


def test_a_right_job_is_not_what_was_expected_of_a_guilty_one() -> None:
    verdict = verdict_on(KILLED, verdict="fail", check="cursor")

    assert not verdict.as_expected
    expect_text(verdict.expectation)


def test_an_empty_history_is_unknown() -> None:
    verdict = judge(KILLED.plan(), History([]))

    assert verdict.status == "inconclusive"
    assert judge(Story().plan(), History([])).status == "inconclusive"


def test_a_divergence_without_a_restart_is_not_called_a_resumption() -> None:
    story = Story((Strike(3, 2, kind="preempt_node", drift=99),))
    history = changed(
        story.history(), ev.StepDone, lambda e: (e.epoch, e.step) == (3, 6), losses=(9.0,)
    )
    op = Op(index=0, at=AtStep(epoch=3, step=2, rank=0), slow_worker=SlowWorker(delay_s=1.0))

    plan = story.plan().model_copy(update={"ops": (op,)})
    verdict = judge(plan, history, story.baseline())

    assert verdict.broken[0].check == TRAJECTORY
    assert "; the job finished, but from epoch 3, step 6 on its loss" in verdict.headline


def test_a_metric_and_a_leftover_are_both_reported() -> None:
    history = told(KILLED.history(), ev.Leftover(kind="actor", name="RayTrainWorker"))

    assert verdict_on(KILLED, history).headline.endswith("RayTrainWorker.")
    expect_in_headline(verdict_on(KILLED, history), "actor-left")
