"""Losses and metrics, compared number by number."""

import math

from chaos.check.analysis import RunAnalysis
from chaos.model import event as ev
from chaos.model.bounds import Tolerance
from chaos.model.history import History
from tests.accepted import expect_text
from tests.check.story import Story, Strike, loss
from tests.check.tamper import changed, result_on, verdict_on
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


def test_losses_that_were_resolved_later_are_joined() -> None:
    assert result_on("trajectory", Story(KILLED.strikes, sync=False)).evidence == 64


def test_a_tolerance_lets_small_differences_pass_and_no_others() -> None:
    history = differs_at(KILLED.history(), 1, 1, 2, 4, by=0.01)
    wide, narrow = Tolerance(relative=0.1), Tolerance(absolute=0.001)

    assert result_on("trajectory", KILLED, history, loss_tolerance=wide).status == "pass"
    assert result_on("trajectory", KILLED, history, loss_tolerance=narrow).status == "fail"
    expect_text(verdict_on(KILLED, history, loss_tolerance=wide).headline)


def test_lost_work_before_the_fault_is_part_of_the_control() -> None:
    history = differs_at(KILLED.history(), 0, 0, 2, 1, by=0.1)

    assert result_on("trajectory", KILLED, history).status == "inconclusive"


def test_a_metric_that_never_repeats_is_left_out_by_name() -> None:
    result = result_on("trajectory", Story(KILLED.strikes, wall=True))

    assert result.status == "pass"
    assert result.measures["metrics_not_compared"] == "seconds"


def test_a_metric_that_differs_after_the_restart_is_named() -> None:
    history = changed(
        KILLED.history(),
        ev.Committed,
        lambda e: e.epoch == 3,
        metrics=lambda e: (e.metrics[0], {**e.metrics[1], "accuracy": 0.5}),
    )

    verdict = verdict_on(KILLED, history)

    expect_finding(
        verdict.broken[0],
        "numbers-differ-later",
        number_type="metric",
        first_pair={"epoch": 3, "rank": 1, "value_name": "accuracy", "attempt": 1},
    )
    assert "on its `accuracy` differs" in verdict.headline


def test_a_metric_that_is_gone_after_the_restart_differs() -> None:
    history = changed(KILLED.history(), ev.Committed, lambda e: e.epoch == 3, metrics=({}, {}))

    assert "nothing instead of" in result_on("trajectory", KILLED, history).summary


def test_another_number_of_micro_batches_differs() -> None:
    history = changed(
        KILLED.history(),
        ev.StepDone,
        lambda e: e.attempt == 1,
        losses=lambda e: (*e.losses, 0.0),
    )

    expect_finding(
        result_on("trajectory", KILLED, history),
        "numbers-differ-at-resume",
        number_type="backward passes",
        first_pair={"epoch": 2, "step": 1, "run_value": 2, "baseline_value": 1, "attempt": 1},
    )


def test_a_step_without_any_loss_on_either_side_is_not_compared() -> None:
    def nothing(history: History) -> History:
        where = lambda e: (e.epoch, e.step) == (3, 2)  # noqa: E731 (one word of a line)
        return changed(history, ev.StepDone, where, losses=())

    analysis = RunAnalysis(KILLED.plan(), nothing(KILLED.history()), nothing(KILLED.baseline()))

    assert analysis.comparison is not None
    assert (analysis.comparison.unpaired_steps, analysis.comparison.losses.compared_count) == (
        2,
        46,
    )
