"""What people read: units, the Markdown of GitHub's page, and the validation in all of them."""

import math
import shlex
from dataclasses import replace

import pytest

from chaos.extensions.preflight.answer import Answer, answer_question
from chaos.extensions.preflight.command import parse_assignments
from chaos.extensions.preflight.estimate import Estimate, format_hours
from chaos.extensions.preflight.forecast import Effort
from chaos.extensions.preflight.market import find_preset
from chaos.extensions.preflight.page import render_answer
from chaos.extensions.preflight.question import change_question
from chaos.extensions.preflight.render import figure_rows, format_set_options
from chaos.extensions.preflight.validation import FigureComparison, Validation
from chaos.extensions.preflight.verdict import Word, find_verdict
from tests.extensions.preflight.questions import sound_question
from tests.extensions.preflight.shown import in_markdown, shown

HELD = Validation(
    "30 runs | on <fork>",
    (
        FigureComparison("finish", "s", 30, Estimate(6, 5, 7), Estimate(6.5, 6, 7), 0.9),
        FigureComparison("attempts", "", 30, Estimate(3, 2.5, 3.5), Estimate(4, 3.6, 4.4), None),
    ),
    ("one run did not finish",),
)


@pytest.fixture(scope="module")
def held() -> Answer:
    asked = change_question(sound_question(), {"settings.max_failures": 0})
    return replace(answer_question(asked, Effort(runs=200, jobs=1)), validation=(HELD,))


@pytest.mark.parametrize(
    ("hours", "text"), [(30, "30.0 h"), (2, "2.0 h"), (0.5, "30.0 min"), (0.001, "3.6 s")]
)
def test_a_time_is_said_in_the_unit_that_fits_it(hours: float, text: str) -> None:
    assert format_hours(hours) == text


def test_a_job_of_seconds_has_its_figures_in_seconds() -> None:
    short = change_question(sound_question(), {"job.steps": 3, "job.checkpoint_every_steps": 1})

    rows = figure_rows(answer_question(short, Effort(runs=200, jobs=1)))

    name, low, *_ = next(row for row in rows if row[0].startswith("finishes"))
    assert name in {"finishes after, s", "finishes after, min"}
    assert float(low) > 1


def test_the_difference_stands_in_every_report_whether_it_flatters_or_not(held: Answer) -> None:
    for text in (shown(held), render_answer(held), in_markdown(held)):
        assert "6 (5 to 7)" in text
        assert "4 (3.6 to 4.4)" in text
        assert "-25.0" in text  # predicted 3, measured 4
    assert held.dump_values()["validation"][0]["figures"][1]["agrees"] is False
    assert "✗ attempts" in shown(held)
    assert "one run did not finish" in shown(held)


def test_markdown_keeps_its_cells_and_opens_no_tag(held: Answer) -> None:
    text = in_markdown(held)

    assert "30 runs \\| on \\<fork\\>" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert all(line.endswith("|") for line in rows)
    assert "**✗ no-retry**" in text
    assert "--set settings.max_failures=" in text


def test_without_figures_the_summary_says_what_is_missing() -> None:
    bare = sound_question().model_copy(update={"costs": None})

    text = in_markdown(answer_question(bare, Effort(runs=200, jobs=1)))

    assert text.startswith("# ❔ preflight: cannot tell")
    assert "calibrate" in text


def cut_off() -> Answer:
    """Return the answer for a job that mostly waits: it is watched for half as long again."""
    places = {
        "market": find_preset("unannounced-16h").model_dump(mode="json"),
        "job.nodes": 64,
        "job.min_nodes": None,
        "job.spare_nodes": 0,
        "settings.max_failures": -1,
        "goal.deadline_h": 12.0,
    }
    return answer_question(change_question(sound_question(), places), Effort(runs=200, jobs=1))


def test_a_run_that_was_cut_off_is_not_called_one_that_never_finishes() -> None:
    found = cut_off()
    text, page = shown(found), render_answer(found)

    assert found.forecast is not None
    assert found.forecast.finish_h.middle == math.inf
    rows = {line.partition("  ")[0]: line.split()[1:] for line in text.splitlines()}
    assert "> 18" in " ".join(
        next(line for line in text.splitlines() if "finishes after" in line).split()
    )
    assert "never" not in text
    assert "not within 18.0 h" in page
    assert "never" not in page.partition("<script")[0]
    assert "≥" in rows["restarts"]
    assert "within 18.0 h" in find_verdict(found.question, found.forecast, (), None)[1]
    assert found.dump_values()["forecast"]["finish_h"]["middle"] == "Infinity"


def test_where_retries_run_out_it_is_never() -> None:
    places = {
        "market": find_preset("unannounced-16h").model_dump(mode="json"),
        "settings.max_failures": 0,
        "goal.deadline_h": None,
    }
    found = answer_question(change_question(sound_question(), places), Effort(runs=200, jobs=1))

    assert "never" in next(line for line in shown(found).splitlines() if "finishes" in line)
    # One share of one source, in the rule as in the row.
    row = next(line for line in shown(found).splitlines() if line.startswith("retries run out"))
    share = row.split()[4]
    assert f"ends {share} of runs" in next(f.text for f in found.findings if f.rule == "no-retry")


def test_a_cost_above_the_on_demand_price_is_explained() -> None:
    assert "above 100 %, or in times, it is dearer than on demand" in " ".join(
        shown(cut_off()).split()
    )
    assert "above 100 %, or in times, it is dearer than on demand" in render_answer(cut_off())


def test_money_is_said_where_a_price_is_given() -> None:
    priced = change_question(
        sound_question(), {"costs.price_per_node_hour": 12.5, "costs.currency": "EUR"}
    )
    found = answer_question(priced, Effort(runs=200, jobs=1))
    assert found.forecast is not None
    on_demand = (40_000 + 8 + 20 + 37) / 3600 * 8 * 12.5  # saved once; schedule, start, restore

    for text in (shown(found), render_answer(found), in_markdown(found)):
        assert f"EUR {on_demand:,.0f}" in text
        assert f"{found.forecast.cost.middle * on_demand:,.0f}" in text
    assert "USD" not in shown(answer_question(sound_question(), Effort(runs=200, jobs=1)))


def test_the_line_to_paste_is_whole_and_is_what_a_shell_takes() -> None:
    changes = {"job.min_nodes": None, "settings.run_name": "big run", "job.saves_on_notice": True}

    text = format_set_options(changes)

    words = shlex.split(text.replace("\\\n", ""))
    assert parse_assignments(words[1::2]) == changes
    assert max(len(line) for line in text.splitlines()) < 60


@pytest.mark.parametrize(
    ("word", "mark", "tone", "emoji"),
    [
        ("go", "✓", "good", "✅"),
        ("go with changes", "!", "open", "⚠"),
        ("no-go", "✗", "bad", "❌"),
        ("cannot tell", "?", "calm", "❔"),
    ],
)
def test_every_word_has_a_colour_and_a_sign_of_its_own(
    held: Answer, word: Word, mark: str, tone: str, emoji: str
) -> None:
    found = replace(held, word=word)

    assert shown(found).startswith(f"{mark} {word}: ")
    assert f'class="banner {tone}"' in render_answer(found)
    assert in_markdown(found).startswith(f"# {emoji}")
