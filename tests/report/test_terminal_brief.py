"""What a person reads below a failing test."""

from dataclasses import replace

from chaos.model.event import StepDone
from chaos.model.history import History
from chaos.report.outcome import FinishedRun
from chaos.report.sections import ListLimits, list_broken_promises
from chaos.report.terminal import build_explanation, describe_interrupted_run, render_plain_text


def test_it_begins_with_what_was_expected_and_fits_the_terminal(guilty_run: FinishedRun) -> None:
    said = render_plain_text(build_explanation(guilty_run), width=80).splitlines()

    assert said[0] == guilty_run.verdict.expectation
    assert max(map(len, said)) <= 80


def test_what_stands_nowhere_above_is_said_in_full(guilty_run: FinishedRun) -> None:
    (found,) = list_broken_promises(guilty_run.verdict, ListLimits(), shown_text="Timeout")

    assert found.text == guilty_run.verdict.broken[0].anomalies[0].message


def test_a_run_that_was_broken_off_says_how_far_it_had_come(valid_run: FinishedRun) -> None:
    last = [n for n, entry in enumerate(valid_run.history) if isinstance(entry.event, StepDone)][-1]
    cut = replace(valid_run, history=History(valid_run.history[: last + 1]))
    unbegun = replace(valid_run, history=History(()))

    said = render_plain_text(describe_interrupted_run(cut, "Timeout"), width=100)

    step = valid_run.history[last].event
    assert isinstance(step, StepDone)
    assert f"epoch {step.epoch}, step {step.step} of attempt 1" in said
    assert "Training had not begun" in render_plain_text(
        describe_interrupted_run(unbegun, "t"), width=80
    )
