"""What a restart is charged to, and how many attempts follow: retry-budget, attempts."""

from typing import Any

import pytest

from chaos.check.analysis import RunAnalysis
from chaos.check.budgets import check_attempts
from chaos.model import event as ev
from chaos.model.bounds import Charges
from tests.accepted import expect_text
from tests.check.shorthand import plan_of, told_in
from tests.check.story import Story, Strike
from tests.check.tamper import (
    analysis_of,
    changed,
    result_on,
    told,
    verdict_on,
    without,
)
from tests.findings import expect_finding

KILLED = Story((Strike(2, 3, 1),))
PREEMPTED = Story((Strike(1, 2, 1, kind="preempt_node"),))
LATE = Story((Strike(3, 5, 1, kind="preempt_node", drift=99),))
CHECKS = ("leftovers", "retry-budget", "attempts", "recovery", "lost-work")


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(
    "story",
    [KILLED, PREEMPTED, LATE, Story(), Story((Strike(2, 3, kind="kill_node"), Strike(3, 1)))],
)
def test_a_right_restart_costs_what_it_may(check: str, story: Story) -> None:
    assert result_on(check, story).status == "pass"


@pytest.mark.parametrize(
    ("story", "charged", "words"),
    [
        (PREEMPTED, "failures", "ended by a preemption, and Ray charged it to max_failures"),
        (KILLED, "preemptions", "ended by a failure, and Ray charged it to max_preemption"),
        (KILLED, "controller", "Ray's controller itself failed in attempt 0"),
    ],
)
def test_a_charge_to_the_wrong_budget_is_named(story: Story, charged: str, words: str) -> None:
    history = changed(story.history(), ev.FailureDecided, charged=charged)

    verdict = verdict_on(story, history)

    assert [result.check for result in verdict.broken] == ["retry-budget"]
    assert words in verdict.broken[0].summary


def test_a_preemption_that_hits_an_attempt_together_with_a_kill_wins() -> None:
    one, other = Strike(1, 3, 1, kind="preempt_node", drift=1), Strike(1, 3, 0)
    history = Story((one,)).history()
    invoked = [
        event for _, event in changed(history, ev.FaultInvoked, op=1).select_events(ev.FaultInvoked)
    ]
    ended = [
        event for _, event in changed(history, ev.FaultEnded, op=1).select_events(ev.FaultEnded)
    ]

    result = result_on("retry-budget", Story((one, other)), told(history, *invoked, *ended))

    assert (result.status, result.measures["charged_preemptions"]) == ("pass", 1)


def test_a_node_that_nobody_uses_any_more_costs_nothing_when_it_is_lost() -> None:
    story = Story((Strike(1, 2, 1, kind="preempt_node"), Strike(2, 1, 0)))
    notice, kill = [n for n, _ in story.history().select_events(ev.FaultInvoked)]
    assert notice < kill
    history = changed(
        story.history(),
        ev.NoticeGiven,
        deadline_ns=story.history().time_ns(kill) + 1_500_000_000,
    )

    history = changed(history, ev.FailureDecided, lambda e: e.attempt == 0, charged="failures")

    assert analysis_of(story, history).injections[0].hit_attempt is None


def test_a_failure_that_nobody_caused_is_named() -> None:
    charge = ev.FailureDecided(
        attempt=1, decision="RETRY", charged="failures", error="OutOfMemory", errors={}
    )
    history = told(KILLED.history(), charge)

    expect_finding(
        result_on("retry-budget", KILLED, history),
        "charge-without-fault",
        attempt=1,
        setting="max_failures",
        error="OutOfMemory",
    )


def test_a_fault_that_is_charged_twice_is_named() -> None:
    (charge,) = [event for _, event in KILLED.history().select_events(ev.FailureDecided)]

    assert (
        "a second time" in result_on("retry-budget", KILLED, told(KILLED.history(), charge)).summary
    )


def test_a_fault_that_is_charged_to_nothing_is_named() -> None:
    history = changed(KILLED.history(), ev.FailureDecided, decision="NOOP")

    assert "charged it to no budget" in result_on("retry-budget", KILLED, history).summary


def test_charges_can_be_expected_in_numbers() -> None:
    once, none = Charges(failures=1), Charges()

    assert result_on("retry-budget", KILLED, charges=once).status == "pass"
    expect_finding(
        result_on("retry-budget", KILLED, charges=none),
        "wrong-charge-count",
        setting="max_failures",
        count=1,
        expected_count=0,
    )
    expect_finding(
        result_on("retry-budget", KILLED, charges=Charges(failures=1, preemptions=2)),
        "wrong-charge-count",
        setting="max_preemption_failures",
        count=0,
        expected_count=2,
    )


