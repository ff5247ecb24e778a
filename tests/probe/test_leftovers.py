"""Trials beside the one under test are summed up from their histories."""

from chaos.launch.ray.leftovers import build_bystander
from chaos.model.event import FitReturned
from tests.check.story import Story, Strike
from tests.check.tamper import told, without


def test_a_trial_beside_it_is_summed_up_from_its_history() -> None:
    calm, begun_again = Story(), Story((Strike(2, 3, 1),))

    seen = build_bystander(1, told(calm.history(), FitReturned(metrics={}, checkpoint=None)))
    again = build_bystander(1, begun_again.history())

    assert (seen.trial, seen.attempts, seen.failures, seen.finished) == (1, 1, 0, True)
    assert (again.attempts, again.failures) == (2, 1)
    assert seen.losses == again.losses  # it came out the same
    assert seen.losses != build_bystander(1, Story(ranks=1).history()).losses
    assert build_bystander(1, calm.history(), calm.history()).attempts == 2  # Tune began it again
    assert not build_bystander(1, without(calm.history(), FitReturned)).finished
