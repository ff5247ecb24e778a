"""Hangs and standstills: terminates, progress."""

import pytest

from chaos.model import event as ev
from chaos.model.history import History
from tests.check.story import Story, Strike
from tests.check.tamper import later, result_on, rows, told, verdict_on, without

KILLED = Story((Strike(2, 3, 1),))


def unfinished(story: Story) -> History:
    return without(without(story.history(), ev.FitReturned), ev.DriverExited)


def hung(history: History) -> History:
    return told(history, ev.DeadlinePassed(limit_s=240))


def test_a_run_at_its_limit_names_the_last_progress() -> None:
    summary = result_on("terminates", KILLED, hung(unfinished(KILLED))).summary

    assert summary.endswith("the last progress was the commit of epoch 3, 0 s before")


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

    assert result.validity == "unknown"
    assert "while rank 1 was held by us" in result.summary


def test_a_hang_in_the_notice_window_is_the_jobs() -> None:
    story = Story((Strike(1, 2, 1, kind="preempt_node"),))
    history = hung(without(unfinished(story), ev.FaultEnded))

    assert result_on("terminates", story, history).validity == "invalid"


def test_a_job_that_stood_still_long_before_its_limit_is_stalled_first() -> None:
    history = hung(unfinished(KILLED))
    history = later(history, rows(history, ev.Committed)[-1], by_s=200)

    verdict = verdict_on(KILLED, history)

    assert verdict.broken[0].check == "progress"
    assert "hung: the last progress was the commit of epoch 3, 200 s before" in verdict.headline


def test_a_straggler_is_not_stalled() -> None:
    history = later(KILLED.history(), rows(KILLED.history(), ev.StepDone)[-5], by_s=100)

    assert result_on("progress", KILLED, history).validity == "valid"


def test_a_start_is_not_training_and_may_take_its_time() -> None:
    (opened,) = rows(KILLED.history(), ev.WorkerGroupStarted, lambda e: e.attempt == 1)
    history = later(KILLED.history(), opened, by_s=500)

    assert result_on("progress", KILLED, history).validity == "valid"


def test_a_rank_that_we_hold_keeps_nobody_waiting_by_itself() -> None:
    story = Story((Strike(1, 2, 1, kind="preempt_node", drift=9),))
    (reached,) = rows(story.history(), ev.GateReached)
    history = later(story.history(), reached, by_s=500)

    assert result_on("progress", story, history).validity == "valid"