def test_a_controller_failure_may_be_the_error_that_is_expected() -> None:
    story = Story(KILLED.strikes, budget=0)
    history = changed(story.history(), ev.FailureDecided, charged="controller")

    assert result_on("retry-budget", story, history, outcome="error").status == "pass"


@pytest.mark.parametrize("check", ["retry-budget", "attempts"])
def test_what_is_due_is_not_known_where_a_fault_is_in_doubt(check: str) -> None:
    history = changed(KILLED.history(), ev.FaultEnded, status="info")

    assert result_on(check, KILLED, history).status == "inconclusive"
    assert "came to is not known" in result_on(check, KILLED, history).summary


@pytest.mark.parametrize("check", ["retry-budget", "attempts"])
def test_a_fault_that_surely_failed_makes_no_restart_due(check: str) -> None:
    story = LATE
    history = changed(story.history(), ev.FaultEnded, status="fail")

    assert result_on(check, story, history).status == "pass"


@pytest.mark.parametrize("check", ["retry-budget", "attempts"])
def test_a_run_not_seen_to_its_end_may_still_cost_more(check: str) -> None:
    history = without(KILLED.history(), ev.RunEnded)

    assert "not seen to its end" in result_on(check, KILLED, history).summary


def test_an_attempt_that_nobody_caused_is_named() -> None:
    story = Story()

    result = result_on("attempts", story, KILLED.history())

    expect_finding(
        result,
        "too-many-attempts",
        count=2,
        expected_count=1,
        attempt=1,
        previous_attempt=0,
        error="RuntimeError: connection closed by peer",
    )


def test_without_any_attempt_their_number_is_unknown() -> None:
    history = without(Story().history(), ev.WorkerGroupStarted)

    assert result_on("attempts", Story(), history).summary == "no worker group was seen"


def test_an_attempt_that_does_not_follow_is_named() -> None:
    history = without(KILLED.history(), ev.WorkerGroupStarted, lambda e: e.attempt == 1)

    expect_finding(
        result_on("attempts", KILLED, history),
        "too-few-attempts",
        count=1,
        expected_count=2,
        attempt=0,
    )


def test_a_run_that_is_ended_within_a_recovery_does_not_show_what_was_to_follow() -> None:
    soon, late = ("g s s r c s x +9 H", "g s s r c s x +130 H")
    cut, hung = (
        check_attempts.check(RunAnalysis(plan_of(line), told_in(line))) for line in (soon, late)
    )

    assert cut.status == "inconclusive"
    expect_text(cut.summary)
    expect_finding(hung, "too-few-attempts", count=1, expected_count=2, attempt=0)


def test_attempts_can_be_expected_in_numbers() -> None:
    assert result_on("attempts", KILLED, attempts=2).status == "pass"
    assert result_on("attempts", KILLED, attempts=1).summary == "2 attempts instead of 1"
    assert result_on("attempts", KILLED, attempts=3).summary == "2 attempts instead of 3"


@pytest.mark.parametrize(
    ("check", "expect"),
    [
        ("attempts", {"attempts": 2}),
        ("retry-budget", {"charges": Charges(failures=1)}),
        ("outcome", {"outcome": "error"}),
    ],
)
def test_what_is_expected_of_a_fault_that_never_happened_may_be_missing(
    check: str, expect: dict[str, Any]
) -> None:
    never = Story((Strike(9, 1),))

    result = result_on(check, never, **expect)

    assert result.status == "inconclusive"
    expect_text(result.summary)
    assert result_on(check, Story(), **expect).status == "fail"


@pytest.mark.parametrize(
    ("check", "expect"),
    [("attempts", {"attempts": 1}), ("retry-budget", {"charges": Charges(failures=0)})],
)
def test_what_is_too_much_is_so_with_a_fault_that_never_happened(
    check: str, expect: dict[str, Any]
) -> None:
    story = Story((Strike(2, 3, 1), Strike(9, 1)))

    assert result_on(check, story, **expect).status == "fail"


def test_the_last_fault_has_no_successor_where_an_error_is_expected() -> None:
    story = Story((Strike(1, 2), Strike(2, 2)), budget=1)

    assert result_on("attempts", story, outcome="error").status == "pass"
