"""Faults that need not end an attempt, or are charged to nothing; and defects of Ray's own."""

from typing import Any

import msgspec

from chaos.check.analysis import RunAnalysis
from chaos.faults.freeze_node import FreezeNode
from chaos.faults.kill_driver import KillDriver
from chaos.faults.preempt_node import PreemptNode
from chaos.model import event as ev
from chaos.model.history import History, JournalEntry
from chaos.model.plan import Op, Plan
from chaos.model.trigger import AtStep
from tests.accepted import expect_text
from tests.check.each import judge_each
from tests.check.story import Story, Strike
from tests.check.tamper import changed, told, without

AT = AtStep(epoch=2, step=3, rank=1)
STRUCK = Story(strikes=(Strike(epoch=2, step=3, rank=1),))
CLEAN = Story()
WHO: dict[str, Any] = {"attempt": 0, "rank": 1, "pid": 1001, "node_id": "node-0-1"}
STOOD_STILL: tuple[ev.AnyEvent, ...] = (
    ev.FaultInvoked(op=0, fault="freeze_node", **WHO),
    ev.FaultEnded(op=0, status="ok", detail="it stood still"),
)


def plan_with(**fault: Any) -> Plan:
    return STRUCK.plan().model_copy(update={"ops": (Op(index=0, at=AT, **fault),)})


FROZEN = plan_with(freeze_node=FreezeNode(for_s=1))
DRIVERLESS = plan_with(kill_driver=KillDriver())


def result(plan: Plan, history: History, check: str) -> str:
    verdict = judge_each(plan, history, STRUCK.baseline())
    return next(r.status for r in verdict.results if r.check == check)


def test_a_node_that_stood_still_for_a_moment_costs_nothing() -> None:
    history = told(CLEAN.history(), *STOOD_STILL, before=ev.Committed)

    verdict = judge_each(FROZEN, history, CLEAN.baseline())

    assert verdict.status == "pass", verdict.headline
    assert verdict.headline.startswith("The node of rank 1 stood still for 1 s")


def test_a_node_that_ray_gave_up_is_a_failure() -> None:
    verdict = judge_each(FROZEN, STRUCK.history(), STRUCK.baseline())

    assert verdict.status == "pass", verdict.headline


def test_a_restart_without_a_charge_is_found_where_a_node_stood_still() -> None:
    unpaid = without(STRUCK.history(), ev.FailureDecided)

    assert result(FROZEN, unpaid, "attempts") == "fail"


def test_a_driver_that_is_started_again_is_charged_to_nothing() -> None:
    history = without(STRUCK.history(), ev.FailureDecided)

    verdict = judge_each(DRIVERLESS, history, STRUCK.baseline())

    assert verdict.status == "pass", verdict.headline


def test_a_false_alarm_that_ray_believed_is_a_preemption() -> None:
    story = Story(strikes=(Strike(epoch=1, step=2, rank=1, kind="preempt_node"),))
    false = Op(
        index=0,
        at=AtStep(epoch=1, step=2, rank=1),
        preempt_node=PreemptNode(notice_s=1, reclaim="never"),
    )
    plan = story.plan().model_copy(update={"ops": (false,)})

    verdict = judge_each(plan, story.history(), story.baseline())
    as_failure = changed(story.history(), ev.FailureDecided, charged="failures")

    assert verdict.status == "pass", verdict.headline
    assert "given notice at epoch 1, step 2 and stayed" in verdict.headline
    assert RunAnalysis(plan, story.history()).injections[0].hit_attempt == 0
    assert RunAnalysis(plan, as_failure).injections[0].hit_attempt is None


def test_a_group_that_a_kill_ended_just_before_the_deadline_was_not_preempted() -> None:
    """Found by random plan 42: the preemption claimed what the kill had done."""
    notice = Strike(epoch=1, step=2, rank=1, kind="preempt_node", drift=99)
    story = Story(strikes=(notice, Strike(epoch=1, step=3, rank=0)))
    decided = next(e for e in story.history() if isinstance(e.event, ev.FailureDecided))
    soon = decided.time_ns + 50_000_000
    history = History([_due(entry, soon) for entry in story.history()])

    struck = RunAnalysis(story.plan(), told(history, _LOST)).injections

    assert [strike.hit_attempt for strike in struck][1] == 0
    assert struck[0].hit_attempt != 0


