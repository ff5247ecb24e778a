"""A process that serves a second trial keeps its `fit()`."""

import pytest
from ray import tune

from chaos.launch.raytrain import compat
from chaos.launch.raytrain.fit import FitWrapper


def test_a_process_that_serves_a_second_trial_has_the_fit_that_it_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("run", "run_experiments"):
        monkeypatch.setattr(tune, name, getattr(tune, name))
    base, fit = compat.trainer_class(), FitWrapper(lambda: pytest.fail("not called"))
    before = base.fit

    fit.intercept(in_trials=True)
    assert base.fit is not before
    fit.release()

    assert base.fit is before
