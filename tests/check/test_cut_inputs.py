"""The first step after a resume, where the job had called its model for something else before."""

import pytest

from chaos.check.compare import has_cut_inputs
from chaos.check.steps import Step
from chaos.model.event import StepDone
from chaos.model.events.state import Inputs

SAMPLES = "aaaaaaaabbbbbbbbcccccccc"


def step(attempt: int, samples: str | None, *losses: float) -> Step:
    inputs = Inputs(count=len(samples or "") // 8, digest=samples or "", samples=samples)
    done = StepDone(attempt=attempt, rank=0, epoch=0, step=33, losses=losses, inputs=inputs)
    return Step(1, done)


def test_what_was_called_before_the_save_is_no_input_of_the_step_after_it() -> None:
    assert has_cut_inputs(step(1, SAMPLES[8:]), step(0, SAMPLES))
    assert has_cut_inputs(step(1, SAMPLES[8:], 0.5), step(0, SAMPLES, 0.5))


@pytest.mark.parametrize(
    ("run_step", "baseline_step"),
    [
        (step(0, SAMPLES[8:]), step(0, SAMPLES)),  # without a restart
        (step(1, SAMPLES[:16]), step(0, SAMPLES)),  # the end is missing
        (step(1, SAMPLES), step(0, SAMPLES)),
        (step(1, None), step(0, SAMPLES)),
        (step(1, SAMPLES[8:], 0.5), step(0, SAMPLES, 0.5, 0.25)),  # a micro-batch was lost
    ],
)
def test_other_inputs_are_other_inputs(run_step: Step, baseline_step: Step) -> None:
    assert not has_cut_inputs(run_step, baseline_step)
