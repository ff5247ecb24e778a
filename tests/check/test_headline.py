"""The verdict in one sentence, which claims no more than was shown."""

import pytest

from chaos.check.judge import judge
from chaos.check.trajectory import TRAJECTORY
from chaos.faults.slow_worker import SlowWorker
from chaos.model import event as ev
from chaos.model.plan import Op
from chaos.model.trigger import AtStep
from tests.accepted import expect_text
from tests.check.story import Story, Strike
from tests.check.tamper import changed, told, verdict_on, without
from tests.findings import expect_in_headline

KILLED = Story((Strike(2, 3, 1),))


def test_a_job_that_came_out_the_same_is_told_in_one_sentence() -> None:
    expect_text(verdict_on(KILLED).headline)


@pytest.mark.parametrize(
    ("strikes", "words"),
    [
        ((Strike(0, 2),), "Rank 0 was killed at epoch 0, step 2; the job started again from scr"),
        ((Strike(1, 2, kind="kill_node"),), "The node of rank 0 was lost at epoch 1, step 2; "),
        (
            (Strike(1, 2, kind="preempt_node"),),
            "The node of rank 0 was given notice at epoch 1, step 2 and lost 1 s later; ",
        ),
        (
            (Strike(1, moment="reported"),),
            "Rank 0 was killed when report() of epoch 1 had returned and Ray had not comm",
        ),
        (
            (Strike(1, 1), Strike(2, 1), Strike(3, 1, 1)),
            "Rank 0 was killed at epoch 1, step 1, rank 0 was killed at epoch 2, step 1 and rank ",
        ),
    ],
)
def test_every_deed_has_its_words(strikes: tuple[Strike, ...], words: str) -> None:
    assert verdict_on(Story(strikes)).headline.startswith(words)


def test_many_restarts_are_counted_and_the_last_one_told() -> None:
    story = Story((Strike(1, 1), Strike(2, 1)))

    headline = verdict_on(story).headline
    assert "; the job restarted 2 times" in headline
    assert "from checkpoint_1_1 (epoch 1)" in headline


def test_several_broken_promises_are_told_after_the_first() -> None:
    story = Story(KILLED.strikes, surplus=2, extra=1)

    expect_text(verdict_on(story).headline)


def test_a_headline_does_not_claim_what_was_not_shown() -> None:
    history = changed(
        KILLED.history(),
        ev.StepDone,
        lambda e: e.epoch == 3,
        losses=(0.1,),
    )
    unheard = without(history, ev.WorkerStarted, lambda e: e.attempt == 1)

    assert verdict_on(KILLED, history).headline.endswith("number of steps are right.")
    assert not verdict_on(KILLED, unheard).headline.endswith("number of steps are right.")


def test_a_divergence_without_a_restart_is_not_called_a_resumption() -> None:
    story = Story((Strike(3, 2, kind="preempt_node", drift=99),))
    history = changed(
        story.history(), ev.StepDone, lambda e: (e.epoch, e.step) == (3, 6), losses=(9.0,)
    )
    op = Op(index=0, at=AtStep(epoch=3, step=2, rank=0), slow_worker=SlowWorker(delay_s=1.0))

    plan = story.plan().model_copy(update={"ops": (op,)})
    verdict = judge(plan, history, story.baseline())

    assert verdict.broken[0].check == TRAJECTORY
    assert "; the job finished, but from epoch 3, step 6 on its loss" in verdict.headline


def test_a_metric_and_a_leftover_are_both_reported() -> None:
    history = told(KILLED.history(), ev.Leftover(kind="actor", name="RayTrainWorker"))

    assert verdict_on(KILLED, history).headline.endswith("RayTrainWorker.")
    expect_in_headline(verdict_on(KILLED, history), "actor-left")
