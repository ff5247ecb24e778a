"""What people read: units, the Markdown of GitHub's page, and the validation in all of them."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from chaos.preflight.answer import Answer, answer
from chaos.preflight.change import changed
from chaos.preflight.comparison import Comparison, Validation
from chaos.preflight.effort import Effort
from chaos.preflight.estimate import Estimate
from chaos.preflight.figures import figure_rows
from chaos.preflight.page import render_answer
from chaos.preflight.rules.sound import sound_question
from chaos.preflight.summary import render_summary
from chaos.preflight.terminal import show_answer
from chaos.preflight.words import in_hours

HELD = Validation(
    "30 runs | on <fork>",
    (
        Comparison("finish", "s", 30, Estimate(6, 5, 7), Estimate(6.5, 6, 7), 0.9),
        Comparison("attempts", "", 30, Estimate(3, 2.5, 3.5), Estimate(4, 3.6, 4.4), None),
    ),
    ("one run did not finish",),
)


@pytest.fixture(scope="module")
def held() -> Answer:
    asked = changed(sound_question(), {"settings.max_failures": 0})
    return replace(answer(asked, Effort(runs=200, jobs=1)), validation=(HELD,))


@pytest.mark.parametrize(
    ("hours", "text"), [(30, "30.0 h"), (2, "2.0 h"), (0.5, "30.0 min"), (0.001, "3.6 s")]
)
def test_a_time_is_said_in_the_unit_that_fits_it(hours: float, text: str) -> None:
    assert in_hours(hours) == text


def test_a_job_of_seconds_has_its_figures_in_seconds() -> None:
    short = changed(sound_question(), {"job.steps": 3, "job.checkpoint_every_steps": 1})

    rows = figure_rows(answer(short, Effort(runs=200, jobs=1)))

    name, low, *_ = next(row for row in rows if row[0].startswith("finishes"))
    assert name in {"finishes after, s", "finishes after, min"}
    assert float(low) > 1


def test_the_difference_stands_in_every_report_whether_it_flatters_or_not(held: Answer) -> None:
    written = StringIO()
    Console(file=written, width=80).print(show_answer(held))

    for text in (written.getvalue(), render_answer(held), render_summary(held)):
        assert "6 (5 to 7)" in text
        assert "4 (3.6 to 4.4)" in text
        assert "-25.0" in text  # predicted 3, measured 4
    assert held.to_json()["validation"][0]["figures"][1]["agrees"] is False
    assert "✗ attempts" in written.getvalue()
    assert "one run did not finish" in written.getvalue()


def test_markdown_keeps_its_cells_and_opens_no_tag(held: Answer) -> None:
    text = render_summary(held)

    assert "30 runs \\| on &lt;fork&gt;" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert all(line.endswith("|") for line in rows)
    assert "`no-retry`" in text
    assert "--set settings.max_failures=" in text


def test_without_figures_the_summary_says_what_is_missing() -> None:
    bare = sound_question().model_copy(update={"costs": None})

    text = render_summary(answer(bare, Effort(runs=200, jobs=1)))

    assert text.startswith("### ❔ preflight: unknown")
    assert "calibrate" in text
