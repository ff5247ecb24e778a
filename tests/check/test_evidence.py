"""Was anything done, and was it seen?"""

import pytest

from chaos.check.judge import judge
from chaos.faults.kill_worker import KillWorker
from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.plan import Op
from chaos.model.trigger import AtStep
from tests.check.story import Story, Strike
from tests.check.tamper import changed, result_on, told, verdict_on, without

KILLED = Story((Strike(2, 3, 1),))
PREEMPTED = Story((Strike(1, 2, 1, kind="preempt_node"),))


def test_a_fault_that_was_seen_to_land_is_evidence() -> None:
    result = result_on("faults-happened", KILLED)

    assert (result.validity, result.evidence) == ("valid", 1)
    assert result.summary == "rank 1 is gone"


def test_a_plan_without_ops_has_nothing_to_prove() -> None:
    assert result_on("faults-happened", Story()).summary == "no fault was planned"


def test_a_place_that_was_never_reached_is_unknown_and_says_how_far_the_rank_came() -> None:
    result = result_on("faults-happened", Story((Strike(7, 5, 1),)))

    assert result.validity == "unknown"
    assert "rank 1 never reached epoch 7, step 5; it came to epoch 3, step 6" in result.summary


def test_a_moment_that_was_never_reached_is_named() -> None:
    story = Story((Strike(7, moment="reported", rank=1),))

    assert "never reached epoch 7, reported" in result_on("faults-happened", story).summary


def test_a_rank_that_made_no_step_is_said_to_have_made_none() -> None:
    silent = without(Story((Strike(7, 5, 1),)).history(), ev.StepDone)

    assert (
        "no step of it was seen"
        in result_on("faults-happened", Story((Strike(7, 5, 1),)), silent).summary
    )


def test_a_rank_that_was_held_and_not_struck_is_unknown() -> None:
    history = without(without(KILLED.history(), ev.FaultInvoked), ev.FaultEnded)

    assert "nothing was done to it" in result_on("faults-happened", KILLED, history).summary


@pytest.mark.parametrize(("status", "words"), [("fail", "did no harm"), ("info", "cannot be told")])
def test_a_fault_that_is_not_ok_is_unknown(status: str, words: str) -> None:
    history = changed(KILLED.history(), ev.FaultEnded, status=status, detail="why")

    result = result_on("faults-happened", KILLED, history)

    assert result.validity == "unknown"
    assert words in result.summary


def test_a_fault_whose_end_was_not_recorded_is_unknown() -> None:
    history = without(KILLED.history(), ev.FaultEnded)

    assert "not recorded" in result_on("faults-happened", KILLED, history).summary
    assert verdict_on(KILLED, history).validity == "unknown"


@pytest.mark.parametrize("kind", [ev.FaultInvoked, ev.FaultEnded])
def test_a_fault_that_is_recorded_twice_is_unknown(kind: type[ev.Event]) -> None:
    history = KILLED.history()
    again = [event for _, event in history.of(kind)]

    result = result_on("faults-happened", KILLED, told(history, *again))  # type: ignore[arg-type]

    assert "recorded 2 times" in result.summary


def test_an_op_without_a_rank_is_described_without_one() -> None:
    plan = KILLED.plan()
    op = Op(index=0, at=AtStep(epoch=9, step=1), kill_worker=KillWorker())
    story = Story()

    verdict = judge(plan.model_copy(update={"ops": (op,)}), story.history(), story.baseline())

    assert "the rank never reached epoch 9" in verdict.results[0].summary


def test_a_run_seen_from_beginning_to_end_is_watched() -> None:
    assert result_on("watched", KILLED).validity == "valid"


OBSERVER = ev.ObserverFailed(where="after_report", error="KeyError: 'x'")
PROBE = ev.ProbeFailed(attempt=0, rank=1, where="on_step", error="OSError")


@pytest.mark.parametrize(
    ("history", "words"),
    [
        (told(KILLED.history(), OBSERVER), "the observer failed in after_report"),
        (told(KILLED.history(), PROBE), "the probe of rank 1 failed in on_step"),
        (without(KILLED.history(), ev.RunEnded), "the end of the run was not recorded"),
        (changed(KILLED.history(), ev.RunEnded, interrupted=True), "was interrupted"),
        (without(KILLED.history(), ev.WorkerGroupStarted), "no worker group was seen"),
        (
            without(KILLED.history(), ev.WorkerStarted, lambda e: (e.attempt, e.rank) == (1, 0)),
            "how rank 0 of attempt 1 started was not seen",
        ),
        (
            without(KILLED.history(), ev.StepDone, lambda e: (e.epoch, e.step) == (1, 4)),
            "rank 0 of attempt 0 went from step 3 to 5 of epoch 1",
        ),
    ],
)
def test_a_hole_in_what_was_seen_is_unknown(history: History, words: str) -> None:
    result = result_on("watched", KILLED, history)

    assert result.validity == "unknown"
    assert words in result.summary


def test_a_rank_of_a_committed_attempt_that_was_never_heard_of_is_unknown() -> None:
    def of_rank_1(event: ev.StepDone | ev.WorkerStarted) -> bool:
        return event.rank == 1

    history = without(without(Story().history(), ev.StepDone, of_rank_1), ev.WorkerStarted)

    assert "rank 1 of attempt 0" in result_on("watched", Story(), history).summary


def torn(story: Story, source: str) -> History:
    return History(story.history().entries, torn=(source,))


def test_a_killed_worker_may_leave_its_last_line_unfinished() -> None:
    assert result_on("watched", KILLED, torn(KILLED, "worker-1001")).validity == "valid"


def test_all_workers_of_a_lost_node_may_leave_their_last_line_unfinished() -> None:
    assert result_on("watched", PREEMPTED, torn(PREEMPTED, "worker-1001")).validity == "valid"


@pytest.mark.parametrize("source", ["worker-1000", "controller-9", "chaos"])
def test_a_torn_journal_of_a_process_that_nobody_struck_is_unknown(source: str) -> None:
    assert source in result_on("watched", KILLED, torn(KILLED, source)).summary
