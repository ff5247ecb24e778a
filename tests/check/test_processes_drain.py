"""What is made of a notice: no new work on the node, no standstill, and a save where one is due."""

from typing import Any

import pytest
from msgspec.structs import replace

from chaos.check.analysis import RunAnalysis
from chaos.faults.evict_node import EvictNode
from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.plan import Op
from chaos.model.verdict import CheckResult
from tests.accepted import expect_text
from tests.check.each import judge_each
from tests.check.story import Story, Strike
from tests.check.tamper import analysis_of, changed, later, result_on, rows, told, without
from tests.findings import expect_finding

# The node goes within the epoch; or one whole report after the notice.
SOON = Story((Strike(1, 2, 1, kind="preempt_node"),))
LATER = Story((Strike(1, 2, 1, kind="preempt_node", drift=9),))
FILES = Story(LATER.strikes, files=True)


def due_when_lost(history: History) -> History:
    """Put the deadline where the node was lost."""
    (lost,) = rows(history, ev.FaultEnded)
    return changed(history, ev.NoticeGiven, deadline_ns=history.time_ns(lost) - 500_000)


def standing_still(story: Story, seconds: float) -> History:
    """Return that nothing was done for so long before the node went."""
    history = story.history()
    last = rows(history, ev.StepDone, lambda e: e.attempt == 0)[-1]
    return due_when_lost(later(history, last, by_s=seconds))


def in_window(history: History, kind: type[ev.Event]) -> list[int]:
    (notice,), (lost,) = rows(history, ev.NoticeGiven), rows(history, ev.FaultEnded)
    return [number for number in rows(history, kind) if notice < number < lost]


def without_numbers(history: History, gone: list[int]) -> History:
    return History([entry for number, entry in enumerate(history) if number not in gone])


def drain(story: Story, history: History | None = None, **expect: Any) -> CheckResult:
    return result_on("drain", story, history, **expect)


# -- standstill ----------------------------------------------------------------------------


def test_ranks_that_wait_for_each_other_until_the_deadline_are_found() -> None:
    history = standing_still(SOON, 10)

    result = drain(SOON, history)

    expect_finding(result, "standstill-until-deadline", still_s=10.0)
    assert result.anomalies[0].events == (rows(history, ev.NoticeGiven)[0],)


@pytest.mark.parametrize(("seconds", "status"), [(2.9, "pass"), (3.1, "fail")])
def test_what_ray_needs_to_end_a_group_is_no_standstill(seconds: float, status: str) -> None:
    assert drain(SOON, standing_still(SOON, seconds)).status == status


def test_the_time_before_the_notice_is_ours() -> None:
    history = SOON.history()
    (notice,) = rows(history, ev.NoticeGiven)
    slow = later(history, notice - 1, by_s=60)
    idle = without(slow, ev.StepDone, lambda e: e.attempt == 0 and (e.epoch, e.step) > (1, 2))

    assert drain(SOON, due_when_lost(idle)).status == "pass"


def test_a_job_whose_steps_take_long_may_stand_as_long() -> None:
    baseline = later(SOON.baseline(), rows(SOON.baseline(), ev.StepDone)[3], by_s=4)
    history = standing_still(SOON, 14)

    results = judge_each(SOON.plan(), history, baseline).results
    slower = judge_each(SOON.plan(), standing_still(SOON, 16), baseline).results

    assert next(r for r in results if r.check == "drain").status == "pass"
    assert next(r for r in slower if r.check == "drain").status == "fail"


def test_a_notice_for_a_later_attempt_is_laid_beside_that_attempt() -> None:
    story = Story((Strike(1, 3, 1), Strike(2, 2, 1, kind="preempt_node")))
    history = story.history()
    last = rows(history, ev.StepDone, lambda e: e.attempt == 1)[-1]
    still = later(history, last, by_s=10)
    lost = max(rows(still, ev.FaultEnded))
    still = changed(still, ev.NoticeGiven, deadline_ns=still.time_ns(lost) - 500_000)

    assert drain(story).status == "pass"
    assert "training stood still" in drain(story, still).summary


def test_without_a_baseline_nobody_knows_how_long_is_long() -> None:
    assert result_on("drain", SOON, standing_still(SOON, 10), alone=True).status == "pass"


def test_a_group_that_ray_ends_early_does_not_stand_still() -> None:
    history = SOON.history()
    (lost,) = rows(history, ev.FaultEnded)
    deadline_ns = history.time_ns(lost) + 10_000_000_000
    late = changed(history, ev.NoticeGiven, deadline_ns=deadline_ns)

    assert drain(SOON, without(late, ev.WorkerGroupStarted, second)).status == "pass"
    undecided = without(without(late, ev.WorkerGroupStarted, second), ev.FailureDecided)
    assert drain(SOON, hung(undecided)).status == "fail"


def second(opened: ev.WorkerGroupStarted) -> bool:
    return opened.attempt == 1


