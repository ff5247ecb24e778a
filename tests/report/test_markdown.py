"""Markdown that GitHub shows, and commands that it takes."""

import subprocess
import sys
from dataclasses import replace

import pytest

from chaos.report.goodput import build_goodput
from chaos.report.markdown import render_run_markdown, render_suite_markdown
from chaos.report.markdown_parts import LIMIT_BYTES, escape_markdown, fit_text
from chaos.report.outcome import FinishedRun, build_suite_row, build_unrun_row
from chaos.run.ci import STEP_LIMIT_BYTES
from tests.needs import needs_extension


def tables(text: str) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [table for table in found if table]


def test_every_row_of_a_table_has_as_many_cells_as_its_head(guilty_run: FinishedRun) -> None:
    evil = guilty_run.plan.model_copy(update={"scenario": "a | b\n# c <img src=x> `d` [e](f)"})
    run = replace(guilty_run, plan=evil)
    for text in (render_run_markdown(run), render_suite_markdown([build_suite_row(run)])):
        for table in tables(text):
            cells = {line.replace(r"\|", "").count("|") for line in table}
            assert len(cells) == 1
        assert "<img" not in text.replace(r"\<", "")
        assert "\n# c" not in text


def test_unknown_is_no_green_sign(unknown_run: FinishedRun) -> None:
    assert render_run_markdown(unknown_run).startswith("# ❔ worker killed")
    assert "✅" not in render_run_markdown(unknown_run)


def test_the_phases_of_a_run_stand_beside_the_baselines(valid_run: FinishedRun) -> None:
    found = build_goodput(valid_run.analysis)
    assert found is not None
    rows = {row.phase: row for row in found.rows}

    assert found.sentence.startswith("42% of 13.27 s was productive (the baseline: 59%)")
    assert rows["detect"].baseline == "0.00 s"
    assert rows["replay"].by_attempt == ("0.33 s", "0.00 s")


def test_a_run_that_recorded_nothing_has_no_goodput(valid_run: FinishedRun) -> None:
    nothing = replace(valid_run, history=type(valid_run.history)([]), baseline=None)

    assert build_goodput(nothing.analysis) is None
    assert "## Goodput" not in render_run_markdown(nothing)


def test_a_suite_names_what_is_amiss(valid_run: FinishedRun, guilty_run: FinishedRun) -> None:
    text = render_suite_markdown(
        [
            build_suite_row(valid_run),
            build_suite_row(guilty_run),
            build_unrun_row(scenario="s", file="f", error="bad | file"),
        ]
    )

    assert text.startswith("# ❌ chaos: 2 of 3 ")
    assert "42%" in text
    assert "bad \\| file" in text
    assert text.count("\n## ❌") == 2


def test_what_is_too_long_is_cut_at_a_line_and_says_so() -> None:
    text = "\n".join(f"line {number} é" for number in range(1000))
    short = fit_text(text, limit=500)

    assert len(short.encode()) <= 500
    assert short.endswith("(cut here: the rest is in the report)\n")
    assert short.splitlines()[10] == "line 10 é"
    assert fit_text(text, limit=LIMIT_BYTES) == text


def test_a_large_suite_stays_below_githubs_limit(guilty_run: FinishedRun) -> None:
    assert (
        len(render_suite_markdown([build_suite_row(guilty_run)] * 5000).encode()) < STEP_LIMIT_BYTES
    )


def test_plain_words_stay_as_they_are() -> None:
    assert escape_markdown("a worker is killed\n at 5.2 s") == "a worker is killed at 5.2 s"


@pytest.mark.parametrize(
    "module",
    [
        pytest.param("chaos.extensions.lab.compare.comparison", marks=needs_extension("lab")),
        "chaos.report.markdown",
    ],
)
def test_reading_old_runs_starts_neither_ray_nor_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit(bool({{'ray', 'torch'}} & set(sys.modules)))"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
