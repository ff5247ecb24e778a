"""Was anything done, and was it seen?"""

import pytest

from chaos.faults.kill_worker import KillWorker
from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.plan import Op
from chaos.model.trigger import AtMoment, AtRecovery, AtStep, Moment, Stage
from tests.check.each import judge_each
from tests.check.story import Story, Strike
from tests.check.tamper import analysis_of, changed, result_on, told, verdict_on, without

KILLED = Story((Strike(2, 3, 1),))
PREEMPTED = Story((Strike(1, 2, 1, kind="preempt_node"),))


def test_a_fault_that_was_seen_to_land_is_evidence() -> None:
    result = result_on("faults-happened", KILLED)

    assert (result.status, result.evidence) == ("pass", 1)
    assert result.summary == "rank 1 is gone"


def test_a_plan_without_ops_has_nothing_to_prove() -> None:
    assert result_on("faults-happened", Story()).summary == "no fault was planned"


def test_a_place_that_was_never_reached_is_unknown_and_says_how_far_the_rank_came() -> None:
    result = result_on("faults-happened", Story((Strike(7, 5, 1),)))

    assert result.status == "inconclusive"
    assert "rank 1 never reached epoch 7, step 5; it came to epoch 3, step 6" in result.summary


def at_moment(moment: Moment, epoch: int, history: History) -> str:
    op = Op(index=0, at=AtMoment(epoch=epoch, moment=moment, rank=1), kill_worker=KillWorker())
    plan = Story().plan().model_copy(update={"ops": (op,)})
    return judge_each(plan, history, Story().baseline()).results[0].summary


@pytest.mark.parametrize(
    ("moment", "words"),
    [
        ("saving", "came to the middle of a save of epoch 7; the last one seen was of epoch 3"),
        ("upload_begin", "never came to the beginning of its upload of epoch 7; none was seen"),
        ("upload_end", "to the end of its upload of epoch 7; the last one seen was of epoch 3"),
        ("reported", "to the return of its report() of epoch 7; the last one seen was of epoch 3"),
        ("committed", "never came to the commit of epoch 7; the last one seen was of epoch 3"),
    ],
)
def test_a_moment_that_was_never_reached_is_named(moment: Moment, words: str) -> None:
    assert at_moment(moment, 7, Story().history()).endswith(words)


@pytest.mark.parametrize(
    ("story", "stage", "words"),
    [
        (Story(), "loading", "rank 0 began no attempt after op 0"),
        (KILLED, "start", "rank 0 began no attempt after op 0"),
        (
            KILLED,
            "loading",
            "rank 0 called `torch.load` on no file that an earlier attempt had saved",
        ),
        (KILLED, "first_step", "rank 0 began no step after op 0"),
    ],
)
def test_a_recovery_that_never_came_so_far_is_unknown(
    story: Story, stage: Stage, words: str
) -> None:
    at = AtRecovery(recovering_from=0, stage=stage, rank=0)
    plan = KILLED.plan()
    again = Op(index=1, at=at, kill_worker=KillWorker())
    plan = plan.model_copy(update={"ops": (*plan.ops, again)})

    verdict = judge_each(plan, story.history(), Story().baseline())

    assert verdict.status == "inconclusive"
    assert words in verdict.results[0].summary


def test_a_moment_of_another_rank_is_not_taken_for_this_ones() -> None:
    history = without(Story().history(), ev.ReportReturned, lambda e: e.rank == 1)

    assert at_moment("reported", 2, history).endswith("none was seen")


def test_a_rank_that_was_not_held_at_its_place_is_not_said_to_have_missed_it() -> None:
    step = Story((Strike(2, 5, 1),))

    summary = result_on("faults-happened", step, Story().history()).summary
    assert "came to epoch 2, step 5" in summary
    assert summary.endswith("and was not held there")
    commit = at_moment("committed", 2, Story().history())
    assert "came to the commit of epoch 2" in commit
    assert commit.endswith("and was not held there")


def test_a_gate_that_gave_up_says_why() -> None:
    why = "the commit of epoch 1 did not come within 30 s while the rank was held"
    history = without(without(KILLED.history(), ev.FaultInvoked), ev.FaultEnded)
    history = told(history, ev.FaultEnded(op=0, status="fail", detail=why))

    summary = result_on("faults-happened", KILLED, history).summary

    assert summary.endswith(f"rank 1 never happened: {why}")


def test_a_node_that_goes_when_training_is_over_strikes_nobody() -> None:
    late = Story((Strike(3, 5, 1, kind="preempt_node", drift=99),))

    result = result_on("faults-happened", late)

    assert (result.status, result.evidence) == ("inconclusive", 0)
    assert result.summary.endswith("had no effect: training was over before the node went")


def test_a_node_may_go_in_vain_when_training_is_over_after_another_fault() -> None:
    story = Story((Strike(2, 5, 0), Strike(3, 5, 1, kind="preempt_node", drift=99)))

    result = result_on("faults-happened", story)

    assert (result.status, result.evidence) == ("inconclusive", 1)
    assert "op 1: preempt_node" in result.summary


