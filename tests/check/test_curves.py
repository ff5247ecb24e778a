"""The curves of a run and of its baseline, on one axis."""

from chaos.check.analysis import RunAnalysis
from chaos.check.curves import build_curves
from chaos.model import event as ev
from tests.check.story import Story, Strike, loss
from tests.check.tamper import analysis_of, changed

KILLED = Story((Strike(2, 3, 1),))


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
