"""How many restarts put a resume to the test."""

import pytest

from chaos.check.judge import judge
from chaos.model import event as ev
from chaos.model.verdict import RestartCounts
from tests.check.parts import KILLED, TWICE, fresh
from tests.check.shorthand import plan_of, told_in
from tests.check.story import Story, Strike
from tests.check.tamper import restored_wrong, shifted, verdict_on, without

NOTHING = "so that no resume was tested"


@pytest.mark.parametrize(
    ("story", "counted"),
    [
        (KILLED, RestartCounts(resumed=1)),
        (TWICE, RestartCounts(resumed=2)),
        (Story((Strike(0, 2),)), RestartCounts(from_scratch=1)),
        (Story((Strike(0, 2), Strike(2, 1))), RestartCounts(resumed=1, from_scratch=1)),
        (Story((Strike(2, 3), Strike(2, moment="recovering"))), RestartCounts(resumed=1, idle=1)),
        (Story(KILLED.strikes, files=True), RestartCounts(resumed=1)),
        (Story(), RestartCounts()),
    ],
)
def test_restarts_are_counted_by_where_they_went_on(story: Story, counted: RestartCounts) -> None:
    assert verdict_on(story).restarts == counted


@pytest.mark.parametrize(
    ("watch", "counted"), [(False, RestartCounts(from_scratch=1)), (True, RestartCounts(resumed=1))]
)
def test_what_was_handed_and_not_asked_for_is_a_resume_only_if_training_shows_it(
    watch: bool, counted: RestartCounts
) -> None:
    story = Story(KILLED.strikes, watch=watch)
    deaf = without(story.history(), ev.CheckpointRead)

    assert verdict_on(story, deaf).restarts == counted


def test_what_was_asked_for_and_left_alone_is_no_resume() -> None:
    history = KILLED.history()
    for name in ("model", "optimizer.momentum_buffer", "optimizer.lr", "schedule", "ema"):
        history = restored_wrong(history, name, fresh(name))

    assert verdict_on(KILLED, shifted(history, 2)).restarts == RestartCounts(from_scratch=1)


def test_a_restart_after_the_end_tests_no_resume() -> None:
    line = "g s s r c x g<c0 ."
    history, baseline = told_in(line), told_in("g s s r c .")

    verdict = judge(plan_of(line), history, baseline)

    assert verdict.restarts == RestartCounts(idle=1)


def test_a_right_run_without_a_resume_says_so_in_its_headline() -> None:
    scratch, resumed = verdict_on(Story((Strike(0, 2),))), verdict_on(KILLED)

    assert scratch.headline.endswith(f" from a checkpoint, {NOTHING}.")
    assert NOTHING not in resumed.headline
    assert NOTHING not in verdict_on(Story()).headline
