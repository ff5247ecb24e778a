"""The first step after a resume, where the job had called its model for something else before."""

import pytest

from chaos.check.compare import has_cut_inputs
from chaos.model.event import StepDone
from chaos.model.events.state import Inputs
from chaos.resume.steps import Step

SAMPLES = "aaaaaaaabbbbbbbbcccccccc"


def step(attempt: int, samples: str | int, *losses: float) -> Step:
    """Return a step with these samples, or so many that there is their number alone."""
    count, texts = (samples, None) if isinstance(samples, int) else (len(samples) // 8, samples)
    inputs = Inputs(count=count, digest=str(samples), samples=texts)
    done = StepDone(attempt=attempt, rank=0, epoch=0, step=33, losses=losses, inputs=inputs)
    return Step(1, done)


def test_what_was_called_before_the_save_is_no_input_of_the_step_after_it() -> None:
    assert has_cut_inputs(step(1, SAMPLES[8:]), step(0, SAMPLES))
    assert has_cut_inputs(step(1, SAMPLES[8:], 0.5), step(0, SAMPLES, 0.5))
    assert has_cut_inputs(step(1, SAMPLES[8:]), step(0, 600))


@pytest.mark.parametrize(
    ("run_step", "baseline_step"),
    [
        (step(0, SAMPLES[8:]), step(0, SAMPLES)),  # without a restart
        (step(1, SAMPLES[:16]), step(0, SAMPLES)),  # the end is missing
        (step(1, SAMPLES), step(0, SAMPLES)),
        (step(1, 0), step(0, SAMPLES)),
        (step(1, 700), step(0, 600)),
        (step(1, 500, 0.5), step(0, 600, 0.5)),
        (step(1, SAMPLES[8:], 0.5), step(0, SAMPLES, 0.5, 0.25)),  # a micro-batch was lost
    ],
)
def test_other_inputs_are_other_inputs(run_step: Step, baseline_step: Step) -> None:
    assert not has_cut_inputs(run_step, baseline_step)
