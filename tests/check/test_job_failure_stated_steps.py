"""Places and lives that are counted by a wrong number of steps are refused, with the right one."""

import pytest

from chaos.errors import JobError
from chaos.job_failure import check_stated_steps
from chaos.model.history import Baseline
from chaos.plan.extent import count_epoch_steps
from tests.check.story import Story


def test_steps_that_no_epoch_has_are_refused_with_those_that_it_has() -> None:
    story = Story()
    baseline = Baseline([story.baseline()])
    (steps,) = set(count_epoch_steps(baseline))
    plan = story.plan()

    check_stated_steps(plan, baseline)
    check_stated_steps(plan.model_copy(update={"stated_steps": (steps,)}), baseline)
    with pytest.raises(JobError) as caught:
        check_stated_steps(plan.model_copy(update={"stated_steps": (steps + 1,)}), baseline)
    text = str(caught.value)
    assert text.startswith("/a/test.chaos.yaml:1: ")
    assert f"states {steps + 1} steps per epoch" in text
    assert f"Write `steps_per_epoch: {steps}`" in text
