"""All checks together."""

from typing import Any

import pytest

from chaos.check.analysis import RunAnalysis
from chaos.check.epochs import check_cursor
from chaos.check.judge import CHECKS, judge
from chaos.model import event as ev
from chaos.model.history import History
from tests.accepted import expect_text
from tests.check.story import Story, Strike
from tests.check.tamper import changed, told, verdict_on, without

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
