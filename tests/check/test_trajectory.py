"""Number by number: trajectory, and the curves drawn from it."""

import math
from typing import Any

import pytest

from chaos.check.analysis import RunAnalysis
from chaos.check.curves import build_curves
from chaos.check.divergence import find_divergence
from chaos.check.judge import judge
from chaos.check.values import NumberPair, parse_number
from chaos.faults.slow_worker import SlowWorker
from chaos.model import event as ev
from chaos.model.bounds import Tolerance
from chaos.model.history import History
from chaos.model.plan import Op
from chaos.model.trigger import AtStep
from tests.accepted import expect_text
from tests.check.story import Story, Strike, loss
from tests.check.tamper import analysis_of, changed, result_on, verdict_on, without
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


def test_losses_that_were_resolved_later_are_joined() -> None:
    assert result_on("trajectory", Story(KILLED.strikes, sync=False)).evidence == 64


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


def test_the_headline_keeps_to_what_is_known() -> None:
    history = differs_at(KILLED.history(), 1, 0, 2, 1, by=0.25)

    expect_text(verdict_on(KILLED, history).headline)


def test_the_first_of_many_differences_is_named() -> None:
    history = differs_at(KILLED.history(), 1, 1, 3, 2)
    history = differs_at(history, 1, 1, 2, 5)
    history = differs_at(history, 1, 0, 3, 1)

    first = find_divergence(analysis_of(KILLED, history))

    assert first is not None
    assert first.order == ((2, 5), 1)


def test_a_tolerance_lets_small_differences_pass_and_no_others() -> None:
    history = differs_at(KILLED.history(), 1, 1, 2, 4, by=0.01)
    wide, narrow = Tolerance(relative=0.1), Tolerance(absolute=0.001)

    assert result_on("trajectory", KILLED, history, loss_tolerance=wide).status == "pass"
    assert result_on("trajectory", KILLED, history, loss_tolerance=narrow).status == "fail"
    expect_text(verdict_on(KILLED, history, loss_tolerance=wide).headline)


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


def test_lost_work_before_the_fault_is_part_of_the_control() -> None:
    history = differs_at(KILLED.history(), 0, 0, 2, 1, by=0.1)

    assert result_on("trajectory", KILLED, history).status == "inconclusive"


def test_a_difference_without_any_control_is_unknown() -> None:
    def first_attempt(event: ev.StepDone) -> bool:
        return event.attempt == 0

    history = without(KILLED.history(), ev.StepDone, first_attempt)

    assert result_on("trajectory", KILLED, history).status == "pass"
    expect_text(result_on("trajectory", KILLED, differs_at(history, 1, 1, 2, 4)).summary)


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


def test_without_losses_and_metrics_there_is_no_evidence() -> None:
    history = changed(changed(KILLED.history(), ev.StepDone, losses=None), ev.Committed, metrics=())

    assert result_on("trajectory", KILLED, history).status == "inconclusive"


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


def test_what_is_right_is_said_only_where_it_was_shown() -> None:
    late = Story((Strike(3, 5, 1, kind="preempt_node", drift=99),))

    op = Op(index=0, at=AtStep(epoch=3, step=5, rank=1), slow_worker=SlowWorker(delay_s=1.0))
    plan = late.plan().model_copy(update={"ops": (op,)})
    verdict = judge(plan, differs_at(late.history(), 0, 0, 3, 6, by=0.25), late.baseline())

    assert "the job finished, but from epoch 3, step 6 on its loss differs" in verdict.headline
    assert "are right" not in verdict.headline


def test_without_a_baseline_there_is_no_trajectory() -> None:
    assert result_on("trajectory", KILLED, alone=True).status == "inconclusive"
    assert find_divergence(RunAnalysis(KILLED.plan(), KILLED.history())) is None


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("ours", "baseline", "agrees"),
    [
        (NAN, NAN, True),
        (NAN, 1.0, False),
        (1.0, NAN, False),
        (INF, INF, True),
        (INF, -INF, False),
        (1.0, INF, False),
        (None, None, True),
        (None, 1.0, False),
        (1.0, 1.5, True),
        (1.0, 3.0, False),
    ],
)
def test_numbers_agree_within_a_tolerance(
    ours: float | None, baseline: float | None, agrees: bool
) -> None:
    pair = NumberPair(0, 1, 0, "loss", ours, baseline, 0, 0)

    assert pair.agrees(Tolerance(absolute=0.5)) is agrees


@pytest.mark.parametrize(
    ("value", "expected"), [("inf", INF), ("-inf", -INF), (3, 3), (True, None), ("3", None)]
)
def test_only_numbers_are_compared(value: object, expected: float | None) -> None:
    assert parse_number(value) == expected


def test_a_relative_difference_needs_something_to_be_relative_to() -> None:
    assert NumberPair(0, 1, 0, "loss", 1.0, 0.0, 0, 0).relative_difference is None


def test_curves_share_an_axis_and_keep_the_lost_work() -> None:
    drawn = build_curves(analysis_of(KILLED))

    assert [point.position for point in drawn.baseline] == list(range(1, 25))
    assert [point.position for point in drawn.run if point.lost] == [13, 14, 15]
    assert [point.position for point in drawn.run if not point.lost] == list(range(1, 25))
    assert drawn.run[0].loss == loss(0, 0, 1)


def test_curves_can_be_drawn_without_a_baseline_and_without_losses() -> None:
    analysis = analysis_of(KILLED, changed(KILLED.history(), ev.StepDone, losses=("nan", 1.0)))
    alone = RunAnalysis(analysis.plan, changed(analysis.history, ev.StepDone, losses=None))

    assert build_curves(analysis).run[0].loss is None
    assert build_curves(alone, rank=1).run[0].loss is None
    assert build_curves(alone).baseline == ()


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
