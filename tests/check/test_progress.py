"""Hangs and standstills: terminates, progress."""

from typing import Any

import msgspec
import pytest

from chaos.model import event as ev
from chaos.model.bounds import Bound
from chaos.model.history import History
from chaos.model.verdict import CheckResult
from tests.accepted import expect_text
from tests.check.each import judge_each
from tests.check.shorthand import plan_of, told_in
from tests.check.story import Story, Strike
from tests.check.tamper import changed, later, result_on, rows, told, verdict_on, without
from tests.findings import expect_finding, expect_in_headline

KILLED = Story((Strike(2, 3, 1),))


def unfinished(story: Story) -> History:
    return without(without(story.history(), ev.FitReturned), ev.DriverExited)


def hung(history: History) -> History:
    return told(history, ev.DeadlinePassed(limit_s=240))


def test_a_run_at_its_limit_names_the_last_progress() -> None:
    history = hung(unfinished(KILLED))
    quiet = later(history, rows(history, ev.DeadlinePassed)[0] - 1, by_s=30)
    result = result_on("terminates", KILLED, quiet)

    expect_finding(
        result,
        "not-over-in-time",
        limit_s=240,
        last_sign={"event_type": "commit", "epoch": 3},
        idle_s=30.005,
        is_limit_settable=True,
    )


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (ev.StepDone, "rank 1's step 6 of epoch 3"),
        (ev.ReportReturned, "rank 1's report of epoch 3"),
        (ev.UploadEnded, "rank 1's upload of epoch 3"),
        (ev.WorkerStarted, "the start of rank 1 in attempt 1"),
        (ev.WorkerGroupStarted, "the start of attempt 1"),
    ],
)
def test_every_kind_of_progress_has_a_name(kept: type[ev.Event], words: str) -> None:
    kinds: list[type[ev.Event]] = [ev.Committed, ev.StepDone, ev.ReportReturned, ev.UploadEnded]
    kinds += [ev.WorkerStarted, ev.WorkerGroupStarted]
    history = unfinished(KILLED)
    for kind in kinds:
        if kind is not kept:
            history = without(history, kind)

    assert words in result_on("terminates", KILLED, hung(history)).summary


def test_a_hang_without_any_progress_is_told() -> None:
    summary = result_on("terminates", Story(), hung(History([]))).summary

    assert "no progress was seen in 240 s" in summary


def test_a_hang_while_we_hold_a_worker_says_nothing_of_the_job() -> None:
    history = hung(without(unfinished(KILLED), ev.FaultEnded))

    result = result_on("terminates", KILLED, history)

    assert result.status == "inconclusive"
    assert "while rank 1 was held by us" in result.summary


def test_a_gate_of_an_earlier_attempt_that_was_never_opened_is_no_hold() -> None:
    """The op was served in the next attempt, and let that rank go on."""
    story = Story((Strike(2, 3, 1, kind="preempt_node", drift=9),))
    whole = without(unfinished(story), ev.FaultEnded)
    (reached,) = rows(whole, ev.GateReached)
    gate = whole.entries[reached]
    earlier = msgspec.structs.replace(gate, event=msgspec.structs.replace(gate.event, attempt=-1))
    history = hung(History([*whole[:reached], earlier, *whole[reached:]]))

    assert "held by us" not in result_on("terminates", story, history).summary


def test_a_hang_in_the_notice_window_is_the_jobs() -> None:
    story = Story((Strike(1, 2, 1, kind="preempt_node"),))
    history = hung(without(unfinished(story), ev.FaultEnded))

    assert result_on("terminates", story, history).status == "fail"


def test_a_job_that_stood_still_long_before_its_limit_is_stalled_first() -> None:
    history = without(hung(unfinished(KILLED)), ev.TrainFnEnded)
    history = later(history, rows(history, ev.Committed)[-1], by_s=200)

    verdict = verdict_on(KILLED, history)

    assert verdict.broken[0].check == "progress"
    expect_in_headline(
        verdict, "stuck-until-limit", last_sign={"event_type": "commit", "epoch": 3}, idle_s=200.0
    )


def test_a_straggler_is_not_stalled() -> None:
    history = later(KILLED.history(), rows(KILLED.history(), ev.StepDone)[-5], by_s=100)

    assert result_on("progress", KILLED, history).status == "pass"


def test_a_start_is_not_training_and_may_take_its_time() -> None:
    (opened,) = rows(KILLED.history(), ev.WorkerGroupStarted, lambda e: e.attempt == 1)
    history = later(KILLED.history(), opened, by_s=500)

    assert result_on("progress", KILLED, history).status == "pass"


def test_a_rank_that_we_hold_keeps_nobody_waiting_by_itself() -> None:
    story = Story((Strike(1, 2, 1, kind="preempt_node", drift=9),))
    (reached,) = rows(story.history(), ev.GateReached)
    history = later(story.history(), reached, by_s=500)

    assert result_on("progress", story, history).status == "pass"


def test_a_hold_is_over_at_its_own_release_and_not_at_a_later_one_of_the_same_op() -> None:
    story = Story((Strike(1, 2, 1, kind="preempt_node", drift=9),))
    once = story.history()
    (released,) = rows(once, ev.GateReleased)
    (end,) = rows(once, ev.FitReturned)
    again = History([*once[:end], once[released], *once[end:]])
    stalled = next(n for n in rows(again, ev.StepDone) if n > released)

    result = result_on("progress", story, later(again, stalled, by_s=500))

    assert result.status == "fail"