def hung(history: History) -> History:
    """Cut off what came after the first attempt, and move the end beyond the deadline."""
    over = max(rows(history, ev.StepDone, lambda e: e.attempt == 0))
    last = {*rows(history, ev.DriverExited), *rows(history, ev.RunEnded)}
    kept = [e for n, e in enumerate(history) if n <= over or n in last]
    lost = [e for _, e in history.select_events(ev.FaultEnded)]
    return told(later(History(kept), over, by_s=20), *lost)


def test_a_run_that_is_over_before_the_deadline_does_not_stand_still() -> None:
    story = Story((Strike(3, 5, 1, kind="preempt_node", drift=99),))
    history = story.history()
    (over,) = rows(history, ev.FitReturned)
    due_ns = history.time_ns(over) + 30_000_000_000

    assert drain(story, changed(history, ev.NoticeGiven, deadline_ns=due_ns)).status == "pass"


def test_what_is_done_after_the_deadline_does_not_excuse_the_wait_before_it() -> None:
    history = standing_still(SOON, 10)
    (decided,) = rows(history, ev.FailureDecided)
    step = next(e for _, e in history.select_events(ev.StepDone))

    late = told(history, step, before=ev.FitReturned)

    assert rows(late, ev.StepDone)[-1] > decided
    assert drain(SOON, late).status == "fail"


def test_a_file_that_is_written_is_a_sign_of_life() -> None:
    story = Story(SOON.strikes, files=True)
    history = story.history()
    last = rows(history, ev.StepDone, lambda e: e.attempt == 0)[-1]
    saved = next(entry for entry in history if isinstance(entry.event, ev.FileSaved))
    moved = list(later(history, last, by_s=10))
    told_late = type(saved)(
        time_ns=moved[last + 1].time_ns - 1_000_000,
        source=saved.source,
        seq=saved.seq,
        event=saved.event,
    )
    with_save = due_when_lost(History([*moved[: last + 1], told_late, *moved[last + 1 :]]))

    assert drain(story, due_when_lost(History(moved))).status == "fail"
    assert drain(story, with_save).status == "pass"


# -- expect.jit_checkpoint -----------------------------------------------------------------


def unsaved() -> History:
    history = LATER.history()
    return without_numbers(history, in_window(history, ev.Committed))


def test_a_save_within_the_notice_is_what_was_expected() -> None:
    assert in_window(LATER.history(), ev.Committed)
    assert drain(LATER, jit_checkpoint=True).status == "pass"


def test_a_notice_that_passes_without_a_save_is_found_where_one_is_expected() -> None:
    result = drain(LATER, unsaved(), jit_checkpoint=True)

    expect_finding(result, "notice-unused", notice_s=0.0245)
    assert result.anomalies[0].events == (rows(unsaved(), ev.NoticeGiven)[0],)
    assert drain(LATER, unsaved()).status == "pass"


def test_a_report_without_a_checkpoint_is_no_save() -> None:
    history = changed(LATER.history(), ev.Committed, checkpoint=None)

    assert drain(LATER, history, jit_checkpoint=True).status == "fail"


def test_what_was_reported_before_the_notice_is_no_work_done_after_it() -> None:
    history = LATER.history()
    began = in_window(history, ev.ReportBegun)
    (notice,) = rows(history, ev.NoticeGiven)
    early = [history[number] for number in began]
    entries = list(without_numbers(history, began))

    moved = History([*entries[:notice], *early, *entries[notice:]])

    assert drain(LATER, moved, jit_checkpoint=True).status == "fail"
    gone = without_numbers(history, began)
    assert drain(LATER, gone, jit_checkpoint=True).status == "fail"


def test_what_is_committed_after_the_deadline_came_too_late() -> None:
    history = LATER.history()
    (commit,) = in_window(history, ev.Committed)
    early = changed(history, ev.NoticeGiven, deadline_ns=history.time_ns(commit))
    in_time = changed(history, ev.NoticeGiven, deadline_ns=history.time_ns(commit) + 1)

    assert drain(LATER, early, jit_checkpoint=True).status == "fail"
    assert drain(LATER, in_time, jit_checkpoint=True).status == "pass"


def test_a_notice_too_short_for_three_steps_and_saves_requires_none() -> None:
    assert not in_window(SOON.history(), ev.Committed)
    assert drain(SOON, jit_checkpoint=True).status == "pass"
    assert drain(SOON, standing_still(SOON, 1), jit_checkpoint=True).status == "fail"


def test_a_file_of_the_jobs_own_is_a_save() -> None:
    history = FILES.history()
    saves = in_window(history, ev.FileSaved)
    assert saves

    assert drain(FILES, jit_checkpoint=True).status == "pass"
    lost = without_numbers(history, saves)
    assert drain(FILES, lost, jit_checkpoint=True).status == "fail"