def test_a_node_that_is_killed_under_notice_is_a_preemption_to_ray() -> None:
    """Found by random plan 116."""
    notice = Strike(epoch=1, step=2, rank=1, kind="preempt_node", drift=99)
    story = Story(strikes=(notice, Strike(epoch=1, step=3, rank=1, kind="kill_node")))
    history = changed(story.history(), ev.FailureDecided, charged="preemptions")
    elsewhere = Story(strikes=(notice, Strike(epoch=1, step=3, rank=0, kind="kill_node")))
    other = changed(elsewhere.history(), ev.FailureDecided, charged="preemptions")
    gone = ev.FaultEnded(op=0, status="fail", detail="the node is lost already")

    def judged(plan: Plan, history: History) -> str:
        verdict = judge_each(plan, told(history, gone), STRUCK.baseline())
        return next(r.status for r in verdict.results if r.check == "retry-budget")

    assert judged(story.plan(), history) != "fail"
    assert judged(elsewhere.plan(), other) == "fail"


_LOST = ev.FaultEnded(op=0, status="ok", detail="the node is dead")


def _due(entry: JournalEntry, deadline_ns: int) -> JournalEntry:
    if not isinstance(entry.event, ev.NoticeGiven):
        return entry
    return msgspec.structs.replace(
        entry, event=msgspec.structs.replace(entry.event, deadline_ns=deadline_ns)
    )


def test_a_defect_of_rays_own_is_news_once_it_is_gone() -> None:
    plan = STRUCK.plan(verdict="fail", check="retry-budget", until="fixed", seen_in=("2.60.0",))
    guilty = changed(STRUCK.history(), ev.FailureDecided, charged="preemptions")

    gone = judge_each(plan, STRUCK.history(), STRUCK.baseline())
    shown = judge_each(plan, guilty, STRUCK.baseline())

    assert (gone.as_expected, gone.is_news) == (True, True)
    expect_text(gone.expectation)
    assert (shown.as_expected, shown.is_news) == (True, False)


def test_a_defect_is_looked_for_besides_another_known_one() -> None:
    guilty = changed(STRUCK.history(), ev.FailureDecided, charged="preemptions")
    left = ev.Leftover(kind="actor", name="PlacementGroupCleaner, pid 1")
    due: dict[str, Any] = {"verdict": "fail", "check": "retry-budget", "until": "fixed"}
    alone, beside = STRUCK.plan(**due), STRUCK.plan(**due, besides=("leftovers",))

    both = told(guilty, left, before=ev.LeftoversSearched)
    other = told(STRUCK.history(), left, before=ev.LeftoversSearched)

    assert not judge_each(alone, both, STRUCK.baseline()).as_expected
    assert judge_each(beside, both, STRUCK.baseline()).as_expected
    fixed = judge_each(beside, other, STRUCK.baseline())
    assert (fixed.status, fixed.as_expected, fixed.is_news) == ("fail", True, True)
    assert fixed.expectation.endswith("it did not show: fixed?")


def test_a_job_that_returns_where_a_defect_was_to_make_it_raise_is_news() -> None:
    plan = STRUCK.plan(verdict="fail", check="checkpoints", until="fixed", outcome="error")
    spoilt = changed(STRUCK.history(), ev.FailureDecided, charged="preemptions")

    verdict = judge_each(plan, spoilt, STRUCK.baseline())

    assert (verdict.status, verdict.as_expected, verdict.is_news) == ("fail", True, True)


def test_a_defect_that_the_embedded_backend_does_not_show_is_no_news() -> None:
    plan = STRUCK.plan(verdict="fail", until="fixed").model_copy(update={"backend": "fork"})

    verdict = judge_each(plan, STRUCK.history(), STRUCK.baseline())

    assert (verdict.as_expected, verdict.is_news) == (True, False)
    expect_text(verdict.expectation)


def test_a_defect_that_was_not_looked_for_is_no_news() -> None:
    plan = STRUCK.plan(verdict="fail", until="fixed")

    verdict = judge_each(plan, without(STRUCK.history(), ev.FaultEnded), STRUCK.baseline())

    assert verdict.status == "inconclusive"
    assert (verdict.as_expected, verdict.is_news) == (False, False)