def test_a_node_that_the_job_has_left_is_lost_as_planned() -> None:
    history = changed(PREEMPTED.history(), ev.FaultInvoked, node_id="node-elsewhere")
    history = changed(history, ev.FailureDecided, charged="failures")

    assert analysis_of(PREEMPTED, history).injections[0].hit_attempt is None
    assert result_on("faults-happened", PREEMPTED, history).status == "pass"


def test_a_rank_that_made_no_step_is_said_to_have_made_none() -> None:
    silent = without(Story((Strike(7, 5, 1),)).history(), ev.StepDone)

    assert (
        "no step of it was seen"
        in result_on("faults-happened", Story((Strike(7, 5, 1),)), silent).summary
    )


def test_a_rank_that_was_held_and_not_struck_is_unknown() -> None:
    history = without(without(KILLED.history(), ev.FaultInvoked), ev.FaultEnded)

    assert "nothing was done to it" in result_on("faults-happened", KILLED, history).summary


@pytest.mark.parametrize(("status", "words"), [("fail", "did no harm"), ("info", "is unknown")])
def test_a_fault_that_is_not_ok_is_unknown(status: str, words: str) -> None:
    history = changed(KILLED.history(), ev.FaultEnded, status=status, detail="why")

    result = result_on("faults-happened", KILLED, history)

    assert result.status == "inconclusive"
    assert words in result.summary


def test_a_fault_whose_end_was_not_recorded_is_unknown() -> None:
    history = without(KILLED.history(), ev.FaultEnded)

    assert "not recorded" in result_on("faults-happened", KILLED, history).summary
    assert verdict_on(KILLED, history).status == "inconclusive"


@pytest.mark.parametrize("kind", [ev.FaultInvoked, ev.FaultEnded])
def test_a_fault_that_is_recorded_twice_is_unknown(kind: type[ev.Event]) -> None:
    history = KILLED.history()
    again = [event for _, event in history.select_events(kind)]

    result = result_on("faults-happened", KILLED, told(history, *again))

    assert "recorded 2 times" in result.summary


def test_an_op_without_a_rank_is_described_without_one() -> None:
    plan = KILLED.plan()
    op = Op(index=0, at=AtStep(epoch=9, step=1), kill_worker=KillWorker())
    story = Story()

    verdict = judge_each(plan.model_copy(update={"ops": (op,)}), story.history(), story.baseline())

    assert "never reached epoch 9" in verdict.results[0].summary


def test_a_run_seen_from_beginning_to_end_is_watched() -> None:
    assert result_on("watched", KILLED).status == "pass"


OBSERVER = ev.ObserverFailed(where="after_report", error="KeyError: 'x'")
PROBE = ev.ProbeFailed(attempt=0, rank=1, where="on_step", error="OSError")
CUT = ev.JournalCut(source="worker-9", node_id="0123456789ab")


@pytest.mark.parametrize(
    ("history", "words"),
    [
        (told(KILLED.history(), OBSERVER), "the observer failed in after_report"),
        (told(KILLED.history(), PROBE), "the probe of rank 1 failed in on_step"),
        (told(KILLED.history(), CUT), "what worker-9 wrote last is unknown: node 01234567"),
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

    assert result.status == "inconclusive"
    assert words in result.summary


def test_a_rank_of_a_committed_attempt_that_was_never_heard_of_is_unknown() -> None:
    def of_rank_1(event: ev.StepDone | ev.WorkerStarted) -> bool:
        return event.rank == 1

    history = without(without(Story().history(), ev.StepDone, of_rank_1), ev.WorkerStarted)

    assert "rank 1 of attempt 0" in result_on("watched", Story(), history).summary


def torn(story: Story, source: str) -> History:
    return History(story.history().entries, torn=(source,))


def test_a_killed_worker_may_leave_its_last_line_unfinished() -> None:
    assert result_on("watched", KILLED, torn(KILLED, "worker-1001")).status == "pass"


def test_all_workers_of_a_lost_node_may_leave_their_last_line_unfinished() -> None:
    assert result_on("watched", PREEMPTED, torn(PREEMPTED, "worker-1001")).status == "pass"


@pytest.mark.parametrize("source", ["worker-1000", "controller-9", "chaos"])
def test_a_torn_journal_of_a_process_that_nobody_struck_is_unknown(source: str) -> None:
    assert source in result_on("watched", KILLED, torn(KILLED, source)).summary


def test_what_a_lost_node_had_not_sent_is_neither_lost_work_nor_a_missing_step() -> None:
    def of_epoch_1(event: ev.StepDone) -> bool:
        return event.epoch == 1

    holed = without(KILLED.history(), ev.StepDone, of_epoch_1)
    before = verdict_on(KILLED, holed)

    verdict = verdict_on(KILLED, told(holed, CUT))

    assert "fail" in {result.status for result in before.results}
    assert verdict.status == "inconclusive"
    assert "fail" not in {result.status for result in verdict.results}
    assert any("worker-9 wrote last was lost" in r.summary for r in verdict.results)