def test_a_job_that_is_done_in_time_has_nothing_to_save() -> None:
    story = Story((Strike(3, 5, 1, kind="preempt_node", drift=99),))
    history = story.history()
    (over,) = rows(history, ev.FitReturned)
    bare = without(history, ev.Committed, lambda e: e.epoch == 3)

    def due(by_ns: int) -> History:
        return changed(bare, ev.NoticeGiven, deadline_ns=bare.time_ns(over - 1) + by_ns)

    assert drain(story, due(1_000_000_000), jit_checkpoint=True).status == "pass"
    assert drain(story, due(0), jit_checkpoint=True).status == "fail"


def test_without_a_baseline_no_save_is_due() -> None:
    history = unsaved()

    assert result_on("drain", LATER, history, alone=True, jit_checkpoint=True).status == "pass"


# -- new work ------------------------------------------------------------------------------


def test_a_group_on_another_node_is_no_new_work_on_this_one() -> None:
    history = due_when_lost(SOON.history())
    (notice,) = rows(history, ev.NoticeGiven)
    places = (ev.WorkerPlace(rank=0, pid=7, node_id="node-9", node_ip="::1"),)
    (opened,) = rows(history, ev.WorkerGroupStarted, second)
    entries = list(history)
    entry = type(entries[0])(
        time_ns=entries[notice].time_ns + 1,
        source="controller-9",
        seq=0,
        event=ev.WorkerGroupStarted(attempt=1, workers=places),
    )
    moved = History([*entries[: notice + 1], entry, *entries[notice + 1 : opened]])

    assert drain(SOON, told(moved, ev.RunEnded())).status == "pass"


def test_a_notice_that_nobody_saw_leaves_it_open() -> None:
    assert drain(SOON, without(SOON.history(), ev.NoticeGiven)).status == "inconclusive"


# -- a platform's own notice ---------------------------------------------------------------


def by_platform(story: Story, *, heard: bool) -> History:
    """Return that a platform announced and took the node, with a drain that Ray heard of or not."""
    history = story.history()
    (invoked,), (lost,) = rows(history, ev.FaultInvoked), rows(history, ev.FaultEnded)
    node = next(e.node_id for _, e in history.select_events(ev.FaultInvoked))
    announced = ev.NodeReclaimed(
        node_id=node,
        machine="7",
        platform="local",
        verified_against="for real",
        stage="announced",
        notice_s=9,
    )
    gone = replace(announced, stage="gone", notice_s=None)
    entries = [
        *history.entries[: invoked + 1],
        replace(history[invoked], event=announced),
        *history.entries[invoked + 1 : lost],
        replace(history[lost], event=gone),
        *history.entries[lost:],
    ]
    told_so = History(entries)
    if heard:
        return told_so
    return changed(without(told_so, ev.NoticeGiven), ev.FailureDecided, charged="failures")


def test_of_a_drain_that_was_not_announced_to_ray_nothing_is_asked() -> None:
    expect_text(drain(SOON, by_platform(SOON, heard=False)).summary)
    assert drain(SOON, by_platform(SOON, heard=True)).status == "pass"


def test_a_platforms_notice_is_a_preemption_where_ray_has_heard_of_it() -> None:
    heard, unheard = (by_platform(SOON, heard=heard) for heard in (True, False))

    assert result_on("retry-budget", SOON, heard).status == "pass"
    assert result_on("retry-budget", SOON, unheard).status == "pass"
    wrong = changed(unheard, ev.FailureDecided, charged="preemptions")
    expect_finding(
        result_on("retry-budget", SOON, wrong),
        "wrong-budget-charged",
        setting="max_failures",
        charged_setting="max_preemption_failures",
    )


def test_an_unheard_notice_harms_when_the_node_is_gone() -> None:
    history = by_platform(SOON, heard=False)
    gone = next(n for n, e in history.select_events(ev.NodeReclaimed) if e.stage == "gone")
    (injection,) = analysis_of(SOON, history).injections

    assert injection.is_reclaimed
    assert not injection.is_announced
    assert injection.harm_ns == history.time_ns(gone)
    assert injection.hit_attempt == 0


def test_a_drain_of_a_pods_own_hook_is_a_preemption_though_the_scenario_states_none() -> None:
    plan = SOON.plan()
    evicted = Op(index=0, at=plan.ops[0].at, evict_node=EvictNode(drain_s=0))
    plan = plan.model_copy(update={"ops": (evicted,)})
    heard, unheard = (
        RunAnalysis(plan, by_platform(SOON, heard=heard), SOON.baseline())
        for heard in (True, False)
    )

    assert [i.budget for i in heard.injections] == ["preemptions"]
    assert [i.budget for i in unheard.injections] == ["failures"]
    assert not any(i.is_exact for i in (*heard.injections, *unheard.injections))
    results = judge_each(plan, by_platform(SOON, heard=True), SOON.baseline()).results
    assert not [r.summary for r in results if r.status == "fail"]
