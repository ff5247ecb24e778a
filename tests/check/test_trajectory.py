"""Number by number: trajectory."""

import math

from chaos.check.judge import judge
from chaos.faults.slow_worker import SlowWorker
from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.plan import Op
from chaos.model.trigger import AtStep
from tests.accepted import expect_text
from tests.check.story import Story, Strike, loss
from tests.check.tamper import changed, result_on, verdict_on, without

KILLED = Story((Strike(2, 3, 1),))
TINY = math.ulp(loss(1, 2, 4))


def differs_at(history: History, *place: int, by: float = TINY) -> History:
    attempt, rank, epoch, step = place
    return changed(
        history,
        ev.StepDone,
        lambda e: (e.attempt, e.rank, e.epoch, e.step) == (attempt, rank, epoch, step),
        losses=lambda e: (e.losses[0] + by,),
    )


def test_the_headline_keeps_to_what_is_known() -> None:
    history = differs_at(KILLED.history(), 1, 0, 2, 1, by=0.25)

    expect_text(verdict_on(KILLED, history).headline)


def test_a_difference_without_any_control_is_unknown() -> None:
    def first_attempt(event: ev.StepDone) -> bool:
        return event.attempt == 0

    history = without(KILLED.history(), ev.StepDone, first_attempt)

    assert result_on("trajectory", KILLED, history).status == "pass"
    expect_text(result_on("trajectory", KILLED, differs_at(history, 1, 1, 2, 4)).summary)


def test_without_losses_and_metrics_there_is_no_evidence() -> None:
    history = changed(changed(KILLED.history(), ev.StepDone, losses=None), ev.Committed, metrics=())

    assert result_on("trajectory", KILLED, history).status == "inconclusive"


def test_what_is_right_is_said_only_where_it_was_shown() -> None:
    late = Story((Strike(3, 5, 1, kind="preempt_node", drift=99),))

    op = Op(index=0, at=AtStep(epoch=3, step=5, rank=1), slow_worker=SlowWorker(delay_s=1.0))
    plan = late.plan().model_copy(update={"ops": (op,)})
    verdict = judge(plan, differs_at(late.history(), 0, 0, 3, 6, by=0.25), late.baseline())

    assert "the job finished, but from epoch 3, step 6 on its loss differs" in verdict.headline
    assert "are right" not in verdict.headline


def of_rank_0(story: Story, epoch: int) -> History:
    """Return that Ray recorded one report on rank 0's word alone."""
    return changed(
        story.history(),
        ev.Committed,
        lambda e: e.epoch == epoch,
        metrics=lambda e: ({**e.metrics[0]},),
    )


def test_a_report_that_did_not_wait_for_a_doomed_rank_is_compared_with_rank_0s() -> None:
    noticed = Story((Strike(1, 2, 1, kind="preempt_node", drift=9),))
    alone = of_rank_0(noticed, 1)
    other = changed(alone, ev.Committed, lambda e: e.epoch == 1, metrics=({"accuracy": 9.0},))

    assert verdict_on(noticed, alone).status == "pass"
    assert result_on("trajectory", noticed, other).status == "fail"
    assert result_on("trajectory", KILLED, of_rank_0(KILLED, 2)).status == "fail"
