"""The model beside recorded runs: it is given when they were struck, and nothing else."""

import pytest

from chaos.errors import UsageError
from chaos.extensions.preflight.estimate import Estimate
from chaos.extensions.preflight.load import build_run_question
from chaos.extensions.preflight.market import find_preset
from chaos.extensions.preflight.question import change_question
from chaos.extensions.preflight.validation import FigureComparison, predict_run, validate_runs
from tests.check.story import Story, Strike
from tests.check.tamper import analysis_of
from tests.extensions.preflight.questions import memoryless

KILLED = Story((Strike(2, 3, 1),))
PREEMPTED = Story((Strike(1, 2, 1, kind="preempt_node"),))


def compared(*stories: Story) -> dict[str, FigureComparison]:
    trials = [analysis_of(story) for story in stories]
    question = build_run_question(trials, source="a story", market=find_preset("hot-4h"))
    return {row.figure: row for row in validate_runs(question, trials).rows}


def test_a_model_story_is_predicted() -> None:
    rows = compared(KILLED)

    assert (rows["attempts"].predicted.value, rows["attempts"].measured.value) == (2, 2)
    assert rows["steps lost"].measured.value == 3
    assert rows["finish"].difference == pytest.approx(0, abs=0.5)


def test_costs_that_are_wrong_show() -> None:
    analysis = analysis_of(KILLED)
    question = build_run_question([analysis], source="a story", market=find_preset("hot-4h"))
    slow = change_question(question, {"costs.detect_s": 100.0})

    (finish,) = [row for row in validate_runs(slow, [analysis]).rows if row.figure == "finish"]

    assert finish.difference > 1


def test_announced_losses_and_clean_runs_are_not_compared() -> None:
    question = build_run_question([analysis_of(KILLED)], source="s", market=find_preset("hot-4h"))

    with pytest.raises(UsageError, match="no recorded run"):
        validate_runs(question, [analysis_of(PREEMPTED), analysis_of(Story(()))])


def test_two_strikes_are_two_restarts_and_what_they_threw_away() -> None:
    # 20 s to start, a save of 10 s every 100 steps; one strike before and one behind a commit.
    asked = memoryless(loss_every_s=1e6, every=100, commits=10, restart_s=20, nodes=2)

    course = predict_run(asked, [55, 130])

    assert course.attempts == 3
    assert course.lost_steps == pytest.approx(55 + 30)
    assert course.finish_s == pytest.approx(3 * 20 + 55 + 30 + 1000 + 10 * 10)


def exactly(predicted: float, measured: float) -> FigureComparison:
    left, right = (Estimate(value, value, value) for value in (predicted, measured))
    return FigureComparison("x", "s", 1, left, right)


def test_a_difference_is_a_share_of_what_was_measured() -> None:
    assert exactly(11, 10).difference == pytest.approx(0.1)
    assert exactly(0, 0).difference == 0
    assert exactly(1, 0).difference == float("inf")


def test_it_agrees_where_the_mean_lies_in_what_was_predicted() -> None:
    measured = Estimate(10, 5, 15)

    assert FigureComparison("x", "s", 9, Estimate(12, 9, 14), measured).agrees
    assert not FigureComparison("x", "s", 9, Estimate(12, 11, 14), measured).agrees
