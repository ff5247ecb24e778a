"""Whether the retry budgets were kept: retry-budget."""

from typing import Any

import msgspec
import pytest

from chaos.faults.kill_driver import KillDriver
from chaos.model import event as ev
from chaos.model.bounds import Charges
from chaos.model.fault_entry import FaultEntry
from chaos.model.history import History, JournalEntry
from chaos.model.plan import Op, Plan
from chaos.model.scenario import FailureBudget
from chaos.model.verdict import CheckResult
from tests.check.each import judge_each
from tests.check.shorthand import plan_of, told_in
from tests.check.story import Story, Strike
from tests.check.tamper import changed, rows, without
from tests.findings import expect_finding

PLAIN = "g s s r c s s r c ."
THRICE = "g s s r c s x g<c0 s x g<c0 s x g<c0 s s r c ."
PREEMPTED = "g s s r c s n s X g<c0 s s r c ."


def called(**settings: Any) -> ev.FitCalled:
    return ev.FitCalled(
        trainer="T",
        workers=2,
        run_name="r",
        storage_path="/a",
        settings=settings,
        original_settings={},
    )


def calling(history: History, *, at: int = 0, **settings: Any) -> History:
    entry = JournalEntry(
        time_ns=history[at].time_ns, source="driver", seq=at, event=called(**settings)
    )
    return History([*history.entries[:at], entry, *history.entries[at:]])


def judged(
    history: History, line: str, failure: FailureBudget | None = None, **expect: Any
) -> CheckResult:
    plan = plan_of(line, **expect)
    plan = plan.model_copy(update={"job": plan.job.model_copy(update={"failure": failure})})
    results = judge_each(plan, history, told_in(PLAIN)).results
    return next(result for result in results if result.check == "retry-budget")


@pytest.mark.parametrize(
    ("allowed", "status"), [(0, "fail"), (1, "fail"), (2, "fail"), (3, "pass")]
)
def test_a_retry_beyond_the_budget_is_found(allowed: int, status: str) -> None:
    history = calling(told_in(THRICE), max_failures=allowed)

    assert judged(history, THRICE).status == status
    planned = judged(told_in(THRICE), THRICE, FailureBudget(max_failures=allowed))
    assert planned.status == status


def test_a_retry_beyond_the_budget_is_told_with_its_decision() -> None:
    history = calling(told_in(THRICE), max_failures=2)

    result = judged(history, THRICE)

    expect_finding(
        result,
        "retry-limit-exceeded",
        attempt=2,
        budget="failures",
        charged_count=3,
        setting="max_failures",
        limit=2,
    )
    assert result.anomalies[0].events == (rows(history, ev.FailureDecided)[-1],)


def test_what_the_plan_expects_to_be_charged_keeps_no_budget() -> None:
    history = calling(told_in(THRICE), max_failures=1)

    assert judged(history, THRICE, charges=Charges(failures=3)).status == "fail"


def test_no_limit_is_never_overrun() -> None:
    assert judged(calling(told_in(THRICE), max_failures=-1), THRICE).status == "pass"


@pytest.mark.parametrize(("allowed", "status"), [(-1, "fail"), (1, "fail"), (0, "pass")])
def test_a_run_that_is_given_up_below_its_budget_is_found(allowed: int, status: str) -> None:
    line = "g s s r c s x ."
    history = changed(told_in(line), ev.FailureDecided, decision="RAISE")

    result = judged(calling(history, max_failures=allowed), line)

    assert result.status == status
    words = {-1: "is without limit", 1: "allows 1"}.get(allowed, "")
    if status == "fail":
        expect_finding(
            result,
            "gave-up-early",
            attempt=0,
            limit=None if allowed < 0 else allowed,
            error="RuntimeError: connection closed by peer",
        )
    assert words in result.summary


def test_preemptions_have_a_budget_of_their_own() -> None:
    history = told_in(PREEMPTED)

    def found(of_failures: int, of_preemptions: int) -> str:
        settings = {"max_failures": of_failures, "max_preemption_failures": of_preemptions}
        return judged(calling(history, **settings), PREEMPTED).status

    assert (found(0, 1), found(0, -1), found(5, 0)) == ("pass", "pass", "fail")


def test_a_budget_that_nobody_told_of_is_unknown() -> None:
    result = judged(told_in(THRICE), THRICE)

    assert result.status == "inconclusive"
    assert "`max_failures` is not known" in result.summary
    assert judged(told_in(PLAIN), PLAIN).status == "pass"


def test_what_was_in_force_counts_more_than_what_was_planned() -> None:
    history = calling(told_in(THRICE), max_failures=1)

    assert judged(history, THRICE, FailureBudget(max_failures=9)).status == "fail"


def test_a_driver_that_is_started_again_counts_anew() -> None:
    history = calling(told_in(THRICE), max_failures=2)
    second = rows(history, ev.FailureDecided)[1]

    again = calling(history, at=second + 1, max_failures=2)

    assert (judged(history, THRICE).status, judged(again, THRICE).status) == (
        "fail",
        "pass",
    )


def test_what_a_controller_decides_after_its_driver_was_killed_charges_nothing() -> None:
    line = "g s s r c s x g<c0 s s r c ."
    plan = plan_of(line, charges=Charges(failures=0))
    at = plan.ops[0].at
    driver = Op.from_entry(0, FaultEntry(at=at, kill_driver=KillDriver()))

    def status(plan: Plan, history: History) -> str:
        results = judge_each(plan, history, told_in(PLAIN)).results
        return next(result.status for result in results if result.check == "retry-budget")

    killed = plan.model_copy(update={"ops": (driver,)})
    history = told_in(line)
    [decided] = rows(history, ev.FailureDecided)
    [invoked] = rows(history, ev.FaultInvoked)
    entries = list(history.entries)
    before = [*entries[:invoked], entries[decided], *entries[invoked:decided]]
    another = [*entries]
    another[decided] = msgspec.structs.replace(entries[decided], source="controller-2")
    assert status(plan, history) == "fail"
    assert status(killed, history) == "pass"
    assert status(killed, History(another)) == "fail"  # of the driver that was started again
    assert status(killed, History([*before, *entries[decided + 1 :]])) == "fail"


def test_a_decision_that_costs_nothing_keeps_every_budget() -> None:
    story = Story((Strike(2, 3, 1),), budget=0)
    free = changed(without(story.history(), ev.FitRaised), ev.FailureDecided, decision="NOOP")

    results = judge_each(story.plan(), free, story.baseline()).results

    assert "allows" not in next(r for r in results if r.check == "retry-budget").summary


def test_a_command_that_ends_by_itself_has_no_budget_that_it_was_charged_to() -> None:
    plan = plan_of("g s s r c s x .")
    job = plan.job.model_copy(update={"launcher": "python", "restart": "command"})
    run = told_in("g s s r c s x g<c0 s s x0 g<c0 s r c .")

    results = judge_each(
        plan.model_copy(update={"job": job}), run, told_in("g s s r c s s r c .")
    ).results
    found = next(result for result in results if result.check == "retry-budget")

    assert found.status == "fail"
    expect_finding(found, "charge-without-fault", attempt=1)