# -- slow by itself ------------------------------------------------------------------------


def line(check: str, run: str, baseline: str | None, **expect: Any) -> CheckResult:
    """Judge a line beside its baseline's."""
    due = None if baseline is None else told_in(baseline)
    results = judge_each(plan_of(run, **expect), told_in(run), due).results
    return next(result for result in results if result.check == check)


SLOW = "g s s +125 r c s s +125 r c ."


def test_an_evaluation_that_takes_long_in_the_baseline_too_is_no_standstill() -> None:
    run = "g s s +125 r c s x g<c0 s s +140 r c ."

    result = line("progress", run, SLOW)

    assert result.status == "pass"
    expect_text(result.summary)
    assert line("progress", run, "g s s r c s s r c .").status == "fail"
    assert line("progress", run, None).status == "inconclusive"


def test_a_hang_beside_a_slow_evaluation_is_found() -> None:
    result = line("progress", "g s s +125 r c s x g<c0 s s +251 r c .", SLOW)

    assert result.status == "fail"
    expect_finding(
        result,
        "long-pause",
        seconds=251.0,
        last_sign={"event_type": "step", "attempt": 1, "rank": 1, "epoch": 1, "step": 2},
        limit_s=250.0,
        baseline_s=125.0,
    )


def test_a_standstill_where_the_baseline_has_none_is_not_excused_by_one_elsewhere() -> None:
    result = line("progress", "g s s +125 r c s x g<c0 s +140 s +125 r c .", SLOW)

    assert result.status == "inconclusive"
    expect_text(result.summary)
    longer = line("progress", "g s s +125 r c s x g<c0 s +251 s +125 r c .", SLOW)
    assert longer.status == "fail"


def test_a_clean_run_is_as_slow_as_it_is() -> None:
    result = line("progress", SLOW, None)

    assert result.status == "pass"
    expect_text(result.summary)


def test_a_hang_at_the_limit_of_a_slow_job_is_left_to_the_limit_itself() -> None:
    run = "g s s +125 r c s x g<c0 s s +{} H"

    assert line("progress", run.format(200), SLOW).status == "pass"
    assert line("terminates", run.format(200), SLOW).status == "fail"
    assert line("progress", run.format(300), SLOW).status == "fail"


@pytest.mark.parametrize("last", ["s s r c +1000 .", "s s r c +1000 end:0 end:1 ."])
def test_a_job_that_hangs_after_its_last_commit_is_found(last: str) -> None:
    quick = line("progress", f"g s s r c s x g<c0 {last}", "g s s r c s s r c .")
    slow = line("progress", f"g s s r c s x g<c0 {last}", f"g s s r c {last}")

    expect_finding(
        quick,
        "long-pause",
        seconds=1000.0,
        last_sign={"event_type": "commit", "attempt": 1, "epoch": 1},
    )
    assert (quick.status, slow.status) == ("fail", "pass")


def test_fewer_workers_may_take_longer_over_the_same_work() -> None:
    run = told_in("g s s +125 r c s x g<c0 s s +400 r c .")
    one = changed(
        run, ev.WorkerGroupStarted, lambda e: e.attempt == 1, workers=lambda e: e.workers[:1]
    )

    def found(history: History) -> str:
        results = judge_each(plan_of("g s s r c s x ."), history, told_in(SLOW)).results
        return next(r.status for r in results if r.check == "progress")

    assert (found(one), found(run)) == ("pass", "fail")


STARTS_SLOWLY = "g +130 s s r c s s r c ."


def test_a_start_that_the_baseline_needs_too_is_no_slow_recovery() -> None:
    run = "g +130 s s r c s x g<c0 +140 s s r c ."

    result = line("recovery", run, STARTS_SLOWLY)

    assert result.status == "pass"
    expect_text(result.summary)
    assert line("recovery", run, "g s s r c s s r c .").status == "fail"
    assert line("recovery", run, None).status == "inconclusive"


def test_a_recovery_that_hangs_is_found_where_starts_are_slow() -> None:
    run = "g +130 s s r c s x g<c0 +261 s s r c ."

    assert line("recovery", run, STARTS_SLOWLY).status == "fail"


def test_a_bound_that_is_stated_is_kept_whatever_the_baseline_needs() -> None:
    run = "g +130 s s r c s x g<c0 +140 s s r c ."
    bound = Bound(max=135)

    assert line("recovery", run, STARTS_SLOWLY, recovery_s=bound).status == "fail"
    assert line("recovery", run, None, recovery_s=bound).status == "fail"


# -- after our own limit ---------------------------------------------------------------------------


@pytest.mark.parametrize("check", ["retry-budget", "attempts", "terminates"])
def test_what_may_still_have_come_after_our_limit_is_not_missing(check: str) -> None:
    cut = line(check, "g s s r c s y +15 H", "g s s r c s s r c .")

    assert cut.status == "inconclusive", cut.summary


def test_a_report_that_our_limit_came_before_the_commit_of_is_not_lost() -> None:
    run = "g s s r c s s r end:0 end:1 {}"

    assert line("ack", run.format("H"), "g s s r c s s r c .").status != "fail"
    assert line("ack", run.format("."), "g s s r c s s r c .").status == "fail"
