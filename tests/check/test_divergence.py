"""The first place where a run leaves its baseline."""

import math
from typing import Any

import pytest

from chaos.check.analysis import RunAnalysis
from chaos.check.divergence import find_divergence
from chaos.model import event as ev
from chaos.model.bounds import Tolerance
from chaos.model.history import History
from tests.accepted import expect_text
from tests.check.story import Story, Strike, loss
from tests.check.tamper import analysis_of, changed, result_on
from tests.findings import expect_finding

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


def test_an_equal_run_is_equal_to_the_last_bit() -> None:
    result = result_on("trajectory", KILLED)

    assert result.status == "pass"
    expect_text(result.summary)
    assert find_divergence(analysis_of(KILLED)) is None


def test_one_bit_of_one_loss_after_the_restart_is_found() -> None:
    history = differs_at(KILLED.history(), 1, 1, 2, 4)

    result = result_on("trajectory", KILLED, history)
    first = find_divergence(analysis_of(KILLED, history))

    assert result.status == "fail"
    expect_finding(
        result,
        "numbers-differ-at-resume",
        number_type="loss",
        first_pair={"epoch": 2, "step": 4, "rank": 1, "value_name": "loss", "attempt": 1},
    )
    assert "1 of 48 differ" in result.summary
    assert first is not None
    assert (first.epoch, first.step, first.rank, first.baseline_value) == (2, 4, 1, loss(1, 2, 4))
    assert repr(first.run_value) in result.summary


def test_the_first_of_many_differences_is_named() -> None:
    history = differs_at(KILLED.history(), 1, 1, 3, 2)
    history = differs_at(history, 1, 1, 2, 5)
    history = differs_at(history, 1, 0, 3, 1)

    first = find_divergence(analysis_of(KILLED, history))

    assert first is not None
    assert first.order == ((2, 5), 1)


@pytest.mark.parametrize(
    ("expect", "remedy"),
    [({}, "state `expect"), ({"loss_tolerance": Tolerance(absolute=1e-9)}, "is too narrow")],
)
def test_a_job_that_does_not_repeat_itself_cannot_be_judged(
    expect: dict[str, Any], remedy: str
) -> None:
    history = differs_at(KILLED.history(), 0, 0, 1, 1, by=0.1)

    result = result_on("trajectory", KILLED, history, **expect)

    assert result.status == "inconclusive"
    assert "does not repeat itself here" in result.summary
    assert remedy in result.summary
    assert "in `job.inputs` or delete the folder `.baselines` under reports" in result.summary
    assert find_divergence(analysis_of(KILLED, history, **expect)) is None


def test_without_a_baseline_there_is_no_trajectory() -> None:
    assert result_on("trajectory", KILLED, alone=True).status == "inconclusive"
    assert find_divergence(RunAnalysis(KILLED.plan(), KILLED.history())) is None
